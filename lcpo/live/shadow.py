"""Learning from steps that the policy did not decide.

Such steps have weight 0: their policy gradient is zero. An update from nothing else would still
move the policy, by weight decay, momentum and the entropy bonus. So the actor of an on-policy agent
is put back: only value function, statistics and buffers learn.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from lcpo.agents import on_policy
from lcpo.live.learning import Learning, Update
from lcpo.live.state import Backup, LearnerState
from lcpo.types import Tree


class ServedLearning(Learning):
    """Learning that leaves the actor alone where nothing was decided by it."""

    def compute(self, state: LearnerState, backup: Backup | None = None) -> Update:
        """The update from the first rollout of a state."""
        if any(step.weight for step in state.closed[: self.num_steps]):
            return super().compute(state, backup)
        kept = [jax.tree.map(jnp.array, actor(part)) for part in _parts(state.agent)]
        update = super().compute(state, backup)
        return update if update.problem else update._replace(agent=with_actors(update.agent, kept))


def actor(part: on_policy.State) -> on_policy.State:
    """A state with nothing but what the policy's updates change."""
    nothing = dict.fromkeys(("value", "value_opt", "running_return", "return_stats"))
    return part._replace(**nothing)


def with_actors(agent: Tree, kept: list[on_policy.State]) -> Tree:
    """An agent's state with these actors in place of its own."""
    left = iter(kept)

    def put(part: Tree) -> Tree:
        if not isinstance(part, on_policy.State):
            return part
        old = next(left)
        return part._replace(policy=old.policy, policy_opt=old.policy_opt, entropy=old.entropy)

    return jax.tree.map(put, agent, is_leaf=_is_part)


def _parts(agent: Tree) -> list[on_policy.State]:
    return [x for x in jax.tree.leaves(agent, is_leaf=_is_part) if _is_part(x)]


def _is_part(x: Tree) -> bool:
    return isinstance(x, on_policy.State)
