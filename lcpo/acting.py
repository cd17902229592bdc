"""Frozen policies in NumPy, for processes that only act: no JAX, no compiler.

    actor = lcpo.acting.load("out/demo/runs/lcpo-pendulum-3-s0/policy.npz")
    action = actor.act(obs)

Probabilities are those of `lcpo.load` up to rounding, for every agent whose policy is a network
or a table. Only NumPy is imported (docs/deploy.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lcpo import values
from lcpo.errors import InputError
from lcpo.history import Session
from lcpo.plain import CLIP, LEAST, PLAIN, ActionForm, columns
from lcpo.run.store.files import load_about

__all__ = ["Actor", "load"]

SCHEMA = 2
"""Of a policy file, as `lcpo.run.store.policy_file` writes it."""
SAMPLED = (
    "a2c", "a2c-entropy", "lcpo", "lcpo-noent", "lcpo-uniform", "lcpo-mhd", "lcpo-p", "lcpo-plus",
    "lcpo-plus-ood", "trpo", "ppo", "ppo-entropy", "clear", "tabular-a2c", "prescient-a2c",
    "prescient-trpo",
    "sac", "online-ewc", "sliding-ogd", "mbpo", "ideal-mbpo", "prescient-sac",
)  # fmt: skip
"""Agents that draw actions from the softmax of a network's outputs."""
GREEDY = ("ddqn", "bfdqn", "pt-dqn", "pt-dqn-sgd", "prescient-ddqn")
"""Agents that take the action of the largest value, but for random ones."""
RAW = ("tabular-a2c", "ideal-mbpo")
"""Those that see observations as they are, whatever the file says of normalization."""
PADDING = -1e9
"""Output for an action that does not exist, where dimensions have unequal numbers of actions."""


class Place(NamedTuple):
    """Where the context history stands in an observation: `lcpo.types.ContextSlice`."""

    start: int
    channels: int
    lags: int

    @property
    def size(self) -> int:
        return self.channels * self.lags

    @property
    def end(self) -> int:
        return self.start + self.size


class Layout(NamedTuple):
    """The part of `lcpo.types.Spec` that acting needs."""

    obs_size: int
    context: Place
    num_actions: tuple[int, ...]
    elements: tuple[int, int] | None
    obs_levels: tuple[int, ...] | None
    guard: int | None
    """The entry of an observation that a guard reads."""
    num_worlds: int


class About(NamedTuple):
    """What a policy file says of itself."""

    run: str
    agent: str
    config: dict[str, Any]
    advance: str
    scale: float
    """The policy has seen the rows of its trace multiplied by this."""


class Actor:
    """A frozen policy in NumPy, made by `load`."""

    def __init__(self, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self.about = About(*(about[name] for name in About._fields))
        self.spec, self._form = _layout(about["spec"]), ActionForm.from_json(about["actions"])
        self._arrays, raw = arrays, self.about.agent in RAW
        self._rule = None if raw or about["normalise"] == "none" else about["normalise"]
        self._root = "" if self._rule is None else ".inner"
        self._generator = np.random.default_rng(about["seed"])
        self.probabilities(np.zeros(self.spec.obs_size))  # raises where arrays do not fit

    def __repr__(self) -> str:
        return f"Actor({self.about.run!r}: {self.spec.obs_size} numbers)"

    def act(self, obs: Any, key: Any = None, deterministic: bool = False) -> np.ndarray:
        """Action indices for obs [D] or [N, D]: [A] or [N, A].

        They are drawn as in training, or the most probable ones with `deterministic`. `key`: a seed
        or a NumPy generator; default: a fixed sequence of draws.
        """
        p = self.probabilities(obs)
        if values.flag("deterministic", deterministic):
            return p.argmax(-1).astype(np.int32)
        draw = self._generator if key is None else np.random.default_rng(key)
        if self.about.agent in GREEDY:  # all dimensions of an action are random, or none is
            shape, counts = p.shape[:-1], self.spec.num_actions
            random = (draw.random(shape) * counts).astype(np.int32)
            explore = draw.random(shape[:-1])[..., None] < self._epsilon()
            return np.where(explore, random, p.argmax(-1)).astype(np.int32)
        cumulative = p.astype(float).cumsum(-1)
        uniform = draw.random(p.shape[:-1])[..., None] * cumulative[..., -1:]
        return (cumulative <= uniform).sum(-1, dtype=np.int32)

    def probabilities(self, obs: Any) -> np.ndarray:
        """Of every action for obs [D] or [N, D]: [A, K] or [N, A, K]; 0 where there is none."""
        found, size = values.reals("obs", obs), self.spec.obs_size
        if found.ndim not in (1, 2) or found.shape[-1] != size:
            raise InputError(f"obs has shape {found.shape}: needs [{size}] or [N, {size}]")
        p = self._probabilities(self._scaled(np.atleast_2d(found)))
        return p[0] if found.ndim == 1 else p

    def decode(self, action: Any) -> Any:
        """Action indices [A] in the form that the environment of the run takes."""
        found = np.asarray(action)
        if self._form is None:
            return found
        return self._form.decode(found)

    def session(self) -> Session:
        """The policy in one stream, with the history of its context."""
        return Session(self)

    def _probabilities(self, x: np.ndarray) -> np.ndarray:
        exists = np.arange(max(self.spec.num_actions)) < np.array(self.spec.num_actions)[:, None]
        if self.about.agent in GREEDY:
            two = f"{self._learner}.transient[0].w" in self._arrays
            parts = ("permanent", "transient") if two else ("q",)
            q = np.where(exists, sum(self._outputs(name, x) for name in parts), -np.inf)
            best, rate = np.eye(q.shape[-1], dtype=np.float32)[q.argmax(-1)], self._epsilon()
            return (1.0 - rate) * best + rate * exists / exists.sum(-1, keepdims=True)
        logits = np.where(exists, self._outputs("policy", x), PADDING)
        steps = self._arrays.get(f"{self._root}.num_steps")  # SAC acts at random at first
        if steps is not None and steps < self.about.config["random_steps"]:
            logits = np.broadcast_to(np.where(exists, 0.0, PADDING), logits.shape)
        odds = np.exp(logits - logits.max(-1, keepdims=True))
        return odds / odds.sum(-1, keepdims=True)

    @property
    def _learner(self) -> str:
        learner = f"{self._root}.learner"
        return learner if any(name.startswith(learner) for name in self._arrays) else self._root

    def _epsilon(self) -> float:
        """Probability of a random action: `lcpo.agents.ddqn.epsilon`."""
        config = self.about.config
        after = float(self._arrays[f"{self._root}.num_steps"]) - config["random_steps"]
        after += config["rollout_length"] * self.spec.num_worlds
        return float(np.clip(1.0 - after / config["epsilon_steps"], 0.0, 1.0))

    def _outputs(self, name: str, x: np.ndarray) -> np.ndarray:
        """Of a network: [N, A, K]."""
        at, spec = f"{self._learner}.{name}", self.spec
        if spec.obs_levels is not None and f"{at}.entries" in self._arrays:
            row = tuple(x.astype(int).T)
            found = self._arrays[f"{at}.entries"][row]
        elif spec.elements is not None:
            num, size = spec.elements
            each = self._mlp(f"{at}.element", x[:, : num * size].reshape(-1, size))
            pooled = each.reshape(len(x), num).mean(-1, keepdims=True)
            found = self._mlp(f"{at}.whole", np.concatenate([pooled, x[:, num * size :]], axis=1))
        else:
            found = self._mlp(at, x)
        return found.reshape(len(x), len(spec.num_actions), max(spec.num_actions))

    def _mlp(self, at: str, x: np.ndarray) -> np.ndarray:
        count = sum(name.startswith(f"{at}[") and name.endswith("].w") for name in self._arrays)
        for i in range(count):
            x = np.maximum(x, 0.0) if i else x
            x = x @ self._arrays[f"{at}[{i}].w"] + self._arrays[f"{at}[{i}].b"]
        return x

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        """Observations as the agent sees them: `lcpo.agents.normalise.scale`."""
        if self._rule is None:
            return x
        column = columns(self.spec, self.about.advance == "own")
        scaled = column != PLAIN
        if self.spec.guard is not None:
            scaled[self.spec.guard] = False
        if not isinstance(self._rule, str):
            return x / np.where(scaled, np.array([*self._rule, 1.0], np.float32)[column], 1.0)
        mean, std = pool(self._arrays[".moments.mean"], self._arrays[".moments.var"], column)
        return np.where(scaled, np.clip((x - mean) / std, -CLIP, CLIP), x)


def pool(mean: np.ndarray, var: np.ndarray, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the column that each entry is in, [D]."""
    group = np.unique(column, return_inverse=True)[1]

    def average(x: np.ndarray) -> np.ndarray:
        return (np.bincount(group, x) / np.bincount(group))[group]

    mean, own = average(mean), mean
    var = average(var + (own - mean) ** 2)
    return mean, np.maximum(np.sqrt(var), LEAST * np.abs(mean) + 1e-12)


def _layout(spec: Mapping[str, Any]) -> Layout:
    def sizes(name: str) -> Any:
        return None if spec[name] is None else tuple(map(int, spec[name]))

    guard = spec["guard"] and spec["guard"]["entry"]
    parts = sizes("num_actions"), sizes("elements"), sizes("obs_levels"), guard, spec["num_worlds"]
    return Layout(int(spec["obs_size"]), Place(**spec["context"]), *parts)


def load(path: str | Path) -> Actor:
    """The policy in a file `policy.npz`. Nothing that the file names is imported or called.

    InputError for agents that act in another way, such as your own: use `lcpo.load`.
    """
    path = values.path("path", path)
    about, arrays = load_about(path)
    if not isinstance(about, dict) or about.get("schema") != SCHEMA or "agent" not in about:
        raise InputError(f"{path} is not a policy of this version of lcpo: give a policy.npz")
    if about["agent"] not in (*SAMPLED, *GREEDY):
        known = json.dumps(about["agent"])[:80]
        raise InputError(f"{path} is a policy of {known}, which acts with JAX only: use lcpo.load")
    try:
        return Actor(about, arrays)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
        raise InputError(f"{path} is not a policy of lcpo: {error}") from error
