"""Does an agent or an environment keep its contract? Checked by shape, before any work.

`plan` calls these for everything it is given, so a rule that a user's own agent or
environment breaks is named before a run starts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo import values as plain_values
from lcpo.distributions import Distribution
from lcpo.envs.base import AnyEnv, CompiledEnv, HostEnv, is_host, obs_layout
from lcpo.errors import CannotServe, InputError, tell
from lcpo.run.plan.budget import available_bytes
from lcpo.run.store.record import TOTAL
from lcpo.types import AnyAgent, ContextSlice, Guard, Metrics, Spec, Step, Transition

MAX_ACTIONS = 10_000
"""Per dimension: the program that samples one has a line for each."""
RECORDED = (
    "step", "updates", "epochs", "epoch_return", "episodes", "episode_return_sum",
    "episode_length_sum", "reward", "largest_obs",
)  # fmt: skip
"""Columns of every record."""
EXPORTED = ("name", "agent", "env", "trace", "seed", "status", "scale", "steps", "training")
"""Columns that `lcpo export` puts before those of a record."""
RESERVED = {*RECORDED, *EXPORTED, "file", "allow_pickle"}
"""Names that no metric of an agent may have; the last two are arguments of np.savez,
with which others may write a record again."""
RESERVED_STARTS = ("tv_", TOTAL, "config.", "env_config.")
"""Of the metrics of landmarks, of readings, and of settings in an exported table."""


@contextlib.contextmanager
def _users_code(what: str) -> Iterator[None]:
    """What the code of an agent or environment raises is told in a line, with its place."""
    try:
        yield
    except InputError:
        raise
    except (OverflowError, MemoryError) as error:
        raise InputError(f"{what} raised: {tell(error)}: make its sizes smaller") from error
    except (Exception, SystemExit) as error:
        raise InputError(f"{what} raised: {tell(error)}") from error


def check_env(env: AnyEnv, name: str = "the environment") -> None:
    """Raise InputError with the rule that the environment breaks."""

    def fail(rule: str) -> None:
        raise InputError(f"{name}: {rule}")

    needed = ("spec", "advance", "open") if is_host(env) else ("spec", "advance", "reset", "step")
    for member in needed:
        if not hasattr(type(env), member) and not hasattr(env, member):
            fail(f"has no `{member}`: see lcpo.envs.base")
    with _users_code(f"{name}: its spec or advance"):
        spec, advance = env.spec, env.advance
    if not isinstance(advance, str) or advance not in ("step", "episode", "own"):
        fail(f"advance = {advance!r}: needs 'step', 'episode' or 'own'")
    check_spec(spec, fail)
    if spec.contiguous_contexts and env.advance == "episode":
        fail("spec.contiguous_contexts promises a new row at every step, but advance = 'episode'")
    if is_host(env):
        _check_host(env, name, fail)
    else:
        _check_compiled(env, name, fail)


def check_spec(spec: Any, fail: Callable[[str], None]) -> None:
    """Are the sizes in a spec sizes?"""
    if not isinstance(spec, Spec):
        fail(f"spec is a {type(spec).__name__}: needs lcpo.types.Spec")
    if not isinstance(spec.context, ContextSlice):
        fail(f"spec.context is a {type(spec.context).__name__}: needs lcpo.types.ContextSlice")
    if spec.distribution is None:
        _check_counts(spec.num_actions, fail)
    elif not isinstance(spec.distribution, Distribution) or spec.num_actions:
        fail(f"spec.distribution = {spec.distribution!r}, spec.num_actions = {spec.num_actions}: "
             "needs one of the two, numbers of actions or a Distribution")  # fmt: skip
    sizes = {"obs_size": (spec.obs_size, 1), "num_worlds": (spec.num_worlds, 1)}
    sizes |= {f"context.{k}": (v, 0) for k, v in spec.context._asdict().items()}
    for field, (value, low) in sizes.items():
        if not _is_size(value, low):
            fail(f"spec.{field} = {plain_values.shown(value)}: needs a whole number from {low} on")
    guard = spec.guard
    if guard is not None and not (
        isinstance(guard, Guard)
        and 0 <= guard.entry < spec.obs_size
        and len(guard.action) == spec.action_size
        and all(0 <= a < n for a, n in zip(guard.action, spec.num_actions, strict=False))
    ):
        fail(f"spec.guard = {guard}: needs lcpo.types.Guard, an entry of the observation and one "
             "of the actions")  # fmt: skip
    if spec.context.end > spec.obs_size:
        fail(f"spec.context ends at {spec.context.end}, the observation at {spec.obs_size}")


def _is_size(value: Any, low: int) -> bool:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and low <= int(value) <= plain_values.INT_MAX


def _check_counts(counts: Any, fail: Callable[[str], None]) -> None:
    """Are these numbers of actions?"""
    if not isinstance(counts, tuple) or not counts or not all(_is_size(n, 2) for n in counts):
        fail(f"spec.num_actions = {counts}: needs two actions or more per dimension, as a tuple")
    if max(counts) > MAX_ACTIONS:
        fail(f"spec.num_actions = {counts}: needs at most {MAX_ACTIONS:,} per dimension")


def _check_host(env: HostEnv, name: str, fail: Callable[[str], None]) -> None:
    """One reset and one step of the worlds of one run."""
    spec, count = env.spec, env.spec.num_worlds
    traced = configs.traced_fields(env)
    if traced:
        fail(f"{', '.join(traced)} are traced: fields of a host environment are static")
    layout = obs_layout(spec, env.advance)
    shape = (count, layout.num_features)
    action = np.zeros((count, spec.action_size), spec.actions.dtype)
    context = np.zeros((count, layout.channels), np.float32)
    try:
        worlds = env.open(count, list(range(count)), 1)
        features, step = worlds.reset(np.ones(count, bool)), worlds.step(action, context)
        worlds.close()
    except InputError as error:  # says what to do
        raise InputError(f"{name}: {error}") from error
    except (Exception, SystemExit) as error:  # of the user's code
        why = tell(error)
        raise InputError(f"{name}: its worlds do not open, reset and step ({why})") from error
    if not isinstance(step, Step):
        fail(f"step returns a {type(step).__name__}: needs lcpo.types.Step")
    for what, found in (("reset", features), ("step", step.obs)):
        if np.shape(found) != shape:
            fail(f"{what} returns features of shape {np.shape(found)}: needs {shape}")
    for field in ("reward", "terminated", "truncated"):
        if np.shape(getattr(step, field)) != (count,):
            fail(f"step.{field} has shape {np.shape(getattr(step, field))}: needs ({count},)")
    _check_extras(step, spec, (count,), fail)


def _check_compiled(env: CompiledEnv[Any], name: str, fail: Callable[[str], None]) -> None:
    spec = env.spec
    layout = obs_layout(spec, env.advance)
    size = layout.num_features
    key = jax.random.key(0)
    with _users_code(f"{name}: reset(key) -> (state, obs)"):
        state, obs = jax.eval_shape(env.reset, key)
    if getattr(obs, "shape", None) is None:
        fail(f"reset returns (state, {type(obs).__name__}): needs (state, obs), an array")
    if obs.shape != (size,):
        fail(
            f"reset returns obs of shape {obs.shape}: spec.obs_size = {spec.obs_size} less "
            f"{layout.context_size} context entries, which the driver appends, makes ({size},)"
        )
    action = jax.ShapeDtypeStruct((spec.action_size,), spec.actions.dtype)
    context = jax.ShapeDtypeStruct((layout.channels,), jnp.float32)
    with _users_code(f"{name}: step(state, action, context, key)"):
        after, step = jax.eval_shape(env.step, state, action, context, key)
    if not isinstance(step, Step):
        fail(f"step returns (state, {type(step).__name__}): needs (state, lcpo.types.Step)")
    _same(state, after, f"{name}: step changes the state's")
    if step.obs.shape != (size,):
        fail(f"step returns obs of shape {step.obs.shape}: needs ({size},)")
    for field in ("reward", "terminated", "truncated"):
        if jnp.shape(getattr(step, field)) != ():
            fail(f"step.{field} has shape {jnp.shape(getattr(step, field))}: needs a scalar")
    for field in ("terminated", "truncated"):
        if jnp.result_type(getattr(step, field)) != jnp.bool_:
            fail(f"step.{field} is {jnp.result_type(getattr(step, field))}: needs bool")
    _check_extras(step, spec, (), fail)


def _check_extras(
    step: Step, spec: Spec, lead: tuple[int, ...], fail: Callable[[str], None]
) -> None:
    """What only some environments have."""
    if step.action is not None and np.shape(step.action) != (*lead, spec.action_size):
        wanted = (*lead, spec.action_size)
        fail(f"step.action has shape {np.shape(step.action)}: needs {wanted}, or None")
    if spec.readings and np.shape(step.readings) != (*lead, len(spec.readings)):
        wanted = (*lead, len(spec.readings))
        fail(f"step.readings has shape {np.shape(step.readings)}: needs {wanted}, a number for "
             f"each of {', '.join(spec.readings)}")  # fmt: skip


def check_rollout_length(agent: AnyAgent, config: Any) -> None:
    """Raise InputError unless the config says how many steps come before an update."""
    if not _is_size(getattr(config, "rollout_length", None), 1):
        raise InputError(
            f"agent {agent.name}: its config needs the static field rollout_length, from 1 on"
        )


def check_values(agent: AnyAgent, config: Any, spec: Spec) -> None:
    """Raise CannotServe if the agent's own `check` does."""
    if agent.check is not None:
        with _users_code(f"agent {agent.name}: check(config, spec)"):
            try:
                agent.check(config, spec)
            except InputError as error:
                raise CannotServe(str(error)) from error


_traced: set[Hashable] = set()
"""Programs that `check_agent` has accepted."""


def check_program(agent: AnyAgent, config: Any, spec: Spec) -> None:
    """`check_agent`; for a program that was traced before, only what depends on values."""
    program = (agent.root, jax.tree.structure(config), spec)
    if program in _traced:
        check_values(agent, config, spec)
    else:
        check_agent(agent, config, spec)
    _traced.add(program)


def check_agent(agent: AnyAgent, config: Any, spec: Spec) -> None:
    """Raise InputError with the rule that the agent breaks, CannotServe if its `check` does."""
    name = f"agent {agent.name}"
    check_rollout_length(agent, config)
    check_values(agent, config, spec)
    key = jax.random.key(0)
    with _users_code(f"{name}: init(config, spec, key)"):
        state = jax.eval_shape(lambda k: agent.init(config, spec, k), key)
    worlds, steps = spec.num_worlds, config.rollout_length

    def array(*shape: int, dtype: Any = jnp.float32) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype)

    obs = array(worlds, spec.obs_size)
    with _users_code(f"{name}: act -> (action, extra)"):
        action, extra = jax.eval_shape(
            lambda s, o, k: agent.act(config, spec, s, o, k), state, obs, key
        )
    if getattr(action, "shape", None) is None:
        raise InputError(
            f"{name}: act returns actions as a {type(action).__name__}: needs an array"
        )
    whole, is_whole = (jnp.issubdtype(x.dtype, jnp.integer) for x in (spec.actions, action))
    if action.shape != (worlds, spec.action_size) or whole != is_whole:
        needed = "integers" if whole else "real numbers"
        raise InputError(
            f"{name}: act returns actions {action.dtype}{list(action.shape)}: needs {needed} "
            f"[{worlds}, {spec.action_size}], one per world and action dimension"
        )
    scalar, flag = array(steps, worlds), array(steps, worlds, dtype=jnp.bool_)
    many_obs = array(steps, worlds, spec.obs_size)
    batch = Transition(
        many_obs, array(steps, *action.shape, dtype=action.dtype), scalar, many_obs, flag, flag,
        scalar, scalar, jax.tree.map(lambda x: array(steps, *x.shape, dtype=x.dtype), extra),
        array(steps, worlds, len(spec.readings)) if spec.readings else (),
    )  # fmt: skip
    with _users_code(f"{name}: update -> (state, metrics)"):
        program, (after, metrics) = jax.make_jaxpr(
            lambda s, b, k: agent.update(config, spec, s, b, k), return_shape=True
        )(state, batch, key)
    _check_memory(_largest_bytes(program.jaxpr), name)
    _same(state, after, f"{name}: update changes the state's")
    _check_metrics(metrics, name)


def _check_memory(needed: int, name: str) -> None:
    free = available_bytes()
    if free is not None and needed > free:
        raise InputError(
            f"{name}: update makes an array of {needed / 2**30:,.1f} GiB, {free / 2**30:.1f} GiB "
            "are free: make the sizes in its config smaller, such as rollout length or batch size"
        )


def _largest_bytes(program: Any) -> int:
    """Size of the largest array in a jaxpr, and in those within it."""
    found = [*program.invars, *program.constvars]
    inner = []
    for step in program.eqns:
        found += step.outvars
        for value in step.params.values():
            parts = value if isinstance(value, (tuple, list)) else [value]
            inner += [part for part in (getattr(p, "jaxpr", p) for p in parts) if _is_jaxpr(part)]
    sizes = [x.aval.size * getattr(x.aval.dtype, "itemsize", 4) for x in found]
    return max([0, *sizes, *map(_largest_bytes, inner)])


def _is_jaxpr(value: Any) -> bool:
    return hasattr(value, "eqns") and hasattr(value, "invars")


def _check_metrics(metrics: Metrics, name: str) -> None:
    if not isinstance(metrics, dict):
        raise InputError(
            f"{name}: update returns metrics as {type(metrics).__name__}: needs a dict"
        )
    for key, value in metrics.items():
        if not isinstance(key, str) or not key or not key.isprintable():
            raise InputError(f"{name}: a metric is called {key!r}: needs a name")
        if key in RESERVED or key.startswith(RESERVED_STARTS) or key.endswith(".npy"):
            raise InputError(
                f"{name}: a metric is called {key!r}, which is a column of the record or of an "
                "exported table already: give it another name"
            )
        if getattr(value, "shape", None) != ():
            shape = getattr(value, "shape", type(value).__name__)
            raise InputError(f"{name}: metric {key!r} has shape {shape}: needs a scalar")
        if not any(jnp.issubdtype(value.dtype, x) for x in (jnp.floating, jnp.integer, jnp.bool_)):
            raise InputError(f"{name}: metric {key!r} is {value.dtype}: needs a real number")


def _same(before: Any, after: Any, what: str) -> None:
    """Same tree, shapes and dtypes: what a loop carries must not change."""
    if jax.tree.structure(before) != jax.tree.structure(after):
        raise InputError(f"{what} structure: it must return the tree that it was given")
    pairs = zip(
        jax.tree_util.tree_flatten_with_path(before)[0], jax.tree.leaves(after), strict=True
    )
    for (path, old), new in pairs:
        if old.shape != new.shape or old.dtype != new.dtype:
            raise InputError(
                f"{what} {jax.tree_util.keystr(path) or 'value'} from {old.dtype}{list(old.shape)} "
                f"to {new.dtype}{list(new.shape)}: shapes and dtypes must stay"
            )
