"""Any Gymnasium environment as a host environment: spaces, the context's place, state, errors."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import gym_examples
import gymnasium
import numpy as np
import pytest
from each import for_each
from gymnasium import spaces
from host_examples import Drift

from lcpo.envs.base import WorldError
from lcpo.errors import MissingPackage
from lcpo.gym import from_gymnasium
from lcpo.gym.spaces import action_form, observation_encoder
from lcpo.run.plan.job import find_env

BOX = spaces.Box(-1.0, 1.0, (2, 3), np.float64)
NONE = np.zeros((1, 0))


def walk(name: str = "Walk", **fields: Any) -> Any:
    fields.setdefault("context", "key:wind")
    return from_gymnasium(f"gym_examples:{name}", **fields)


@pytest.mark.parametrize(
    ("space", "size"),
    [
        (BOX, 6),
        (spaces.Discrete(4, start=-2), 4),
        (spaces.MultiDiscrete([2, 3]), 5),
        (spaces.MultiBinary(3), 3),
        (spaces.Dict({"b": spaces.Discrete(2), "a": BOX}), 8),
        (spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)]), 5),
    ],
    ids=str,
)
def test_observations_become_vectors(space: Any, size: int) -> None:
    encoder = observation_encoder(space)
    for seed in range(5):
        space.seed(seed)
        value = space.sample()
        encoded = encoder.encode(value)
        assert encoded.shape == (encoder.size,) == (size,)
        assert encoded.dtype == np.float32
        expected: Any = spaces.flatten(space, value)
        np.testing.assert_allclose(encoded, expected, rtol=1e-6)


def test_finite_observations_as_numbers_have_levels() -> None:
    space = spaces.Dict({"b": spaces.Discrete(3, start=5), "a": spaces.MultiDiscrete([2, 4])})
    encoder = observation_encoder(space, one_hot=False)
    assert encoder.levels == (2, 4, 3)
    np.testing.assert_array_equal(encoder.encode({"a": np.array([1, 3]), "b": 6}), [1, 3, 1])
    assert observation_encoder(spaces.Dict({"a": BOX}), one_hot=False).levels is None


@pytest.mark.parametrize(
    ("space", "counts"),
    [
        (spaces.Discrete(4, start=-2), (4,)),
        (spaces.MultiDiscrete([2, 3]), (2, 3)),
        (spaces.MultiBinary(2), (2, 2)),
        (BOX, (15,) * 6),
        (spaces.Box(0, 4, (1,), np.int32), (15,)),
    ],
    ids=str,
)
def test_integers_become_actions(space: Any, counts: tuple[int, ...]) -> None:
    form = action_form(space, 15)
    assert tuple(map(len, form.values)) == counts
    for index in (np.zeros(len(counts), int), np.array(counts) - 1):
        assert space.contains(form.decode(index))


def test_a_box_action_is_a_grid_that_holds_both_bounds() -> None:
    low, high = np.array([-2.0, 0.0]), np.array([2.0, 1.0])
    form = action_form(spaces.Box(low, high, dtype=np.float64), 5)
    np.testing.assert_allclose(form.decode(np.array([0, 4])), [-2.0, 1.0])
    np.testing.assert_allclose(form.decode(np.array([2, 1])), [0.0, 0.25])


@for_each("module, package", [("imageio", "lcpo[mujoco]"), ("box", "box")])
def test_a_missing_package_is_named(module: str, package: str) -> None:
    """As of HalfCheetah without imageio."""
    env = from_gymnasium("gym_examples:needs", arguments={"module": module})
    with pytest.raises(MissingPackage, match=rf"'{module}' is not.* '{re.escape(package)}'$"):
        assert env.spec


@for_each("make, fields, match",
    [
        ("gym:NoSuch-v0", {}, r"gym:NoSuch-v0 cannot be made \(NameNotFound"),
        ("gym_examples:Walk", {"arguments": {"size": 3}}, "unexpected keyword argument 'size'"),
        ("gym_examples:Walk", {"context": "key:rain"}, "not a key of the observation space"),
        ("gym_examples:Walk", {"context": "slice:0:1"}, "needs a Box"),
        ("gym_examples:Walk", {"context": "info"}, "needs an entry 'context'"),
        ("gym_examples:Walk", {"context": "wind"}, "needs key:NAME, slice:START:END or info"),
        ("gym:CartPole-v1", {"context": "slice:7:9"}, "is empty"),
        ("gym:CartPole-v1", {"context": "slice:7"}, "needs slice:START:END"),
        ("gym:CartPole-v1", {"context": "slice:1:4", "history": True, "lags": 2}, "not a multiple"),
        ("gym_examples:vector", {"arguments": {"mode": "NEXT_STEP"}}, "AutoresetMode.DISABLED"),
        ("gym_examples:vector", {"arguments": {"mode": "SAME_STEP"}}, "AutoresetMode.DISABLED"),
        ("builtins:dict", {}, "is a type: needs an environment class"),
    ],
)  # fmt: skip
def test_what_cannot_be_wrapped_is_told(make: str, fields: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        assert from_gymnasium(make, **fields).spec


def test_spaces_that_agents_do_not_know_are_refused() -> None:
    unbounded = spaces.Box(-np.inf, np.inf, (1,))
    with pytest.raises(ValueError, match="no finite bounds"):
        action_form(unbounded, 15)
    with pytest.raises(ValueError, match="needs Discrete, MultiDiscrete"):
        action_form(spaces.Dict({"a": spaces.Discrete(2)}), 15)
    with pytest.raises(ValueError, match="needs Box, Discrete"):
        observation_encoder(spaces.Text(5))


@dataclasses.dataclass
class Data(gymnasium.Env):
    """A Gymnasium environment that happens to be a dataclass."""


def test_classes_are_told_apart() -> None:
    assert find_env("gym_examples:Walk") is find_env("gym_examples:Walk")
    assert find_env("gym_examples:limited").target == "gym_examples:limited"  # pyright: ignore
    assert find_env("test_gymnasium:Data").target == "test_gymnasium:Data"  # pyright: ignore
    assert find_env("host_examples:Drift") is Drift
    with pytest.raises(ValueError, match="is a tuple: needs an environment class"):
        find_env("host_examples:FAULTS")


def test_names_of_makers() -> None:
    env = from_gymnasium(gym_examples.Walk, context="key:wind", arguments={"length": 4})
    assert env == walk(arguments={"length": 4})
    assert type(from_gymnasium("CartPole-v1")) is type(from_gymnasium("gym:CartPole-v1"))
    with pytest.raises(ValueError, match="cannot be imported"):
        from_gymnasium(lambda: gym_examples.Walk())
    with pytest.raises(ValueError, match="needs plain values"):
        from_gymnasium("CartPole-v1", arguments={"a": object()})


@pytest.mark.parametrize("where", ["key:wind", "slice:0:1", "info"])
def test_the_context_is_put_last_with_its_history(where: str) -> None:
    """Newest first; a reset takes no time; before the first value the history repeats it."""
    arguments = {"where": where.partition(":")[0], "length": 12}
    env = walk(context=where, lags=3, arguments=arguments)
    assert env.spec.context == (1, 1, 3)
    assert env.spec.obs_size == 4
    assert env.advance == "own"
    worlds = env.open(1, [0])
    obs = worlds.reset(np.array([True]))[0]
    np.testing.assert_array_equal(obs[1:], [-1.0, -1.0, -1.0])
    steps = [worlds.step(np.array([[1]]), NONE) for _ in range(12)]
    for t, step in enumerate(steps, 1):
        wind = [1.0 if max(t - lag, 0) // 7 % 2 else -1.0 for lag in range(3)]
        np.testing.assert_array_equal(step.obs[0, 1:], wind)
    last = steps[-1]
    assert last.truncated[0]
    fresh = worlds.reset(np.array([True]))[0]
    np.testing.assert_array_equal(fresh[1:], last.obs[0, 1:])
    assert fresh[0] != last.obs[0, 0]


def test_an_environment_may_give_the_history_itself() -> None:
    env = from_gymnasium("CartPole-v1", context="slice:0:4", lags=2, history=True)
    assert env.spec.context == (0, 2, 2)
    assert env.spec.obs_size == 4


def test_a_world_is_its_environment() -> None:
    """The same seed and actions, step by step; masked resets touch no other world."""
    env = from_gymnasium("CartPole-v1")
    worlds, mirror = env.open(2, [3, 4]), [gymnasium.make("CartPole-v1") for _ in range(2)]
    obs = worlds.reset(np.ones(2, bool))
    expected = [m.reset(seed=seed)[0] for m, seed in zip(mirror, (3, 4), strict=True)]
    np.testing.assert_array_equal(obs, expected)
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(100):
        action = rng.integers(2, size=(2, 1))
        step = worlds.step(action, np.zeros((2, 0)))
        results = [m.step(a[0]) for m, a in zip(mirror, action, strict=True)]
        np.testing.assert_array_equal(step.obs, [r[0] for r in results])
        np.testing.assert_array_equal(step.reward, [r[1] for r in results])
        np.testing.assert_array_equal(step.terminated, [r[2] for r in results])
        if step.terminated.any():
            ends += 1
            obs = worlds.reset(np.asarray(step.terminated))
            for i in np.flatnonzero(step.terminated):
                np.testing.assert_array_equal(obs[i], mirror[i].reset()[0])
            np.testing.assert_array_equal(obs[~step.terminated], step.obs[~step.terminated])
    assert ends > 2


def test_a_vector_environment_is_the_worlds_of_one_run() -> None:
    env = walk("vector", context="info", lags=2)
    assert env.spec.num_worlds == 3
    together = env.open(3, [1, 2, 3])
    apart = walk(context="info", lags=2, arguments={"where": "info"}).open(3, [1, 2, 3])
    mask, none = np.ones(3, bool), np.zeros((3, 0))
    rng = np.random.default_rng(0)
    for t in range(25):
        if mask.any():
            np.testing.assert_array_equal(together.reset(mask), apart.reset(mask))
        action = rng.integers(3, size=(3, 1))
        steps = together.step(action, none), apart.step(action, none)
        for a, b in zip(*(step[:6] for step in steps), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
        mask = steps[0].truncated.copy()
        mask[1] |= t == 3  # one of them alone
    assert together.get_state() is None


@pytest.mark.parametrize("name", ["SavedWalk", "limited"])
def test_saved_worlds_go_on_exactly(name: str) -> None:
    """From another world's state: same observations, ends, and draws of later resets."""
    env = walk(name, lags=2)
    first, second = env.open(2, [1, 2]), env.open(2, [8, 9])
    mask = np.ones(2, bool)
    first.reset(mask)
    for _ in range(4):
        first.step(np.ones((2, 1), int), np.zeros((2, 0)))
    state = first.get_state()
    assert state is not None
    second.set_state({k: v.copy() for k, v in state.items()})
    ends = 0
    for t in range(30):
        action = np.full((2, 1), t % 3)
        steps = [worlds.step(action, np.zeros((2, 0))) for worlds in (first, second)]
        for a, b in zip(*steps, strict=True):
            np.testing.assert_array_equal(a, b)
        if steps[0].truncated.any():
            ends += 1
            resets = [worlds.reset(steps[0].truncated) for worlds in (first, second)]
            np.testing.assert_array_equal(*resets)
    assert ends == 3


@pytest.mark.parametrize("name", ["Walk", "clipped"])
def test_what_cannot_be_saved_says_so(name: str) -> None:
    worlds = walk(name).open(1, [0])
    worlds.reset(np.array([True]))
    assert worlds.get_state() is None


@pytest.mark.parametrize(
    ("fault", "match"),
    [
        ("raises", "world 1: step raised OSError: the simulator is gone"),
        ("shape", r"world 1: the observation \['place'\] has shape \[3\], the space says \[1\]"),
        ("flag", "world 1: truncated is 1.0: needs True or False"),
        ("reward", r"world 1: the reward has shape \[2\]: needs a number"),
        ("no-context", "world 1: the observation 'wind'"),
    ],
)
def test_a_faulty_step_names_its_world(fault: str, match: str) -> None:
    sound, faulty = walk().open(1, [0]), walk(arguments={"fault": fault, "at": 2}).open(1, [0])
    sound.environments += faulty.environments
    sound.seeds, sound.obs = [0, 0], np.zeros((2, sound.obs.shape[1]), np.float32)
    sound.reset(np.ones(2, bool))
    sound.step(np.ones((2, 1), int), np.zeros((2, 0)))
    with pytest.raises(WorldError, match=match) as raised:
        sound.step(np.ones((2, 1), int), np.zeros((2, 0)))
    assert list(raised.value.worlds) == [1]
