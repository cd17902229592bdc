"""The compiled driver: collect, update, collect, update ... in one program.

It runs in chunks of updates, so that progress, results and checkpoints can come out in between.
"""

from __future__ import annotations

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
from lcpo.run.drive.base import Driver, Program, Run, RunState
from lcpo.run.drive.rollout import Contexts, init_run, load_contexts, run_update
from lcpo.run.plan.job import Setup
from lcpo.run.plan.phases import Phase
from lcpo.run.store import segments
from lcpo.run.store.checkpoint import Saved, assemble
from lcpo.types import Array, Metrics, Tree

QUICK_STEPS = 50_000
"""Phases shorter than this end before better code has paid for its compilation."""
Options = tuple[tuple[str, Any], ...]
"""Compiler options by name."""
QUICK: Options = (
    ("xla_backend_optimization_level", 0),
    ("xla_cpu_parallel_codegen_split_count", 1),
    ("xla_cpu_use_fusion_emitters", False),
)
"""On a CPU: compiles in a quarter of the time, and runs at half the speed or more."""
GPU: Options = (("xla_gpu_command_buffer_scheduling_mode", "CONCURRENT"),)
"""Independent kernels run at the same time: the same numbers, sooner."""


def compile_options(steps: int) -> Options:
    """They depend on the length of a phase alone, not on how a run is cut into chunks."""
    if jax.default_backend() == "cpu":
        wanted, versions = (QUICK if steps < QUICK_STEPS else ()), ("0.10.",)
    else:
        wanted, versions = GPU, ("0.10.", "0.11.")
    # Other versions of JAX may not know an option, and would stop; XLA_FLAGS take precedence.
    chosen = any(name in os.environ.get("XLA_FLAGS", "") for name, _ in wanted)
    return wanted if jax.__version__.startswith(versions) and not chosen else ()


class CompiledDriver(Driver[RunState]):
    """A phase of runs that differ in seeds, traced config values and traces."""

    def __init__(
        self, setups: Sequence[Setup], phase: Phase, chunk: int, traces: Sequence[np.ndarray]
    ) -> None:
        super().__init__(setups, phase, chunk)
        self.many = self.num_runs > 1
        different = {id(trace): trace[: self.num_rows] for trace in traces}
        self.traces = list(different.values())
        self.which = np.array([list(different).index(id(trace)) for trace in traces])
        if self.many:
            config, env = configs.stack(self.configs), configs.stack([s.env for s in setups])
        else:
            config, env = jax.tree.map(jnp.float32, (self.configs[0], setups[0].env))
        self.run = Run(config, env, jnp.asarray(self.seeds if self.many else self.seeds[0]))
        self.run_chunk = make_chunk(self.program, chunk, self.many, compile_options(phase.steps))
        # Rows are loaded as they are needed or, if it is not known when that is, all at once.
        at_once = phase.mode.random_starts or setups[0].env.advance != "step"
        self.whole = jax.device_put(self._rows(0, len(self.traces[0]))) if at_once else None

    def start(self, agents: Sequence[Tree] | None = None) -> RunState:
        agent = None
        if agents is not None:  # copies: the first chunk donates them
            stacked = jax.tree.map(lambda *x: jnp.stack(x), *agents)
            agent = stacked if self.many else jax.tree.map(lambda x: x[0], stacked)
        init = make_init(self.program, self.many, compile_options(1))
        return init(self.run, self._contexts(0), agent)

    def resume(self, saved: Sequence[Saved], shapes: RunState) -> RunState:
        return assemble(saved, shapes, self.many)

    def chunk(self, state: RunState, first: int, count: int) -> tuple[RunState, Metrics]:
        where = jnp.int32(first), jnp.int32(count)
        return self.run_chunk(self.run, state, self._contexts(first), *where)

    def members(self, state: RunState) -> list[tuple[RunState, int | None]]:
        fetched = segments.on_host(state, self.many)
        return [(fetched, i if self.many else None) for i in range(self.num_runs)]

    def _contexts(self, first: int) -> Contexts:
        """The rows that a chunk from update `first` on will see."""
        if self.whole is not None:
            return self.whole
        length = self.phase.rollout_length
        return self._rows(first * length, self.max_updates * length + 1)

    def _rows(self, first: int, count: int) -> Contexts:
        """Rows of the trace that all runs share; else of each run's own, copied on the device."""
        each = [load_contexts(x, first, count, self.spec.context.lags) for x in self.traces]
        if len(each) == 1:
            return each[0]
        rows = jnp.asarray(np.stack([contexts.rows for contexts in each]))
        return each[0]._replace(rows=rows[self.which])


@functools.cache
def make_init(
    program: Program, many: bool = False, options: Options = ()
) -> Callable[..., RunState]:
    """Compile `init_run(run, contexts, agent_state=None)`; `many` as in `make_chunk`."""
    init = functools.partial(init_run, program)
    return jax.jit(_over_runs(init, 0, 0, 0) if many else init, compiler_options=dict(options))


def _over_runs(function: Callable, *axes: Any) -> Callable:
    """`function` of many runs. The rows of contexts have an axis of runs if traces differ."""

    def of_many(*arguments: Any) -> Any:
        found = list(axes[: len(arguments)])
        for i, given in enumerate(arguments):
            if isinstance(given, Contexts):
                found[i] = Contexts(0 if given.rows.ndim == 3 else None, None)  # pyright: ignore
        return jax.vmap(function, in_axes=tuple(found))(*arguments)

    return of_many


@functools.cache
def make_chunk(
    program: Program, max_updates: int, many: bool = False, options: Options = ()
) -> Callable[..., tuple[RunState, Metrics]]:
    """Compile `chunk(run, state, contexts, first, count)`.

    It runs updates first .. first + count - 1 (count <= max_updates) and returns the new state
    and the metrics of each, [max_updates]; the given state is donated. With `many`, `run` and
    `state` have a leading axis of runs; so have the rows of `contexts` if traces differ.
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

    compiled = _over_runs(chunk, 0, 0, 0, None, None) if many else chunk
    return jax.jit(compiled, donate_argnums=1, compiler_options=dict(options))
