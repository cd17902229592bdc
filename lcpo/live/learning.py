"""The agent's part of a learner: acting, and learning from a full rollout.

Keys and `update` are those of the host driver (`run.drive`), the same compiled functions. The
random numbers of a decision come from (seed, id), those of an update from (seed, its number): a
learner with one stream that a simulator drives in lock step equals a run of `lcpo train`, bit for
bit, and a log of events makes the same learner again, whatever the timing was.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.core import health, random
from lcpo.errors import InputError, tell
from lcpo.live import fast, rollout
from lcpo.live.settings import Settings
from lcpo.live.state import Backup, LearnerState, Where
from lcpo.run.drive import base
from lcpo.run.drive.base import Program, Run
from lcpo.run.drive.host_functions import Acting, Kind, functions_of
from lcpo.run.plan.phases import Mode
from lcpo.types import Array, Tree

AHEAD = 4096
"""Random numbers of at least so many decisions are drawn at a time."""


class Snapshot(NamedTuple):
    """A policy at one moment: what acting needs until the next update."""

    version: int
    fast: fast.FastPolicy | None
    """None if the agent does not act in NumPy."""
    compiled: Any
    """For the compiled `act`; None if it is never called."""
    shown: Any
    """For the compiled `probabilities`; None if they are not needed, or unknown."""


class Draws(NamedTuple):
    """Random numbers of the decisions first, first + 1, ..."""

    first: int
    bits: np.ndarray
    """[count, 2], for the compiled `act`."""
    uniforms: np.ndarray
    """[count, A + 1] in [0, 1)."""


class Answer(NamedTuple):
    """What a policy does with one observation."""

    action: np.ndarray
    probability: float | None
    extra: tuple[np.ndarray, ...] = ()


class Update(NamedTuple):
    """What came of an update; `Learning.merge` puts it into the state of that moment."""

    agent: Tree
    tail: tuple[int, int]
    alone: bool
    metrics: dict[str, float]
    problem: str | None
    """Why it was dropped; None if it was not."""


class Learning:
    """The agent's functions, for given settings. It holds nothing that changes a result."""

    def __init__(self, settings: Settings, exact: bool = True) -> None:
        """`exact`: actions are those of the compiled `act`, even where they depend on rounding."""
        self.settings, self.spec, self.exact = settings, settings.spec, exact
        self.num_steps: int = settings.config.rollout_length
        structure = jax.tree.structure(settings.config)
        program = Program(settings.agent, settings.spec)
        # Shared with host runs of one seed of the same kind.
        self.functions = functions_of(Kind(program, None, self.num_steps, 1, False, structure))
        self.traced: Tree = jax.tree.map(jnp.float32, settings.config)
        self.is_fast = fast.is_fast(settings)
        self._blocks = -(-AHEAD // self.num_steps)
        mode = program.mode
        self._draw = _draws_of(mode, self.num_steps, self.spec.action_size + 1)
        self._draws = Draws(0, np.zeros((0, 2), np.uint32), np.zeros((0, 1), np.float32))

    def begin(self) -> LearnerState:
        """A fresh learner."""
        agent = self.functions.init(self.traced, self.settings.seed)
        return LearnerState(agent, {}, Where(), ())

    def warm_up(self) -> None:
        """Compile all that acting and learning need, so that no later call has to."""
        state = self.begin()
        snapshot, obs = self.snapshot(state), np.zeros(self.spec.obs_size, np.float32)
        self.propose(snapshot, obs, 0)
        if not self.is_fast or self.exact:
            self._act_compiled(snapshot, obs, 0)
        zeros = rollout.blank(self.spec, self.num_steps, self.extra_shapes)
        for running in ((), np.zeros((self.num_steps, 1), np.float32)):
            given = jax.tree.map(jnp.array, state.agent)
            jax.block_until_ready(self._update(given, zeros._replace(running=running), 0))

    def snapshot(self, state: LearnerState) -> Snapshot:
        """The policy of a state; later updates do not change it."""
        made = fast.make(self.settings, state.agent) if self.is_fast else None
        given = ((self.traced,), (state.agent,), np.int32(_index(state)))
        compiled = shown = None
        if made is None or self.exact:
            compiled = self.functions.acting.gather(*given)
        if made is None and self.settings.agent.probabilities is not None:
            shown = self._shown.gather(*given)
        return Snapshot(state.updates, made, compiled, shown)

    def propose(
        self, snapshot: Snapshot, obs: np.ndarray, number: int, deterministic: bool = False
    ) -> Answer:
        """The action of decision `number` for obs [D]."""
        if snapshot.fast is None:
            return self._propose_compiled(snapshot, obs, number, deterministic)
        found = snapshot.fast.act(obs, self._drawn(number)[1], deterministic)
        if found.sure or not self.exact:
            return Answer(found.action, found.probability)
        # Rounding may decide which action it is: the compiled function settles that.
        action, _ = self._act_compiled(snapshot, obs, number)
        return Answer(action, snapshot.fast.probability(obs, action))

    def check_deterministic(self) -> None:
        """Raise InputError if the most probable action is unknown."""
        if self.settings.agent.probabilities is None:
            raise InputError(
                f"agent {self.settings.agent_name!r} has no `probabilities` (a field of its "
                "Agent), which deterministic=True needs"
            )

    def is_full(self, state: LearnerState) -> bool:
        """Whether there are enough steps to learn from."""
        return len(state.closed) >= self.num_steps

    def learn(
        self, state: LearnerState, backup: Backup | None = None
    ) -> tuple[LearnerState, str | None]:
        """Learn from the first rollout, or drop it: then the agent stays, and the text says why.

        With a backup of its agent, `state` is no longer usable: the update takes its buffers.
        Without one they are copied first.
        """
        update = self.compute(state, backup)
        return self.merge(state, update), update.problem

    def compute(self, state: LearnerState, backup: Backup | None = None) -> Update:
        """The update from the first rollout of a state; see `learn`."""
        given = state.agent if backup else jax.tree.map(jnp.array, state.agent)
        chosen = rollout.arrange(state.closed[: self.num_steps], state.alone, state.tail)
        try:
            batch = rollout.to_batch(chosen, self.spec, jax.tree.structure(self.extra_shapes))
            agent, metrics = self._update(given, batch, _index(state))
            bad = health.find({name: np.array([value]) for name, value in metrics.items()})
        except Exception as error:  # of the agent or the device
            problem = tell(error)
        else:
            if bad is None:
                found = {**health.without_signs(metrics), **rollout.episodes(chosen)}
                return Update(agent, chosen.tail, chosen.alone, found, None)
            problem = f"{bad[0]} is {metrics[bad[0]]:g}{health.explain(bad[0])}"
        kept = backup.restore() if backup else state.agent
        return Update(kept, chosen.tail, chosen.alone, dict(state.metrics), problem)

    def merge(self, state: LearnerState, update: Update) -> LearnerState:
        """The state after an update from its first rollout."""
        dropped = update.problem is not None
        return state._replace(
            agent=update.agent, closed=state.closed[self.num_steps :], alone=update.alone,
            tail=update.tail, metrics=update.metrics, updates=state.updates + (not dropped),
            dropped=state.dropped + dropped,
        )  # fmt: skip

    def check_usable(self, agent: Tree, fresh: Tree, source: str) -> None:
        """Raise InputError if an agent's state has more bad values than a fresh one."""
        if int(health.num_unusable(agent)) > int(health.num_unusable(fresh)):
            raise InputError(
                f"the agent in {source} holds NaN or infinity: use a file that was saved earlier"
            )

    def _update(self, agent: Tree, batch: Any, index: int) -> tuple[Tree, dict[str, float]]:
        run = Run(self.traced, None, self.settings.seed)  # pyright: ignore[reportArgumentType]
        sums = (np.zeros(1, np.float32), np.zeros(1, np.float32))
        agent, _, packed = self.functions.learn(run, agent, batch, sums, np.int32(index))
        names = self.functions.metrics
        return agent, dict(zip(names, np.asarray(packed).tolist(), strict=True))

    def _propose_compiled(
        self, snapshot: Snapshot, obs: np.ndarray, number: int, deterministic: bool
    ) -> Answer:
        action, extra = self._act_compiled(snapshot, obs, number)
        if snapshot.shown is None:
            return Answer(action, None, extra)
        bits = self._drawn(number)[0]
        summary = self._shown.act(snapshot.shown, obs[None, None], bits[None])[0]
        if deterministic:
            mode = self.spec.actions.mode(summary)
            return Answer(np.array(mode)[0, 0], 1.0, extra)
        if self.spec.distribution is not None:  # not a probability, but a density
            return Answer(action, None, extra)
        p = np.asarray(summary)[0, 0]
        return Answer(action, float(np.prod(p[np.arange(len(action)), action])), extra)

    def _act_compiled(
        self, snapshot: Snapshot, obs: np.ndarray, number: int
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Action [A] and extra of the agent's own `act`."""
        bits = self._drawn(number)[0]
        answer = self.functions.acting.act(snapshot.compiled, obs[None, None], bits[None])
        # The extra keeps the axis of its single world: it may belong to the agent instead.
        extra = tuple([np.array(x)[0] for x in jax.tree.leaves(answer[1])])
        return np.array(answer[0])[0, 0], extra

    def _drawn(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Bits [2] and uniforms [A + 1] of a decision. A race only draws them twice."""
        draws = self._draws
        if not draws.first <= number < draws.first + len(draws.bits):
            block = number // self.num_steps
            bits, uniforms = self._draw(
                self.settings.seed, np.arange(block, block + self._blocks, dtype=np.int32)
            )
            rows = self._blocks * self.num_steps
            draws = Draws(
                block * self.num_steps, np.asarray(bits).reshape(rows, 2),
                np.asarray(uniforms).reshape(rows, -1),
            )  # fmt: skip
            self._draws = draws
        return draws.bits[number - draws.first], draws.uniforms[number - draws.first]

    @property
    def _shown(self) -> Acting:
        """The agent's probabilities, called as `act` is."""
        return _shown_of(self.functions.kind)

    @functools.cached_property
    def extra_shapes(self) -> Tree:
        """Shapes of what `act` returns besides the actions, with an axis of runs."""
        state = jax.eval_shape(self.functions.init, self.traced, self.settings.seed)
        acting, index = self.functions.acting, np.int32(0)
        policy = jax.eval_shape(acting.gather, (self.traced,), (state,), index)
        obs = np.zeros((1, 1, self.spec.obs_size), np.float32)
        return jax.eval_shape(acting.act, policy, obs, np.zeros((1, 2), np.uint32))[1]


def _index(state: LearnerState) -> int:
    """The number of the next update, which determines its keys."""
    return state.updates + state.dropped


@functools.cache
def _draws_of(mode: Mode, num_steps: int, size: int) -> Callable[..., Any]:
    """draws(seed, indices [B]) -> bits [B, T, 2] and uniforms [B, T, size].

    The bits are those of rollouts of the host driver, the uniforms what its `act` makes of them.
    """

    def draw(seed: Array, index: Array) -> tuple[Array, Array]:
        keys = base.rollout_keys(base.update_keys(seed, index, mode)[0])
        bits = random.scan_bits(keys.act, (num_steps,))
        each = jax.vmap(lambda x: jax.random.uniform(random.from_bits(x), (size,)))
        return bits, each(bits)

    return jax.jit(jax.vmap(draw, (None, 0)))


@functools.cache
def _shown_of(kind: Kind) -> Acting:
    """`probabilities` of an agent in place of its `act`; compiled once per process."""
    (agent, spec, mode), acting = kind.program, functions_of(kind).acting
    probabilities = agent.probabilities
    assert probabilities is not None

    def act(config: Any, spec: Any, state: Tree, obs: Array, key: Array) -> tuple[Array, tuple]:
        return probabilities(config, spec, state, obs), ()

    config, state = jax.tree.unflatten(acting.structure, acting.shapes)
    return Acting(Program(dataclasses.replace(agent, act=act), spec, mode), config, state)
