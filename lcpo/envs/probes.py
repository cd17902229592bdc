"""Probe environments: tiny tasks whose answers are known.

A fault that makes an agent fail one of them is easy to find here and hard to find elsewhere. All
have a trace with one channel, which only the last two use.

    ConstantReward   V = 1 / (1 - gamma)
    Rooms            V depends on whether the end of an episode is the end of the rewards
    Bandit           the best action pays 1, at once
    DelayedReward    the best first action pays 1, later
    TwoContexts      the best action in one context is the worst one in the other
    SwitchingMDP     a random MDP in each context, whose tables are known: Q* can be computed
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.config import config, static
from lcpo.envs.base import Advance, Landmark
from lcpo.types import Array, ContextSlice, Spec, Step


def _as_sign(bit: Array) -> Array:
    """-1.0 for 0, 1.0 for 1."""
    return 2.0 * bit.astype(jnp.float32) - 1.0


class Probe:
    """A probe without a state, whose trace advances by step."""

    num_features: ClassVar[int] = 1

    @property
    def advance(self) -> Advance:
        return "step"

    @property
    def spec(self) -> Spec:
        context = ContextSlice(self.num_features, channels=1, lags=1)
        actions = (getattr(self, "num_actions", 2),)
        size = self.num_features + 1
        return Spec(size, context, actions, contiguous_contexts=True, unit_steps=True)

    def reset(self, key: Array) -> tuple[Any, Array]:
        return (), jnp.ones(1)


@config
class ConstantReward(Probe):
    """Always pays 1: V = 1 / (1 - gamma)."""

    num_actions: int = static(2, "actions", low=2)

    def step(self, state: tuple, action: Array, context: Array, key: Array) -> tuple[tuple, Step]:
        return state, Step(jnp.ones(1), jnp.float32(1.0), jnp.bool_(False), jnp.bool_(False))


@config
class Bandit(Probe):
    """One action per episode; the best one pays 1, the others nothing."""

    num_actions: int = static(5, "arms", low=2)
    best: int = static(3, "the arm that pays", low=0)

    def step(self, state: tuple, action: Array, context: Array, key: Array) -> tuple[tuple, Step]:
        """Pull arm `action` [1]."""
        pays = (action[0] == self.best).astype(jnp.float32)
        return state, Step(jnp.ones(1), pays, jnp.bool_(True), jnp.bool_(False))


class Place(NamedTuple):
    """The number of a room or state, and the steps since the reset."""

    number: Array
    time: Array


@config
class Rooms(Probe):
    """A reset draws room 0 or 1; every step there pays its number.

    Time is not observed. If episodes are truncated, V(room) = room / (1 - gamma). If they are
    terminated, V(1) is the mean over k = 1 .. max_steps of the value of k payments. If an agent's
    returns continue into the next episode, V(0) > 0.
    """

    end: str = static("truncated", "how episodes end", choices=("truncated", "terminated"))
    max_steps: int = static(4, "episode length", low=1)

    def reset(self, key: Array) -> tuple[Place, Array]:
        number = jax.random.bernoulli(key).astype(jnp.float32)
        return Place(number, jnp.int32(0)), number[None]

    def step(self, state: Place, action: Array, context: Array, key: Array) -> tuple[Place, Step]:
        state = Place(state.number, state.time + 1)
        over = state.time >= self.max_steps
        no = jnp.bool_(False)
        ends = (over, no) if self.end == "terminated" else (no, over)
        return state, Step(state.number[None], state.number, *ends)


class Corridor(NamedTuple):
    """Steps since the reset, and the first action as -1 or 1 (0: not taken yet)."""

    time: Array
    choice: Array


@config
class DelayedReward(Probe):
    """A corridor: the first of two actions decides whether the last step pays 1 or nothing."""

    max_steps: int = static(5, "length of the corridor", low=2)

    num_features: ClassVar[int] = 2

    def reset(self, key: Array) -> tuple[Corridor, Array]:
        return Corridor(jnp.int32(0), jnp.float32(0.0)), jnp.zeros(2)

    def step(
        self, state: Corridor, action: Array, context: Array, key: Array
    ) -> tuple[Corridor, Step]:
        """Walk on; only the first `action` [1] matters, and 1 is the good one."""
        choice = jnp.where(state.time == 0, _as_sign(action[0]), state.choice)
        state = Corridor(state.time + 1, choice)
        over = state.time >= self.max_steps
        obs = jnp.stack([state.time.astype(jnp.float32) / self.max_steps, choice])
        pays = (over & (choice > 0.0)).astype(jnp.float32)
        return state, Step(obs, pays, over, jnp.bool_(False))


@config
class TwoContexts(Probe):
    """A sign x = -1 or 1 is shown; action 1 is right where x times the context is positive.

    One action per episode, 1 for the right one. What is right in context 1 is wrong in context -1:
    a network that trains in only one of them forgets the other, unless it is constrained.
    """

    feature_names: ClassVar[tuple[str, ...]] = ("sign",)
    context_names: ClassVar[tuple[str, ...]] = ("context",)

    @property
    def landmarks(self) -> dict[str, Landmark]:
        """All that can be shown in context -1."""
        return {"minus": Landmark((-1, -1), (1,)), "plus": Landmark((1, -1), (0,))}

    def reset(self, key: Array) -> tuple[Array, Array]:
        sign = _as_sign(jax.random.bernoulli(key))
        return sign, sign[None]

    def step(self, state: Array, action: Array, context: Array, key: Array) -> tuple[Array, Step]:
        right = (action[0] == 1) == (state * context[0] > 0.0)
        reward = right.astype(jnp.float32)
        return state, Step(state[None], reward, jnp.bool_(True), jnp.bool_(False))


@config
class SwitchingMDP:
    """A random finite MDP for each context; the last state is terminal.

    Observed are the numbers of the state and of the context. With `advance="episode"` this is the
    setting of the paper's theorem (docs/theory.md); "step" breaks one of its assumptions.
    """

    num_states: int = static(5, "states, the terminal one included", low=2)
    num_actions: int = static(3, "actions", low=2)
    num_contexts: int = static(3, "contexts, the values 0, 1, ... of the trace", low=1)
    max_steps: int = static(10, "an episode that has not terminated is truncated", low=1)
    advance: Advance = static("episode", "what moves the context", choices=("episode", "step"))
    seed: int = static(0, "of the tables", low=0)

    @property
    def spec(self) -> Spec:
        levels = (self.num_states, self.num_contexts)
        return Spec(2, ContextSlice(1, channels=1, lags=1), (self.num_actions,), obs_levels=levels)

    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities [context, state, action, next state], rewards [context, state, action]."""
        rng = np.random.default_rng(self.seed)
        shape = (self.num_contexts, self.num_states, self.num_actions)
        probabilities = rng.dirichlet(np.full(self.num_states, 0.5), shape)
        return probabilities, rng.uniform(size=shape)

    def reset(self, key: Array) -> tuple[Place, Array]:
        """A random state other than the terminal one."""
        number = jax.random.randint(key, (), 0, self.num_states - 1)
        return Place(number, jnp.int32(0)), number[None].astype(jnp.float32)

    def step(self, state: Place, action: Array, context: Array, key: Array) -> tuple[Place, Step]:
        """Move at random, as the context's tables say; context [1] is its number."""
        probabilities, rewards = (jnp.asarray(table, jnp.float32) for table in self.tables())
        here = (context[0].astype(jnp.int32), state.number, action[0])
        below = jnp.cumsum(probabilities[here])[:-1] <= jax.random.uniform(key)
        after = Place(jnp.sum(below, dtype=jnp.int32), state.time + 1)
        terminated = after.number == self.num_states - 1
        truncated = (after.time >= self.max_steps) & ~terminated
        obs = after.number[None].astype(jnp.float32)
        return after, Step(obs, rewards[here], terminated, truncated)
