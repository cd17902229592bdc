"""The host driver: worlds that step in NumPy, agents in compiled functions.

R runs of W worlds each step together, N = R * W worlds in one `HostWorlds`. A step is one compiled
call of `act` for all runs, on the CPU even if a GPU learns: a small network acts there in less time
than a GPU takes to answer. On a CPU an update is one call per run, whose branches and loops are its
own and whose buffers stay in place; on a GPU all runs are one vmapped program.

Keys are those of the compiled driver; the worlds draw from their own seeds. A run depends on its
seed, config, environment and trace alone, not on other runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo.envs.base import HostEnv, HostWorlds, is_host, landmarks_of, open_anywhere_of
from lcpo.run import stop
from lcpo.run.drive.base import ChunkMetrics, Driver, Run, RunState, Worlds
from lcpo.run.drive.collect import Collector
from lcpo.run.drive.host_functions import Kind, functions_of
from lcpo.run.plan.job import Setup
from lcpo.run.plan.phases import Phase
from lcpo.run.store.checkpoint import Saved, assemble
from lcpo.run.store.record import block_size
from lcpo.types import Transition, Tree


class HostState(NamedTuple):
    """R runs between two updates. The worlds are live: a state can be used once."""

    agent: Tree  # a tuple of states, run by run; on a GPU one state with leaves [R, ...]
    worlds: HostWorlds
    obs: np.ndarray  # [N, D]
    cursor: np.ndarray  # [N], the row of the trace that is now observed
    episode_return: np.ndarray  # [R, W], of the unfinished episode
    episode_length: np.ndarray  # [R, W]


class HostDriver(Driver[HostState]):
    """A phase of runs that share a host environment and its trace."""

    def __init__(
        self, setups: Sequence[Setup], phase: Phase, chunk: int, traces: Sequence[np.ndarray]
    ) -> None:
        super().__init__(setups, phase, chunk)
        env, trace = setups[0].env, traces[0][: self.num_rows]
        assert is_host(env)
        self.env: HostEnv = env
        random_starts = self.mode.random_starts
        self.collector = Collector(env, self.spec, trace, self.num_runs, random_starts)
        self.together = self.num_runs > 1 and not on_cpu()
        self.traced: Tree = tuple(jax.tree.map(jnp.float32, config) for config in self.configs)
        if self.together:
            self.traced = configs.stack(self.configs)
        marked, rows = env if landmarks_of(env) else None, len(trace) if random_starts else 1
        structure, length = jax.tree.structure(self.configs[0]), phase.rollout_length
        kind = Kind(self.program, marked, length, rows, self.together, structure)
        self.functions = functions_of(kind)

    def start(self, agents: Sequence[Tree] | None = None) -> HostState:
        if agents is not None:
            held = self._hold([jax.tree.map(jnp.array, agent) for agent in agents])
        elif self.together:
            held = self.functions.init(self.traced, self.seeds)
        else:
            held = tuple(map(self.functions.init, self.traced, self.seeds))
        rows = self.functions.first_rows(self.seeds, agents is not None)
        return self._begin(held, np.array(rows).reshape(-1), self.mode.first_update)

    def _hold(self, agents: Sequence[Tree]) -> Tree:
        return jax.tree.map(lambda *x: jnp.stack(x), *agents) if self.together else tuple(agents)

    def _begin(self, held: Tree, cursor: np.ndarray, update: int) -> HostState:
        """Fresh worlds at rows `cursor`; `update` of the run is next."""
        worlds = self._open(update)
        try:
            obs = self.collector.begin(worlds, cursor)
        except Exception:
            worlds.close()
            raise
        self.exact_resume = worlds.get_state() is not None
        zeros = np.zeros((self.num_runs, self.spec.num_worlds), np.float32)
        return HostState(held, worlds, obs, cursor, zeros, zeros)

    def _open(self, update: int) -> HostWorlds:
        each = (world_seeds(int(seed), self.spec.num_worlds, update) for seed in self.seeds)
        anywhere = open_anywhere_of(self.env) if self.mode.random_starts else None
        seeds = [seed for seeds in each for seed in seeds]
        return (anywhere or self.env.open)(len(seeds), seeds)

    def chunk(self, state: HostState, first: int, count: int) -> tuple[HostState, ChunkMetrics]:
        """As `Driver.chunk`. A simulator may be slow: asked to stop, it returns early."""
        found: list[dict[str, np.ndarray]] = []
        block = block_size(self.phase.num_updates)
        for update in range(first, first + count):
            if found and len(found) % block == 0 and stop.asked.is_set():
                break
            state, metrics = self._update(state, update)
            found.append(metrics)
        rows = {name: np.stack([x[name] for x in found], axis=-1) for name in found[0]}
        return state, rows if self.num_runs > 1 else {k: v[0] for k, v in rows.items()}

    def _update(self, state: HostState, update: int) -> tuple[HostState, dict[str, np.ndarray]]:
        """One rollout and, if the mode says so, one update of each run; metrics [R]."""
        index, acting, num_steps = (
            np.int32(update),
            self.functions.acting,
            self.phase.rollout_length,
        )
        gather = acting.gather_stacked if self.together else acting.gather
        gathered = gather(self.traced, state.agent, index)
        if not on_cpu():
            gathered = jax.device_put(gathered, acting_device())
        bits, starts = (np.asarray(x) for x in self.functions.draws(self.seeds, index))
        shape = self.num_runs, self.spec.num_worlds, self.spec.obs_size

        def act(obs: np.ndarray, t: int) -> tuple[np.ndarray, Tree]:
            action, extra = acting.act(gathered, obs.reshape(shape), bits[t])
            return np.asarray(action).reshape(len(obs), -1), extra

        batch, obs, cursor = self.collector.collect(
            state.worlds, state.obs, state.cursor, act, num_steps, update * num_steps + 1,
            starts.reshape(num_steps, -1) if self.mode.random_starts else None,
        )  # fmt: skip
        return self._learn(state._replace(obs=obs, cursor=cursor), batch, index)

    def _learn(
        self, state: HostState, batch: Transition, update: np.int32
    ) -> tuple[HostState, dict[str, np.ndarray]]:
        """Pass each run its part of the batch."""

        def by_run(x: np.ndarray) -> np.ndarray:
            return x.reshape(len(x), self.num_runs, self.spec.num_worlds, *x.shape[2:])

        # What `act` returned besides the action is already split by run.
        parts = jax.tree.map(by_run, batch._replace(extra=()))
        batch = parts._replace(extra=batch.extra)
        sums = state.episode_return, state.episode_length
        learn = self.functions.learn
        if self.together:
            run = Run(self.traced, None, jnp.asarray(self.seeds))
            agents, *rest = learn(run, state.agent, batch, sums, update)
        else:
            results = []
            for i, (config, agent) in enumerate(zip(self.traced, state.agent, strict=True)):
                mine, so_far = jax.tree.map(lambda x, i=i: x[:, i], batch), [x[i] for x in sums]
                run = Run(config, None, self.seeds[i])
                results.append(learn(run, agent, mine, so_far, update))
            agents = tuple(result[0] for result in results)
            each = jax.device_get([result[1:] for result in results])
            rest = jax.tree.map(lambda *x: np.stack(x), *each)
        (totals, lengths), packed = jax.tree.map(np.asarray, tuple(rest))
        state = state._replace(agent=agents, episode_return=totals, episode_length=lengths)
        return state, dict(zip(self.functions.metrics, packed.T, strict=True))

    def members(self, state: HostState) -> list[tuple[RunState, int | None]]:
        size, held, out = self.spec.num_worlds, state.agent, []
        features, history = self.collector.layout.split(state.obs)
        whole: Any = state.worlds.get_state(), features, history, state.cursor
        for i in range(self.num_runs):
            worlds = jax.tree.map(lambda x, i=i: x[i * size : (i + 1) * size], Worlds(*whole))
            agent = jax.tree.map(lambda x, i=i: x[i], held) if self.together else held[i]
            sums: Any = state.episode_return[i], state.episode_length[i]
            out.append((RunState(agent, worlds, *sums), None))
        return out

    def close(self, state: HostState) -> None:
        state.worlds.close()

    def resume(self, saved: Sequence[Saved], shapes: RunState) -> HostState:
        """As `Driver.resume`. Worlds that could not be saved begin a new episode."""
        members: list[RunState] = [s.checkpoint.state for s in saved]
        agents = []
        for run, checkpoint in saved:
            part = Saved(run, checkpoint._replace(state=checkpoint.state.agent))
            agents.append(assemble([part], shapes.agent, many=False))
        joined = jax.tree.map(lambda *x: np.concatenate(x), *(m.worlds for m in members))
        if joined.env is None:
            return self._begin(self._hold(agents), joined.cursor, saved[0].checkpoint.update)
        worlds = self._open(0)
        worlds.set_state(joined.env)
        totals = np.stack([np.asarray(m.episode_return) for m in members])
        lengths = np.stack([np.asarray(m.episode_length) for m in members])
        return HostState(self._hold(agents), worlds, joined.obs, joined.cursor, totals, lengths)


def world_seeds(seed: int, num_worlds: int, update: int) -> list[int]:
    """Seeds of the worlds that a run opens before update number `update`.

    The first world of a run has the run's own: seed 0 begins as `reset(seed=0)`.
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
