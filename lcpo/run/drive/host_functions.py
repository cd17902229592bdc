"""The compiled parts of the host driver: `Functions` of an update, `Acting` at every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from lcpo.core import random
from lcpo.run.drive import base as epoch
from lcpo.run.drive.base import RunState
from lcpo.run.plan.phases import Mode, config_at
from lcpo.types import Agent, Array, Spec, Transition


class Functions:
    """What runs of one agent, environment and phase compile once.

    `together`: `init` and `learn` are of all runs at once, leaves [R, ...].
    """

    def __init__(
        self, agent: Agent, env: Any, spec: Spec, mode: Mode, num_steps: int, num_rows: int,
        together: bool, config: Any,
    ) -> None:  # fmt: skip
        """`num_rows`: of the trace; `config`: of one run."""
        self.agent = agent  # keeps its id, by which `functions_of` finds this
        self.metrics: tuple[str, ...] = ()
        """Names of what `learn` returns packed into one array: each array has its own way home."""
        each = (num_steps, spec.num_worlds)

        def init(config: Any, seed: Array) -> Any:
            return agent.init(config, spec, epoch.init_keys(seed)[0])

        def first_rows(seed: Array, restarted: Array) -> Array:
            keys = [
                epoch.first_rows(key, num_rows, spec.num_worlds, mode)
                for key in (epoch.init_keys(seed)[1], epoch.restart_key(seed))
            ]
            return jnp.where(restarted, keys[1], keys[0])

        def draws(seed: Array, update: Array) -> tuple[Array, Array]:
            keys = epoch.rollout_keys(epoch.update_keys(seed, update, mode)[0])
            starts = jnp.zeros((num_steps, 0), jnp.int32)
            if mode.random_starts:
                starts = epoch.random_rows(keys.start, num_rows, each)
            return random.scan_bits(keys.act, (num_steps,)), starts

        def learn(
            config: Any, agent_state: Any, batch: Transition, sums: Any, seed: Array, update: Array
        ) -> tuple[Any, tuple[Array, Array], Array]:
            config = config_at(mode, config, update)
            _, key = epoch.update_keys(seed, update, mode)
            state: Any = RunState(agent_state, None, *sums)  # pyright: ignore
            state, metrics = epoch.learn(agent, config, env, spec, state, batch, key, mode.learns)
            self.metrics = tuple(metrics)  # traced before it is called
            packed = jnp.stack([jnp.float32(x) for x in metrics.values()])
            return state.agent, (state.episode_return, state.episode_length), packed

        axes = (0, 0, 1, 0, 0, None)
        self.init = jax.jit(jax.vmap(init) if together else init)
        self.learn = jax.jit(jax.vmap(learn, axes) if together else learn, donate_argnums=1)
        self.first_rows = jax.jit(jax.vmap(first_rows, (0, None)))  # [R, W]
        self.draws = jax.jit(jax.vmap(draws, (0, None), out_axes=1))
        """(bits for `Acting.act` [T, R, 2], rows at which episodes begin [T, R, W])"""
        state = jax.eval_shape(init, config, jnp.int32(0))
        self.acting = Acting(agent, spec, mode, config, state)


def functions_of(
    agent: Agent, env: Any, spec: Spec, mode: Mode, num_steps: int, num_rows: int, together: bool,
    config: Any,
) -> Functions:  # fmt: skip
    """`Functions`, compiled once per process."""
    num_rows = num_rows if mode.random_starts else 1
    env = env if getattr(env, "landmarks", None) else None  # all that is read of it
    what = id(agent), env, spec, mode, num_steps, num_rows, together, jax.tree.structure(config)
    if what not in _made:
        _made[what] = Functions(agent, env, spec, mode, num_steps, num_rows, together, config)
    return _made[what]


_made: dict[Any, Functions] = {}


class Acting:
    """`act` of many runs in one call.

    A call costs by the arrays that it is given. An agent's state has dozens of them, of which
    acting reads a few: only those are gathered after an update, and passed.
    """

    def __init__(self, agent: Agent, spec: Spec, mode: Mode, config: Any, state: Any) -> None:
        """`config`, `state`: those of one run, or their shapes."""
        self.agent, self.spec = agent, spec
        shapes, self.structure = jax.tree.flatten((config, state))
        self.shapes = [jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in shapes]
        obs = jax.ShapeDtypeStruct((spec.num_worlds, spec.obs_size), jnp.float32)
        bits = jax.ShapeDtypeStruct((2,), jnp.uint32)
        self.read = _leaves_read(self._act, self.shapes, obs, bits)
        self.act = jax.jit(jax.vmap(self._act_with))
        """act(gathered, obs [R, N, D], bits [R, 2]) -> (actions [R, N, A], extra [R, ...])"""

        def chosen(config: Any, state: Any, update: Array) -> list[Array]:
            leaves = jax.tree.leaves((config_at(mode, config, update), state))
            return [x for x, read in zip(leaves, self.read, strict=True) if read]

        def gathered(configs: Sequence[Any], states: Sequence[Any], update: Array) -> list[Array]:
            parts = [chosen(c, s, update) for c, s in zip(configs, states, strict=True)]
            return [jnp.stack(leaves) for leaves in zip(*parts, strict=True)]

        self.gather = jax.jit(gathered)
        """From configs and states, run by run."""
        self.gather_stacked = jax.jit(jax.vmap(chosen, in_axes=(0, 0, None)))
        """From configs and states whose leaves are [R, ...]."""

    def _act(self, leaves: list[Any], obs: Array, bits: Array) -> tuple[Array, Any]:
        config, state = jax.tree.unflatten(self.structure, leaves)
        return self.agent.act(config, self.spec, state, obs, random.from_bits(bits))

    def _act_with(self, gathered: list[Array], obs: Array, bits: Array) -> tuple[Array, Any]:
        given = iter(gathered)
        pairs = zip(self.shapes, self.read, strict=True)
        # What is not read is not computed either.
        leaves = [next(given) if read else jnp.zeros(x.shape, x.dtype) for x, read in pairs]
        return self._act(leaves, obs, bits)


def _leaves_read(function: Callable, leaves: list[Any], *rest: Any) -> list[bool]:
    """Which of the leaves `function(leaves, *rest)` may depend on."""
    program = jax.make_jaxpr(function)(leaves, *rest).jaxpr
    read = {id(x) for equation in program.eqns for x in equation.invars}
    read |= {id(x) for x in program.outvars}
    return [id(x) in read for x in program.invars[: len(leaves)]]
