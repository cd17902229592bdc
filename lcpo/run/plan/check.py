"""Does an agent or an environment keep its contract? Checked by shape, before training starts.

`plan` calls these for everything it is given, so that a user's own agent or environment that
breaks a rule is reported before a run starts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo.distributions import Distribution
from lcpo.envs.base import AnyEnv, CompiledEnv, HostEnv, is_host, obs_layout
from lcpo.errors import CannotServe, InputError, tell
from lcpo.run.plan.budget import available_bytes, largest_bytes
from lcpo.run.store.record import TOTAL
from lcpo.types import AnyAgent, ContextSlice, Guard, Spec, Step, Transition
from lcpo.values import INT_MAX, shown

MAX_ACTIONS = 10_000
"""Most actions per dimension: the compiled program has a line for each."""
RECORDED = (
    "step", "updates", "epochs", "epoch_return", "episodes", "episode_return_sum",
    "episode_length_sum", "reward", "largest_obs",
)  # fmt: skip
"""Columns of every record."""
EXPORTED = ("name", "agent", "env", "trace", "seed", "status", "scale", "steps", "training")
"""Columns that `lcpo export` puts before those of a record."""
RESERVED = {*RECORDED, *EXPORTED, "file", "allow_pickle"}
"""Names that no metric of an agent may have; the last two are arguments of np.savez."""
RESERVED_STARTS = ("tv_", TOTAL, "config.", "env_config.")
"""Prefixes of metrics of landmarks, of readings, and of settings in an exported table."""


Rules = Iterator[tuple[bool, str]]
"""Whether a rule holds, and what to report if it does not; later ones rely on earlier ones."""


def _enforce(rules: Rules, name: str = "") -> None:
    """Raise InputError with the first rule that is broken."""
    try:
        for holds, rule in rules:
            if not holds:
                raise InputError(rule)
    except InputError as error:
        raise InputError(f"{name}: {error}" if name else str(error)) from error


@contextlib.contextmanager
def _users_code(what: str) -> Iterator[None]:
    """Report an exception of the user's code in one line, with its place."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        is_size = isinstance(error, (OverflowError, MemoryError))
        hint = ": use smaller sizes" if is_size else ""
        raise InputError(f"{what} raised: {tell(error)}{hint}") from error


def check_env(env: AnyEnv, name: str = "the environment") -> None:
    """Raise InputError with the rule that the environment breaks."""
    _enforce(_env_rules(env), name)


def check_spec(spec: Any) -> None:
    """Raise InputError unless the values of a spec are valid."""
    _enforce(_spec_rules(spec))


def _env_rules(env: AnyEnv) -> Rules:
    for member in ("spec", "advance", *(["open"] if is_host(env) else ["reset", "step"])):
        has = hasattr(type(env), member) or hasattr(env, member)
        yield has, f"has no `{member}`: see lcpo.envs.base"
    with _users_code("its spec or advance"):
        spec, advance = env.spec, env.advance
    known = isinstance(advance, str) and advance in ("step", "episode", "own")
    yield known, f"advance = {shown(advance)}: needs 'step', 'episode' or 'own'"
    yield from _spec_rules(spec)
    by_step = "spec.contiguous_contexts promises a new row at every step"
    yield advance != "episode" or not spec.contiguous_contexts, f"{by_step}, but {advance = }"
    needed = {"feature_names": spec.obs_size - spec.context.size}
    for member, count in (needed | {"context_names": spec.context.channels}).items():
        found = getattr(env, member, None)
        rule = f"{member} = {shown(found)}: needs {count} names, as a tuple"
        yield found is None or (isinstance(found, tuple) and len(found) == count), rule
    yield from _host_rules(env) if is_host(env) else _compiled_rules(env)


def _spec_rules(spec: Any) -> Rules:
    yield isinstance(spec, Spec), f"spec is a {type(spec).__name__}: needs lcpo.types.Spec"
    context, counts, drawn, guard = spec.context, spec.num_actions, spec.distribution, spec.guard
    kind = type(context).__name__
    yield isinstance(context, ContextSlice), f"spec.context is a {kind}: needs ContextSlice"
    told = f"spec.num_actions = {shown(counts)}"
    if drawn is None:
        plural = isinstance(counts, tuple) and counts and all(_is_size(n, 2) for n in counts)
        yield bool(plural), f"{told}: needs a tuple with at least two actions per dimension"
        yield max(counts) <= MAX_ACTIONS, f"{told}: needs at most {MAX_ACTIONS:,} per dimension"
    else:
        one = isinstance(drawn, Distribution) and not counts
        told = f"spec.distribution = {shown(drawn)}, {told}"
        yield one, f"{told}: needs either num_actions or a Distribution, not both"
    sizes = {"obs_size": (spec.obs_size, 1), "num_worlds": (spec.num_worlds, 1)}
    sizes |= {f"context.{k}": (v, 0) for k, v in context._asdict().items()}
    for field, (value, low) in sizes.items():
        text = f"spec.{field} = {shown(value)}: needs a whole number from {low} on"
        yield _is_size(value, low), text
    if guard is not None:
        fits = (
            isinstance(guard, Guard)
            and 0 <= guard.entry < spec.obs_size
            and len(guard.action) == spec.action_size
            and all(0 <= a < n for a, n in zip(guard.action, counts, strict=False))
        )
        needed = "needs lcpo.types.Guard, an entry of the observation and one of the actions"
        yield fits, f"spec.guard = {shown(guard)}: {needed}"
    ends = f"spec.context ends at {context.end}, the observation at {spec.obs_size}"
    yield context.end <= spec.obs_size, ends


def _is_size(value: Any, low: int) -> bool:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and low <= int(value) <= INT_MAX


def _host_rules(env: HostEnv) -> Rules:
    """Rules for a reset and a step of the worlds of one run."""
    spec, count = env.spec, env.spec.num_worlds
    traced = configs.traced_fields(env)
    names = ", ".join(traced)
    yield not traced, f"{names} are traced: declare the fields of a host environment with `static`"
    action = np.zeros((count, spec.action_size), spec.actions.dtype)
    context = np.zeros((count, obs_layout(spec, env.advance).channels), np.float32)
    with _users_code("open, reset or step of its worlds"):
        worlds = env.open(count, list(range(count)), 1)
        features, step = worlds.reset(np.ones(count, bool)), worlds.step(action, context)
        worlds.close()
    yield from _shape_rules(env, features, step, (count,))


def _compiled_rules(env: CompiledEnv[Any]) -> Rules:
    spec, key = env.spec, jax.random.key(0)
    with _users_code("reset(key) -> (state, obs)"):
        state, obs = jax.eval_shape(env.reset, key)
    kind = type(obs).__name__
    yield hasattr(obs, "shape"), f"reset returns (state, {kind}): needs (state, array)"
    action = jax.ShapeDtypeStruct((spec.action_size,), spec.actions.dtype)
    context = jax.ShapeDtypeStruct((obs_layout(spec, env.advance).channels,), jnp.float32)
    with _users_code("step(state, action, context, key)"):
        after, step = jax.eval_shape(env.step, state, action, context, key)
    yield from _shape_rules(env, obs, step, ())
    yield from _same_rules(state, after, "step changes the state's")
    for field in ("terminated", "truncated"):
        kind = jnp.result_type(getattr(step, field))
        yield kind == jnp.bool_, f"step.{field} is {kind}: needs bool"


def _shape_rules(env: AnyEnv, obs: Any, step: Any, lead: tuple[int, ...]) -> Rules:
    """Rules for what `reset` and `step` return; `lead`: the axis of the worlds."""
    spec, layout = env.spec, obs_layout(env.spec, env.advance)
    size = (*lead, layout.num_features)
    rule = (
        f"reset returns obs of shape {np.shape(obs)}: spec.obs_size = {spec.obs_size} less "
        f"{layout.context_size} context entries, which the driver appends, leaves {size}"
    )
    yield np.shape(obs) == size, rule
    kind = type(step).__name__
    yield isinstance(step, Step), f"step returns a {kind}: needs lcpo.types.Step"
    shapes = {"obs": size, "reward": lead, "terminated": lead, "truncated": lead}
    hints = {"action": ", or None", "readings": f", a number for each of {spec.readings}"}
    if step.action is not None:
        shapes["action"] = (*lead, spec.action_size)
    if spec.readings:
        shapes["readings"] = (*lead, len(spec.readings))
    for field, shape in shapes.items():
        found, needed = np.shape(getattr(step, field)), shape or "a scalar"
        hint = hints.get(field, "")
        yield found == shape, f"step.{field} has shape {found}: needs {needed}{hint}"


def check_rollout_length(agent: AnyAgent, config: Any) -> None:
    """Raise InputError unless the config says how many steps precede an update."""
    is_size = _is_size(getattr(config, "rollout_length", None), 1)
    rule = "its config needs the static field rollout_length, from 1 on"
    _enforce(iter([(is_size, rule)]), f"agent {agent.name}")


def check_values(agent: AnyAgent, config: Any, spec: Spec) -> None:
    """Raise CannotServe if the agent's own `check` raises InputError."""
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
    check_rollout_length(agent, config)
    check_values(agent, config, spec)
    _enforce(_agent_rules(agent, config, spec), f"agent {agent.name}")


def _agent_rules(agent: AnyAgent, config: Any, spec: Spec) -> Rules:
    worlds, steps, key = spec.num_worlds, config.rollout_length, jax.random.key(0)

    def array(*shape: int, dtype: Any = jnp.float32) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype)

    with _users_code("init(config, spec, key)"):
        state = jax.eval_shape(lambda k: agent.init(config, spec, k), key)
    obs = array(worlds, spec.obs_size)
    with _users_code("act -> (action, extra)"):
        action, extra = jax.eval_shape(
            lambda s, o, k: agent.act(config, spec, s, o, k), state, obs, key
        )
    kind = type(action).__name__
    yield hasattr(action, "shape"), f"act returns actions as a {kind}: needs an array"
    whole, is_whole = (jnp.issubdtype(x.dtype, jnp.integer) for x in (spec.actions, action))
    needed = "integers" if whole else "real numbers"
    rule = (
        f"act returns actions {action.dtype}{list(action.shape)}: needs {needed} "
        f"[{worlds}, {spec.action_size}], one per world and action dimension"
    )
    yield action.shape == (worlds, spec.action_size) and whole == is_whole, rule
    scalar, flag = array(steps, worlds), array(steps, worlds, dtype=jnp.bool_)
    many_obs = array(steps, worlds, spec.obs_size)
    batch = Transition(
        many_obs, array(steps, *action.shape, dtype=action.dtype), scalar, many_obs, flag, flag,
        scalar, scalar, jax.tree.map(lambda x: array(steps, *x.shape, dtype=x.dtype), extra),
        array(steps, worlds, len(spec.readings)) if spec.readings else (),
    )  # fmt: skip
    with _users_code("update -> (state, metrics)"):
        program, (after, metrics) = jax.make_jaxpr(
            lambda s, b, k: agent.update(config, spec, s, b, k), return_shape=True
        )(state, batch, key)
    largest, free = largest_bytes(program.jaxpr), available_bytes()
    rule = (
        f"update makes an array of {largest / 2**30:,.1f} GiB, {(free or 0) / 2**30:.1f} GiB are "
        "free: make the sizes in its config smaller, such as rollout length or batch size"
    )
    yield free is None or largest <= free, rule
    yield from _same_rules(state, after, "update changes the state's")
    kind = type(metrics).__name__
    yield isinstance(metrics, dict), f"update returns metrics as {kind}: needs a dict"
    for name, value in metrics.items():
        has_name = isinstance(name, str) and name.isprintable() and name
        yield bool(has_name), f"a metric is called {name!r}: needs a name"
        taken = name in RESERVED or name.startswith(RESERVED_STARTS) or name.endswith(".npy")
        rule = (
            f"a metric is called {name!r}, which is a column of the record or of an exported "
            "table already: give it another name"
        )
        yield not taken, rule
        shape = getattr(value, "shape", type(value).__name__)
        yield shape == (), f"metric {name!r} has shape {shape}: needs a scalar"
        real = any(jnp.issubdtype(value.dtype, x) for x in (jnp.floating, jnp.integer, jnp.bool_))
        yield real, f"metric {name!r} is {value.dtype}: needs a real number"


def _same_rules(before: Any, after: Any, what: str) -> Rules:
    """Same tree, shapes and dtypes: what a loop carries must not change."""
    (leaves, structure), new = jax.tree_util.tree_flatten_with_path(before), jax.tree.leaves(after)
    same = structure == jax.tree.structure(after)
    yield same, f"{what} structure: it must return the tree that it was given"
    for (path, a), b in zip(leaves, new, strict=True):
        name, old = jax.tree_util.keystr(path) or "value", f"{a.dtype}{list(a.shape)}"
        change = f"{what} {name} from {old} to {b.dtype}{list(b.shape)}"
        yield (a.shape, a.dtype) == (b.shape, b.dtype), f"{change}: both must stay the same"
