"""Acting on one observation in NumPy, without the overhead of calling a compiled function.

The numbers are those of the agent's compiled `act` up to rounding, and the random numbers are the
same. `FastPolicy.act` also says whether rounding could have changed the action. Only then does a
learner that must equal `lcpo train`, bit for bit, ask the compiled function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from lcpo.acting import GREEDY, SAMPLED
from lcpo.agents import AGENTS
from lcpo.agents.normalise import RUNNING, pool
from lcpo.core.nets import DeepSet, Lookup
from lcpo.distributions import PADDING
from lcpo.live.settings import Settings
from lcpo.plain import CLIP, PLAIN, columns
from lcpo.types import Spec, Tree

MARGIN = 1e-4
"""Rounding moves a probability, or a value as a share of the largest, by less than this."""

Forward = Callable[[np.ndarray], np.ndarray]


class Answer(NamedTuple):
    """What a policy does with one observation."""

    action: np.ndarray
    """[A]"""
    probability: float
    sure: bool = True
    """Whether rounding cannot have changed the action."""


class FastPolicy:
    """The policy of an agent at one moment; made by `make`."""

    def __init__(self, spec: Spec, forward: Forward, epsilon: float | None, uniform: bool) -> None:
        """`epsilon`: of agents that take the largest value. `uniform`: all actions are equal."""
        counts = spec.discrete.counts
        self.counts, self.forward = np.array(counts, np.float32), forward
        self.shape, width = (len(counts), max(counts)), max(counts)
        self.exists = np.arange(width) < np.array(counts)[:, None]
        self.padded = min(counts) < width
        self.last = [count - 1 for count in counts]
        self.epsilon, self.uniform = epsilon, uniform
        self.dtype = spec.actions.dtype

    def act(self, obs: np.ndarray, uniforms: np.ndarray, deterministic: bool) -> Answer:
        """For obs [D] and random numbers [A + 1] in [0, 1)."""
        outputs = self.forward(obs).reshape(self.shape)
        if self.epsilon is not None:
            return self._greedy(outputs, uniforms, 0.0 if deterministic else self.epsilon)
        if deterministic:
            return Answer(self._softmax(outputs).argmax(-1).astype(self.dtype), 1.0)
        chosen, probability, sure = [], 1.0, True
        rows = self._softmax(outputs) if self.uniform or self.padded else outputs
        for row, u, last in zip(rows.tolist(), uniforms.tolist(), self.last, strict=False):
            k, share, is_sure = _draw(row, u, last, rows is outputs)
            chosen.append(k)
            probability, sure = probability * share, sure and is_sure
        return Answer(np.array(chosen, self.dtype), probability, sure)

    def probability(self, obs: np.ndarray, action: np.ndarray) -> float:
        """Of an action [A] for obs [D]."""
        outputs, chosen = self.forward(obs).reshape(self.shape), np.arange(len(action))
        if self.epsilon is None:
            return float(self._softmax(outputs)[chosen, action].prod())
        q = np.where(self.exists, outputs, -np.inf)
        by_chance = self.epsilon / float(self.counts.prod())
        # Where two values are equal but for rounding, either is the largest.
        is_best = bool((q[chosen, action] >= q.max(-1) - MARGIN * (1.0 + np.abs(q.max(-1)))).all())
        return by_chance + (1.0 - self.epsilon) * is_best

    def _softmax(self, logits: np.ndarray) -> np.ndarray:
        if self.uniform:
            return self.exists / self.exists.sum(-1, keepdims=True)
        if self.padded:
            logits = np.where(self.exists, logits, PADDING)
        odds = np.exp(logits - logits.max(-1, keepdims=True))
        return odds / odds.sum(-1, keepdims=True)

    def _greedy(self, q: np.ndarray, uniforms: np.ndarray, epsilon: float) -> Answer:
        """All dimensions are random with probability epsilon, else all take the largest value."""
        if self.padded:
            q = np.where(self.exists, q, -np.inf)
        best = q.argmax(-1)
        explore = bool(uniforms[0] < epsilon)
        action = np.floor(uniforms[1:] * self.counts).astype(self.dtype) if explore else best
        by_chance = epsilon / float(self.counts.prod())
        probability = by_chance + (1.0 - epsilon) * bool((action == best).all())
        sure = abs(float(uniforms[0]) - epsilon) > MARGIN
        if not explore and q.shape[-1] > 1:
            second, first = np.partition(q, -2)[:, -2:].T
            size = 1.0 + np.abs(first)
            sure = sure and bool((first - second > MARGIN * size).all())
        return Answer(action.astype(self.dtype), probability, sure)


def _draw(row: list[float], u: float, last: int, logits: bool) -> tuple[int, float, bool]:
    """An action, its probability, and whether u is far from those of the others.

    The action is the number of cumulative probabilities that are <= u (`inverse_cdf`). For the few
    numbers of a row, lists are quicker than arrays.
    """
    if logits:
        largest = max(row)
        row = [math.exp(x - largest) for x in row]
    # In units of the sum of the row.
    total = sum(row)
    u, margin, below = u * total, MARGIN * total, 0.0
    for k, odds in enumerate(row):
        above = below + odds
        if above > u or k == last:
            sure = (k == 0 or u - below > margin) and (k == last or above - u > margin)
            return k, odds / total, sure
        below = above
    raise AssertionError("unreachable: the last action ends the loop")


def is_fast(settings: Settings) -> bool:
    """Whether `make` knows how the agent acts: it is one of this library's, with a network."""
    root = settings.plain_agent.root
    known = root.name in (*SAMPLED, *GREEDY) and AGENTS[root.name] is root
    return known and settings.spec.distribution is None


def make(settings: Settings, agent: Tree) -> FastPolicy:
    """The policy that an agent's state holds now; later updates do not change it."""
    config, spec, name = settings.config, settings.spec, settings.plain_agent.root.name
    plain = settings.rule is None or settings.plain_agent.raw
    inner = agent if plain else agent.inner
    learner = getattr(inner, "learner", inner)
    random = hasattr(inner, "num_steps") and int(inner.num_steps) < config.random_steps
    if name not in GREEDY:
        network = _network(_copy(learner.policy), spec)
        return FastPolicy(spec, _scaled(settings, agent, network), None, random)
    after = float(inner.num_steps) - config.random_steps + config.rollout_length
    epsilon = float(np.clip(1.0 - after / config.epsilon_steps, 0.0, 1.0))
    fields = ("permanent", "transient") if hasattr(learner, "transient") else ("q",)
    parts = [_network(_copy(getattr(learner, field)), spec) for field in fields]
    network = parts[0] if len(parts) == 1 else lambda x: parts[0](x) + parts[1](x)
    return FastPolicy(spec, _scaled(settings, agent, network), epsilon, False)


def _copy(params: Tree) -> Tree:
    """On the host; the agent's own buffers are used up by its next update."""
    return jax.tree.map(np.array, params)


def _network(params: Tree, spec: Spec) -> Forward:
    """Outputs [A * K] for obs [D]."""
    if isinstance(params, Lookup):
        entries = np.asarray(params.entries)
        return lambda x: entries[tuple(x.astype(int))]
    if not isinstance(params, DeepSet):
        return _mlp(params)
    element, whole = _mlp(params.element), _mlp(params.whole)
    assert spec.elements is not None
    num, size = spec.elements

    def deep_set(x: np.ndarray) -> np.ndarray:
        pooled = element(x[: num * size].reshape(num, size)).mean(keepdims=True)
        return whole(np.concatenate([pooled.reshape(1), x[num * size :]]))

    return deep_set


def _mlp(layers: Any) -> Forward:
    *hidden, (w, b) = [(layer.w, layer.b) for layer in layers]

    def forward(x: np.ndarray) -> np.ndarray:
        for weight, bias in hidden:
            x = x @ weight
            x += bias
            np.maximum(x, 0.0, out=x)
        return x @ w + b

    return forward


def _scaled(settings: Settings, agent: Tree, network: Forward) -> Forward:
    """The network behind the normalization of its observations."""
    rule, spec = settings.rule, settings.spec
    if rule is None or settings.plain_agent.raw:
        return network
    column = columns(spec, settings.advance == "own")
    scaled = column != PLAIN
    if spec.guard is not None:
        scaled[spec.guard.entry] = False
    if rule != RUNNING:
        scale = np.where(scaled, np.array([*rule, 1.0], np.float32)[column], np.float32(1.0))
        return lambda x: network(x / scale)
    mean, std = (np.array(x) for x in pool(agent.moments, column))
    return lambda x: network(np.where(scaled, np.clip((x - mean) / std, -CLIP, CLIP), x))
