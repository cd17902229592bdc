"""The compiled driver: collect, update, collect, update ... in one program.

Chunks of updates exist so that progress, results and checkpoints can come out.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from lcpo import config as configs
from lcpo.core import health
from lcpo.run.drive import base
from lcpo.run.drive.base import Program, Run, RunState
from lcpo.run.drive.rollout import Contexts, init_run, load_contexts, restart_run, run_update
from lcpo.run.plan.job import Setup
from lcpo.run.plan.phases import Phase
from lcpo.run.store import checkpoint as checkpoints
from lcpo.run.store import segments
from lcpo.run.store.checkpoint import Saved
from lcpo.types import Array, Metrics, Tree

QUICK_STEPS = 50_000
"""Shorter phases are over before better code would have paid for its compilation."""
Options = tuple[tuple[str, Any], ...]
"""Of the compiler, by name."""
QUICK: Options = (
    ("xla_backend_optimization_level", 0),
    ("xla_cpu_parallel_codegen_split_count", 1),
    ("xla_cpu_use_fusion_emitters", False),
)
"""On a CPU: compiles in a quarter of the time, and runs at half the speed or more."""
GPU: Options = (("xla_gpu_command_buffer_scheduling_mode", "CONCURRENT"),)
"""Kernels that do not wait for each other run at the same time: the same numbers, sooner."""


def compile_options(steps: int) -> Options:
    """They depend on the length of a phase alone, so that a run is the same however it is cut."""
    if jax.default_backend() == "cpu":
        wanted, versions = (QUICK if steps < QUICK_STEPS else ()), ("0.10.",)
    else:
        wanted, versions = GPU, ("0.10.", "0.11.")
    # Other versions of JAX may not know an option, and would stop; a user may have chosen.
    chosen = any(name in os.environ.get("XLA_FLAGS", "") for name, _ in wanted)
    return wanted if jax.__version__.startswith(versions) and not chosen else ()


class CompiledDriver:
    """A phase of runs that differ in seeds, traced config values and traces (`base.Driver`)."""

    exact_resume = True

    def __init__(
        self, setups: list[Setup], phase: Phase, chunk: int, traces: list[np.ndarray]
    ) -> None:
        """`chunk`: most updates at a time; `traces`: of each run all rows that it may see."""
        first = setups[0]
        self.program = Program(first.agent.root, first.spec, phase.mode)
        self.phase, self.num_runs, self.many = phase, len(setups), len(setups) > 1
        steps = first.job.steps // first.spec.num_worlds
        different = {id(trace): trace for trace in traces}
        self.traces = [
            base.rows_of(trace, first.env.advance, phase.mode, steps)
            for trace in different.values()
        ]
        self.which = np.array([list(different).index(id(trace)) for trace in traces])
        self.max_updates = chunk
        self.run = _stack_runs(setups, phase)
        self.run_chunk = make_chunk(self.program, chunk, self.many, compile_options(phase.steps))
        self.once = compile_options(1)  # how a phase begins
        # Rows are loaded as they come, or, where it is not known when they come, all at once.
        at_once = phase.mode.random_starts or first.env.advance != "step"
        self.whole = jax.device_put(self._rows(0, len(self.traces[0]))) if at_once else None

    def start(self, before: RunState | None = None) -> RunState:
        """The state before the first update; `before`: at the end of the phase before."""
        contexts = self._contexts(0)
        if before is None:
            return make_init(self.program, self.many, self.once)(self.run, contexts)
        agent_state = checkpoints.without_memory(before.agent)
        return make_restart(self.program, self.many, self.once)(self.run, contexts, agent_state)

    def start_with(self, agents: Sequence[Tree]) -> RunState:
        """The state before the first update, with agents that have learnt elsewhere, one a run."""
        agent = jax.tree.map(lambda *x: jnp.stack(x), *agents) if self.many else agents[0]
        restart = make_restart(self.program, self.many, self.once)
        return restart(self.run, self._contexts(0), agent)

    def resume(self, saved: Sequence[Saved], shapes: RunState) -> RunState:
        """The state of saved runs; `shapes`: of one of them."""
        return checkpoints.assemble(saved, shapes, self.many)

    def chunk(self, state: RunState, first: int, count: int) -> tuple[RunState, Metrics]:
        """Updates first .. first + count - 1 of the phase; `state` is donated."""
        where = jnp.int32(first), jnp.int32(count)
        return self.run_chunk(self.run, state, self._contexts(first), *where)

    def members(self, state: RunState) -> list[tuple[RunState, int | None]]:
        """For each run the state to be saved, and its place there; None where it stands alone."""
        fetched = segments.on_host(state, self.many)
        return [(fetched, i if self.many else None) for i in range(self.num_runs)]

    def agents(self, state: RunState) -> list[Tree]:
        """The agents of the runs, as far as acting needs them."""
        slim = jax.device_get(checkpoints.without_memory(state.agent))
        return [checkpoints.member_of(slim, i if self.many else None) for i in range(self.num_runs)]

    def close(self, state: RunState) -> None:
        """Nothing is open."""

    def _contexts(self, first: int) -> Contexts:
        """The rows that a chunk from update `first` on will see."""
        if self.whole is not None:
            return self.whole
        length = self.phase.rollout_length
        return self._rows(first * length, self.max_updates * length + 1)

    def _rows(self, first: int, count: int) -> Contexts:
        """Of the trace that all runs share; else those of each, which the device copies."""
        lags = self.program.spec.context.lags
        each = [load_contexts(trace, first, count, lags) for trace in self.traces]
        if len(each) == 1:
            return each[0]
        rows = jnp.asarray(np.stack([contexts.rows for contexts in each]))
        return each[0]._replace(rows=rows[self.which])


def _stack_runs(setups: list[Setup], phase: Phase) -> Run:
    """Configs, environments and seeds, stacked if there are many."""
    length = {"rollout_length": phase.rollout_length}
    values = [dataclasses.replace(s.config, **length) for s in setups]
    if len(setups) == 1:
        config, env = jax.tree.map(jnp.float32, (values[0], setups[0].env))
        return Run(config, env, jnp.int32(setups[0].job.seed))
    seeds = jnp.array([s.job.seed for s in setups], jnp.int32)
    return Run(configs.stack(values), configs.stack([s.env for s in setups]), seeds)


@functools.cache
def make_init(
    program: Program, many: bool = False, options: Options = ()
) -> Callable[[Run, Contexts], RunState]:
    """Compile `init(run, contexts) -> RunState`; `many` as in `make_chunk`."""

    def init(run: Run, contexts: Contexts) -> RunState:
        return init_run(program, run, contexts)

    def init_many(run: Run, contexts: Contexts) -> RunState:
        return jax.vmap(init, in_axes=(0, _axes(contexts)))(run, contexts)

    return jax.jit(init_many if many else init, compiler_options=dict(options))


@functools.cache
def make_restart(
    program: Program, many: bool = False, options: Options = ()
) -> Callable[[Run, Contexts, Tree], RunState]:
    """Compile `restart(run, contexts, agent state) -> RunState`."""

    def restart(run: Run, contexts: Contexts, agent_state: Tree) -> RunState:
        return restart_run(program, run, contexts, agent_state)

    def restart_many(run: Run, contexts: Contexts, agent_state: Tree) -> RunState:
        return jax.vmap(restart, in_axes=(0, _axes(contexts), 0))(run, contexts, agent_state)

    return jax.jit(restart_many if many else restart, compiler_options=dict(options))


def _axes(contexts: Contexts) -> Contexts:
    """What vmap is told of contexts: whether every run has rows of its own."""
    return Contexts(0 if contexts.rows.ndim == 3 else None, None)  # pyright: ignore


Chunk = Callable[[Run, RunState, Contexts, Array, Array], tuple[RunState, Metrics]]


@functools.cache
def make_chunk(
    program: Program, max_updates: int, many: bool = False, options: Options = ()
) -> Chunk:
    """Compile `chunk(run, state, contexts, first, count)`.

    It runs updates first .. first + count - 1 (count <= max_updates) and returns the new state
    and the metrics of each, [max_updates]; the state given is donated. With `many`, `run` and
    `state` have a leading axis of runs; so have the rows of `contexts` where traces differ.
    """

    def chunk(
        run: Run, state: RunState, contexts: Contexts, first: Array, count: Array
    ) -> tuple[RunState, Metrics]:
        def one(state: RunState, update: Array) -> tuple[RunState, Metrics]:
            return run_update(program, run, state, contexts, update)

        # Traced once, which takes a second: for the names of the metrics, and in the loop.
        traced, shapes = jax.make_jaxpr(one, return_shape=True)(state, first)
        names, structure = list(shapes[1]), jax.tree.structure(shapes)

        def body(i: Array, carry: tuple[RunState, Array]) -> tuple[RunState, Array]:
            state, rows = carry
            leaves = jax.tree.leaves((state, first + i))
            state, metrics = jax.tree.unflatten(structure, jaxpr_as_fun(traced)(*leaves))
            return state, rows.at[i].set(jnp.stack([metrics[name] for name in names]))

        rows = jnp.zeros((max_updates, len(names)))
        unusable = health.num_unusable(state.agent)
        state, rows = jax.lax.fori_loop(0, count, body, (state, rows))
        metrics = {name: rows[:, i] for i, name in enumerate(names)}
        if program.mode.learns:  # once per chunk: what is not finite stays so
            sign = health.state_sign(unusable, state.agent)
            metrics[health.STATE] = jnp.zeros(max_updates).at[count - 1].set(sign)
        return state, metrics

    def chunk_many(
        run: Run, state: RunState, contexts: Contexts, first: Array, count: Array
    ) -> tuple[RunState, Metrics]:
        axes = (0, 0, _axes(contexts), None, None)
        return jax.vmap(chunk, in_axes=axes)(run, state, contexts, first, count)

    program_of = chunk_many if many else chunk
    return jax.jit(program_of, donate_argnums=1, compiler_options=dict(options))
