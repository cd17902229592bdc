"""The host driver: worlds that step in NumPy, agents in compiled functions.

R runs of W worlds each step together, N = R * W worlds in one `HostWorlds`. A step is one compiled
call of `act` for all runs, on the CPU even where a GPU learns: a small network acts there in less
time than a GPU takes to answer. On a CPU an update is one call per run, whose branches and loops
are its own and whose buffers stay in place; on a GPU all runs are one vmapped program.

Keys are those of the compiled driver; the worlds draw from their own seeds. A run depends on its
seed, config, environment and trace alone, not on the runs beside it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo.envs.base import (
    HostEnv,
    HostWorlds,
    is_host,
    landmarks_of,
    obs_layout,
    open_anywhere_of,
)
from lcpo.errors import place, trace_of
from lcpo.run import stop
from lcpo.run.drive.base import ChunkMetrics, Program, Run, RunState, StoppedRuns, Worlds, rows_of
from lcpo.run.drive.collect import Collector, Rollout, StoppedWorlds
from lcpo.run.drive.host_functions import Kind, functions_of
from lcpo.run.plan.job import Setup
from lcpo.run.plan.phases import Phase
from lcpo.run.store import checkpoint as checkpoints
from lcpo.run.store.checkpoint import Saved
from lcpo.run.store.record import block_size
from lcpo.types import Transition, Tree

T = TypeVar("T")


class HostState(NamedTuple):
    """R runs between two updates. The worlds are live: a state can be used once."""

    agent: Tree  # a tuple of states, run by run; on a GPU one state with leaves [R, ...]
    worlds: HostWorlds
    obs: np.ndarray  # [N, D]
    cursor: np.ndarray  # [N], the row of the trace that is now observed
    episode_return: np.ndarray  # [R, W], of the unfinished episode
    episode_length: np.ndarray  # [R, W]


class HostDriver:
    """A phase of runs that share a host environment (`base.Driver`)."""

    exact_resume = True
    """Whether worlds can be saved."""

    def __init__(self, setups: list[Setup], phase: Phase, chunk: int, trace: np.ndarray) -> None:
        first = setups[0]
        assert is_host(first.env)
        self.env: HostEnv = first.env
        self.spec, self.phase, self.mode = first.spec, phase, phase.mode
        self.max_updates, self.num_runs = chunk, len(setups)
        self.num_worlds = self.num_runs * self.spec.num_worlds
        steps = first.job.steps // self.spec.num_worlds
        trace = rows_of(trace, self.env.advance, self.mode, steps)
        self.collector = Collector(
            self.env, self.spec, trace, self.num_worlds, self.mode.random_starts
        )
        self.seeds = np.array([s.job.seed for s in setups], np.int32)
        length = {"rollout_length": phase.rollout_length}
        values = [dataclasses.replace(s.config, **length) for s in setups]
        self.together = self.num_runs > 1 and not on_cpu()
        self.configs: Tree = tuple(jax.tree.map(jnp.float32, value) for value in values)
        if self.together:
            self.configs = configs.stack(values)
        self.functions = functions_of(
            Kind(
                Program(first.agent, self.spec, self.mode),
                self.env if landmarks_of(self.env) else None,
                phase.rollout_length,
                len(trace) if self.mode.random_starts else 1,
                self.together,
                jax.tree.structure(values[0]),
            )
        )

    def start(self, before: HostState | None = None) -> HostState:
        """The state before the first update; `before`: at the end of the phase before."""
        init, forget = self.functions.init, checkpoints.without_memory
        if before is not None:
            self.close(before)
            so_far = before.agent
            agents = forget(so_far) if self.together else tuple(map(forget, so_far))
        elif self.together:
            agents = init(self.configs, self.seeds)
        else:
            agents = tuple(init(*pair) for pair in zip(self.configs, self.seeds, strict=True))
        cursor = np.array(self.functions.first_rows(self.seeds, before is not None)).reshape(-1)
        return self._begin(agents, cursor, self.mode.first_update)

    def start_with(self, agents: Sequence[Tree]) -> HostState:
        """The state before the first update, with agents that have learnt elsewhere, one a run."""
        held = jax.tree.map(lambda *x: jnp.stack(x), *agents) if self.together else tuple(agents)
        cursor = np.array(self.functions.first_rows(self.seeds, True)).reshape(-1)
        return self._begin(held, cursor, self.mode.first_update)

    def _begin(self, agents: Tree, cursor: np.ndarray, update: int) -> HostState:
        """Fresh worlds at rows `cursor`; `update` of the run is next."""
        worlds = self._open(update)
        try:
            obs = self._name_runs(lambda: self.collector.begin(worlds, cursor), update=0)
        except StoppedRuns:
            worlds.close()
            raise
        self.exact_resume = worlds.get_state() is not None
        zeros = np.zeros((self.num_runs, self.spec.num_worlds), np.float32)
        return HostState(agents, worlds, obs, cursor, zeros, zeros)

    def _open(self, update: int) -> HostWorlds:
        each = (world_seeds(int(seed), self.spec.num_worlds, update) for seed in self.seeds)
        anywhere = open_anywhere_of(self.env) if self.mode.random_starts else None
        return (anywhere or self.env.open)(self.num_worlds, [s for seeds in each for s in seeds])

    def chunk(self, state: HostState, first: int, count: int) -> tuple[HostState, ChunkMetrics]:
        """Updates first .. first + count - 1 of the phase.

        Metrics are [max_updates], of which the first `count` count; asked to stop, it comes back
        earlier, with the metrics of what is done: a simulator may be slow. Raises StoppedRuns.
        """
        rows: dict[str, np.ndarray] = {}
        block = block_size(self.phase.num_updates)
        for update in range(first, first + count):
            if update > first and (update - first) % block == 0 and stop.is_asked():
                rows = {name: table[:, : update - first] for name, table in rows.items()}
                break
            state, metrics = self._update(state, update)
            for name, values in metrics.items():
                table = rows.setdefault(name, np.zeros((self.num_runs, self.max_updates), "f4"))
                table[:, update - first] = values
        return state, rows if self.num_runs > 1 else {k: v[0] for k, v in rows.items()}

    def _update(self, state: HostState, update: int) -> tuple[HostState, dict[str, np.ndarray]]:
        """One rollout and, where the mode says so, one update of each run; metrics [R]."""
        index, acting = np.int32(update), self.functions.acting
        gather = acting.gather_stacked if self.together else acting.gather
        gathered = gather(self.configs, state.agent, index)
        if not on_cpu():
            gathered = jax.device_put(gathered, acting_device())
        bits, starts = (np.asarray(x) for x in self.functions.draws(self.seeds, index))
        shape = self.num_runs, self.spec.num_worlds, self.spec.obs_size

        def act(obs: np.ndarray, t: int) -> tuple[np.ndarray, Tree]:
            action, extra = acting.act(gathered, obs.reshape(shape), bits[t])
            return np.asarray(action).reshape(self.num_worlds, -1), extra

        num_steps = self.phase.rollout_length
        collected: Rollout = self._name_runs(
            lambda: self.collector.collect(
                state.worlds, state.obs, state.cursor, act, num_steps, update * num_steps + 1,
                starts.reshape(num_steps, -1) if self.mode.random_starts else None,
            ),
            update,
        )  # fmt: skip
        state = state._replace(obs=collected.obs, cursor=collected.cursor)
        return self._learn(state, collected.batch, index)

    def _learn(
        self, state: HostState, batch: Transition, update: np.int32
    ) -> tuple[HostState, dict[str, np.ndarray]]:
        """Hand each run its part of the batch."""

        def by_run(x: np.ndarray) -> np.ndarray:
            return x.reshape(len(x), self.num_runs, self.spec.num_worlds, *x.shape[2:])

        # What `act` gave beside the action is by run already.
        parts = jax.tree.map(by_run, batch._replace(extra=()))
        batch = parts._replace(extra=batch.extra)
        sums = state.episode_return, state.episode_length
        learn, seeds = self.functions.learn, self.seeds
        if self.together:
            run = Run(self.configs, None, jnp.asarray(seeds))
            agents, sums, packed = learn(run, state.agent, batch, sums, update)
        else:
            results = []
            for i, (config, agent) in enumerate(zip(self.configs, state.agent, strict=True)):
                mine, so_far = jax.tree.map(lambda x, i=i: x[:, i], batch), [x[i] for x in sums]
                run = Run(config, None, seeds[i])
                results.append(learn(run, agent, mine, so_far, update))
            agents = tuple(result[0] for result in results)
            rest = jax.device_get([result[1:] for result in results])
            sums, packed = jax.tree.map(lambda *x: np.stack(x), *rest)
        totals, lengths = (np.asarray(x) for x in sums)
        state = state._replace(agent=agents, episode_return=totals, episode_length=lengths)
        return state, dict(zip(self.functions.metrics, np.asarray(packed).T, strict=True))

    def _name_runs(self, work: Callable[[], T], update: int) -> T:
        """Do `work`. Of worlds that stop, say the run, their place in it, the step, and the line.

        The line is that of the user's code which raised, if any did.
        """
        try:
            return work()
        except StoppedWorlds as stop:
            size, raised = self.spec.num_worlds, stop.__cause__
            step = (update * self.phase.rollout_length + stop.step + 1) * size
            line = place(raised) if raised else None
            causes: dict[int, str] = {}
            for world, cause in stop.causes.items():
                text = f"world {world % size}: {' '.join(cause.split())}, at step {step:,}"
                causes.setdefault(world // size, text + (f" ({line})" if line else ""))
            raise StoppedRuns(causes, trace_of(raised) if raised else "") from stop

    def members(self, state: HostState) -> list[tuple[RunState, int | None]]:
        """For each run the state to be saved, where it stands alone."""
        size, saved = self.spec.num_worlds, state.worlds.get_state()
        out = []
        for i in range(self.num_runs):
            mine = slice(i * size, (i + 1) * size)
            env = None if saved is None else {k: v[mine] for k, v in saved.items()}
            features, history = self.collector.layout.split(state.obs[mine])
            worlds: Any = env, features, history, state.cursor[mine]
            sums: Any = state.episode_return[i], state.episode_length[i]
            out.append((RunState(self._agent(state, i), Worlds(*worlds), *sums), None))
        return out

    def _agent(self, state: HostState, i: int) -> Tree:
        if not self.together:
            return state.agent[i]
        return jax.tree.map(lambda x: x[i], state.agent)

    def agents(self, state: HostState) -> list[Tree]:
        """The agents of the runs, as far as acting needs them."""
        each = (self._agent(state, i) for i in range(self.num_runs))
        return [checkpoints.member_of(checkpoints.without_memory(agent), None) for agent in each]

    def close(self, state: HostState) -> None:
        """Free what the worlds hold."""
        state.worlds.close()

    def resume(self, saved: Sequence[Saved], shapes: RunState) -> HostState:
        """The state of saved runs; `shapes`: of one of them.

        Worlds that could not be saved begin a new episode.
        """
        parts = (s._replace(checkpoint=_agent_only(s.checkpoint)) for s in saved)
        agents = [checkpoints.assemble([part], shapes.agent, many=False) for part in parts]
        agent = jax.tree.map(lambda *x: jnp.stack(x), *agents) if self.together else tuple(agents)
        members: list[RunState] = [s.checkpoint.state for s in saved]
        cursor = np.concatenate([m.worlds.cursor for m in members])
        if members[0].worlds.env is None:
            return self._begin(agent, cursor, saved[0].checkpoint.update)
        worlds, envs = self._open(0), [m.worlds.env for m in members]
        worlds.set_state({k: np.concatenate([env[k] for env in envs]) for k in envs[0]})
        obs = np.concatenate([np.asarray(m.worlds.obs) for m in members])
        totals = np.stack([np.asarray(m.episode_return) for m in members])
        lengths = np.stack([np.asarray(m.episode_length) for m in members])
        return HostState(agent, worlds, obs, cursor, totals, lengths)


def _agent_only(checkpoint: checkpoints.Checkpoint) -> checkpoints.Checkpoint:
    return checkpoint._replace(state=checkpoint.state.agent)


def state_shapes(setup: Setup, agent: Tree) -> RunState:
    """Shapes and dtypes of a run's state, given those of its agent's."""
    assert is_host(setup.env)
    layout, count = obs_layout(setup.spec, setup.env.advance), setup.spec.num_worlds
    features = np.empty((count, layout.num_features), np.float32)
    history, cursor = np.empty((count, layout.context_size), np.float32), np.empty(count, np.int32)
    zeros: Any = np.empty(count, np.float32)
    worlds: Any = _saved_shapes(setup.env), features, history, cursor
    return RunState(agent, Worlds(*worlds), zeros, zeros)


@functools.cache
def _saved_shapes(env: HostEnv) -> dict[str, np.ndarray] | None:
    """What the worlds of one run save, or None if they cannot."""
    count = env.spec.num_worlds
    worlds = env.open(count, list(range(count)), 1)
    try:
        worlds.reset(np.ones(count, bool))
        return worlds.get_state()
    finally:
        worlds.close()


def world_seeds(seed: int, num_worlds: int, update: int) -> list[int]:
    """Seeds of the worlds that a run opens before update number `update`.

    The first world of a run has the run's own: `reset(seed=0)` is what seed 0 begins with.
    """
    sequences = (np.random.SeedSequence((seed, world, update)) for world in range(num_worlds))
    seeds = [int(sequence.generate_state(1)[0]) for sequence in sequences]
    return [seed, *seeds[1:]] if update == 0 else seeds


def acting_device() -> Any:
    """Where agents act: the CPU, unless JAX_PLATFORMS leaves it out."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return jax.local_devices()[0]


def on_cpu() -> bool:
    """Whether each run learns alone."""
    return jax.default_backend() == "cpu"
