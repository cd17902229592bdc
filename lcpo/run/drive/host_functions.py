"""The compiled parts of the host driver: `Functions` of an update, `Acting` at every step."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.core import health, random
from lcpo.envs.base import HostEnv
from lcpo.run.drive import base
from lcpo.run.drive.base import Program, Run, RunState
from lcpo.run.plan.phases import config_at
from lcpo.run.store.checkpoint import without_memory
from lcpo.types import Array, Transition, Tree

Sums = tuple[Array, Array]
"""Returns and lengths of the unfinished episodes."""


class Kind(NamedTuple):
    """What runs must share to share compiled functions. Hashable: functions are cached by it."""

    program: Program
    env: HostEnv | None  # if it has landmarks: nothing else of it is read
    num_steps: int  # of a rollout
    num_rows: int  # of the trace, if episodes begin at random rows; else 1
    together: bool  # whether `init` and `learn` are of all runs at once, leaves [R, ...]
    structure: Any  # of a config, with its static fields


class Functions:
    """What runs of one kind compile once."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.metrics: tuple[str, ...] = ()
        """Names of what `learn` returns packed into one array: every array costs a transfer."""
        run_axes, batch_axis = Run(0, None, 0), 1  # pyright: ignore[reportArgumentType]
        learn = self._learn
        if kind.together:
            learn = jax.vmap(learn, (run_axes, 0, batch_axis, 0, None))
        self.init = jax.jit(jax.vmap(self._init) if kind.together else self._init)
        self.learn = jax.jit(learn, donate_argnums=1)
        self.first_rows = jax.jit(jax.vmap(self._first_rows, (0, None)))  # [R, W]
        self.draws = jax.jit(jax.vmap(self._draws, (0, None), out_axes=1))
        """(bits for `Acting.act` [T, R, 2], rows at which episodes begin [T, R, W])"""

    def _init(self, config: Tree, seed: Array) -> Tree:
        agent, spec, _ = self.kind.program
        return agent.init(config, spec, base.init_keys(seed)[0])

    def _first_rows(self, seed: Array, restarted: Array) -> Array:
        _, spec, mode = self.kind.program
        new, later = (
            base.first_rows(key, self.kind.num_rows, spec.num_worlds, mode)
            for key in (base.init_keys(seed)[1], base.restart_key(seed))
        )
        return jnp.where(restarted, later, new)

    def _draws(self, seed: Array, update: Array) -> tuple[Array, Array]:
        num_steps, (_, spec, mode) = self.kind.num_steps, self.kind.program
        keys = base.rollout_keys(base.update_keys(seed, update, mode)[0])
        each = num_steps, spec.num_worlds if mode.random_starts else 0
        starts = jax.random.randint(keys.start, each, 0, self.kind.num_rows, jnp.int32)
        return random.scan_bits(keys.act, (num_steps,)), starts

    def _learn(
        self, run: Run, agent_state: Tree, batch: Transition, sums: Sums, update: Array
    ) -> tuple[Tree, Sums, Array]:
        """Learn from the batch: (agent's state, sums, packed metrics)."""
        program = self.kind.program
        _, key = base.update_keys(run.seed, update, program.mode)
        run = Run(config_at(program.mode, run.config, update), self.kind.env, run.seed)
        state = RunState(agent_state, None, *sums)  # pyright: ignore[reportArgumentType]
        unusable = health.num_unusable(agent_state)
        state, metrics = base.learn(program, run, state, batch, key)
        if program.mode.learns:
            metrics[health.STATE] = health.state_sign(unusable, state.agent)
        self.metrics = tuple(metrics)  # traced before it is called
        packed = jnp.stack([jnp.float32(x) for x in metrics.values()])
        return state.agent, (state.episode_return, state.episode_length), packed

    @functools.cached_property
    def acting(self) -> Acting:
        """`act` of these runs."""
        structure = self.kind.structure
        config = jax.tree.unflatten(structure, [jnp.float32(0.0)] * structure.num_leaves)
        state = jax.eval_shape(self._init, config, jnp.int32(0))
        if not self.kind.program.mode.learns:
            state = without_memory(state)
        return Acting(self.kind.program, config, state)


functions_of = functools.cache(Functions)
"""The functions of a kind, compiled once per process."""


class Acting:
    """`act` of many runs in one call.

    The cost of a call grows with the number of arrays that it is given. An agent's state has
    dozens, of which acting reads a few: only those are gathered after an update, all of a dtype in
    one array.
    """

    def __init__(self, program: Program, config: Tree, state: Tree) -> None:
        """`config`, `state`: those of one run, or their shapes."""
        self.agent, self.spec, mode = program
        spec = self.spec
        shapes, self.structure = jax.tree.flatten((config, state))
        self.shapes = [jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in shapes]
        obs = jax.ShapeDtypeStruct((spec.num_worlds, spec.obs_size), jnp.float32)
        bits = jax.ShapeDtypeStruct((2,), jnp.uint32)
        traced = jax.make_jaxpr(self._act)(self.shapes, obs, bits).jaxpr
        used = {id(x) for equation in traced.eqns for x in equation.invars}
        used |= {id(x) for x in traced.outvars}
        self.read = [id(x) in used for x in traced.invars[: len(self.shapes)]]
        """Which leaves of the config and the state `act` may depend on."""
        read = [x.dtype for x, read in zip(self.shapes, self.read, strict=True) if read]
        self.dtypes = list(dict.fromkeys(read))
        self.act = jax.jit(jax.vmap(self._act_with))
        """act(gathered, obs [R, N, D], bits [R, 2]) -> (actions [R, N, A], extra [R, ...])"""

        def pick(config: Tree, state: Tree, update: Array) -> list[Array]:
            leaves = jax.tree.leaves((config_at(mode, config, update), state))
            kept = [jnp.ravel(x) for x, read in zip(leaves, self.read, strict=True) if read]
            return [jnp.concatenate([x for x in kept if x.dtype == d]) for d in self.dtypes]

        def gather(configs: Sequence[Tree], states: Sequence[Tree], update: Array) -> list[Array]:
            parts = [pick(c, s, update) for c, s in zip(configs, states, strict=True)]
            return [jnp.stack(vectors) for vectors in zip(*parts, strict=True)]

        self.gather = jax.jit(gather)
        """From configs and states, run by run."""
        self.gather_stacked = jax.jit(jax.vmap(pick, in_axes=(0, 0, None)))
        """From configs and states whose leaves are [R, ...]."""

    def _act(self, leaves: list[Array], obs: Array, bits: Array) -> tuple[Array, Tree]:
        config, state = jax.tree.unflatten(self.structure, leaves)
        return self.agent.act(config, self.spec, state, obs, random.from_bits(bits))

    def _act_with(self, gathered: list[Array], obs: Array, bits: Array) -> tuple[Array, Tree]:
        rest, leaves = dict(zip(self.dtypes, gathered, strict=True)), []
        for x, read in zip(self.shapes, self.read, strict=True):
            size, leaf = math.prod(x.shape), jnp.zeros(x.shape, x.dtype)
            if read:  # what is not read is not computed either
                leaf = rest[x.dtype][:size].reshape(x.shape)
                rest[x.dtype] = rest[x.dtype][size:]
            leaves.append(leaf)
        return self._act(leaves, obs, bits)
