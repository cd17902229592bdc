"""Does an agent or an environment keep its contract? Checked by shape, before any work.

`plan` calls these for everything it is given, so a user's own agent or environment that breaks a
rule is told which one before a run starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo.envs.base import AnyEnv, CompiledEnv, HostEnv, is_host, obs_layout
from lcpo.errors import InputError
from lcpo.types import AnyAgent, Metrics, Spec, Step, Transition


def check_env(env: AnyEnv, name: str = "the environment") -> None:
    """Raise InputError with the rule that the environment breaks."""

    def fail(rule: str) -> None:
        raise InputError(f"{name}: {rule}")

    needed = ("spec", "advance", "open") if is_host(env) else ("spec", "advance", "reset", "step")
    for member in needed:
        if not hasattr(env, member):
            fail(f"has no `{member}`: see lcpo.envs.base")
    spec = env.spec
    if env.advance not in ("step", "episode", "own"):
        fail(f"advance = {env.advance!r}: needs 'step', 'episode' or 'own'")
    if spec.contiguous_contexts and env.advance == "episode":
        fail("spec.contiguous_contexts promises a new row at every step, but advance = 'episode'")
    if not spec.num_actions or min(spec.num_actions) < 2:
        fail(f"spec.num_actions = {spec.num_actions}: needs two actions or more per dimension")
    if is_host(env):
        _check_host(env, name, fail)
    else:
        _check_compiled(env, name, fail)


def _check_host(env: HostEnv, name: str, fail: Callable[[str], None]) -> None:
    """One reset and one step of the worlds of one run."""
    spec, count = env.spec, env.spec.num_worlds
    traced = configs.traced_fields(env)
    if traced:
        fail(f"{', '.join(traced)} are traced: fields of a host environment are static")
    layout = obs_layout(spec, env.advance)
    shape = (count, layout.num_features)
    action = np.zeros((count, spec.action_size), np.int32)
    context = np.zeros((count, layout.channels), np.float32)
    try:
        worlds = env.open(count, list(range(count)), 1)
        features, step = worlds.reset(np.ones(count, bool)), worlds.step(action, context)
        worlds.close()
    except Exception as error:  # of the user's code
        cause = f"{type(error).__name__}: {error}"
        raise InputError(f"{name}: its worlds do not open, reset and step ({cause})") from error
    if not isinstance(step, Step):
        fail(f"step returns a {type(step).__name__}: needs lcpo.types.Step")
    for what, found in (("reset", features), ("step", step.obs)):
        if np.shape(found) != shape:
            fail(f"{what} returns features of shape {np.shape(found)}: needs {shape}")
    for field in ("reward", "terminated", "truncated"):
        if np.shape(getattr(step, field)) != (count,):
            fail(f"step.{field} has shape {np.shape(getattr(step, field))}: needs ({count},)")


def _check_compiled(env: CompiledEnv[Any], name: str, fail: Callable[[str], None]) -> None:
    spec = env.spec
    layout = obs_layout(spec, env.advance)
    size = layout.num_features
    key = jax.random.key(0)
    try:
        state, obs = jax.eval_shape(env.reset, key)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: reset(key) -> (state, obs) raised: {error}") from error
    if obs.shape != (size,):
        fail(
            f"reset returns obs of shape {obs.shape}: spec.obs_size = {spec.obs_size} less "
            f"{layout.context_size} context entries, which the driver appends, makes ({size},)"
        )
    action = jax.ShapeDtypeStruct((spec.action_size,), jnp.int32)
    context = jax.ShapeDtypeStruct((layout.channels,), jnp.float32)
    try:
        after, step = jax.eval_shape(env.step, state, action, context, key)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: step(state, action, context, key) raised: {error}") from error
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


def check_agent(agent: AnyAgent, config: Any, spec: Spec) -> None:
    """Raise InputError with the rule that the agent breaks. `config` is resolved."""
    name = f"agent {agent.name}"
    if not isinstance(getattr(config, "rollout_length", None), int):
        raise InputError(f"{name}: its config needs the static field rollout_length")
    key = jax.random.key(0)
    try:
        state = jax.eval_shape(lambda k: agent.init(config, spec, k), key)
    except TypeError as error:
        raise InputError(f"{name}: init(config, spec, key) raised: {error}") from error
    worlds, steps = spec.num_worlds, config.rollout_length

    def array(*shape: int, dtype: Any = jnp.float32) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype)

    obs = array(worlds, spec.obs_size)
    try:
        action, extra = jax.eval_shape(
            lambda s, o, k: agent.act(config, spec, s, o, k), state, obs, key
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: act -> (action, extra) raised: {error}") from error
    if action.shape != (worlds, spec.action_size) or not jnp.issubdtype(action.dtype, jnp.integer):
        raise InputError(
            f"{name}: act returns actions {action.dtype}{list(action.shape)}: needs integers "
            f"[{worlds}, {spec.action_size}], one per world and action dimension"
        )
    scalar, flag = array(steps, worlds), array(steps, worlds, dtype=jnp.bool_)
    many_obs = array(steps, worlds, spec.obs_size)
    batch = Transition(
        many_obs, array(steps, *action.shape, dtype=action.dtype), scalar, many_obs, flag, flag,
        scalar, scalar, jax.tree.map(lambda x: array(steps, *x.shape, dtype=x.dtype), extra),
    )  # fmt: skip
    try:
        after, metrics = jax.eval_shape(
            lambda s, b, k: agent.update(config, spec, s, b, k), state, batch, key
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: update -> (state, metrics) raised: {error}") from error
    _same(state, after, f"{name}: update changes the state's")
    _check_metrics(metrics, name)


def _check_metrics(metrics: Metrics, name: str) -> None:
    if not isinstance(metrics, dict):
        raise InputError(
            f"{name}: update returns metrics as {type(metrics).__name__}: needs a dict"
        )
    for key, value in metrics.items():
        if value.shape != ():
            raise InputError(f"{name}: metric {key!r} has shape {value.shape}: needs a scalar")


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
