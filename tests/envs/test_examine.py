"""`lcpo check-env` finds what is wrong, and passes what is sound."""

from __future__ import annotations

from typing import Any

import pytest
from gym_examples import Walk  # noqa: F401 - to be found by name
from host_examples import Drift

from lcpo.envs import ENVS
from lcpo.envs.base import is_host
from lcpo.gym import from_gymnasium
from lcpo.run.plan.check import check_env
from lcpo.study.advice import examine


def findings(env: Any, level: str) -> str:
    return "\n".join(f.text for f in examine.examine(env, num_steps=120) if f.level == level)


SOUND = [
    Drift(), Drift(moves="episode"), Drift(moves="own"), Drift(num_worlds=2), ENVS["grid-world"](),
    from_gymnasium("gym_examples:SavedWalk", context="key:wind"),
]  # fmt: skip


@pytest.mark.parametrize("env", SOUND, ids=lambda env: f"{type(env).__name__}-{env.advance}")
def test_sound_ones_pass(env: Any) -> None:
    assert findings(env, "problem") == ""
    told = findings(env, "ok")
    assert "the same seed gives the same results, alone and next to other worlds" in told
    assert "the context" in told
    assert ("saved worlds continue exactly" in told) == is_host(env)


PROBLEMS = {
    "nan": r"step 8: obs: entry \[0\] of world 0 is nan",
    "raises": "step 8 raised OSError: the simulator is gone",
    "raises-alone": "step 8: world 0: it has left the table",
    "shape": r"step 8: obs has shape \[3, 0\]: needs \[3, 1\]",
    "mask": r"reset\(mask\) changed worlds outside the mask",
    "neighbours": "behaves differently alone and next to other worlds",
    "unseeded": "the same seeds and actions gave different results",
    "deaf": "contexts of 0 and of 1 gave the same results",
    "save": "behaved differently after get_state and set_state",
    "tuple": "needs lcpo.types.Step",
    "flag": "terminated is float64: needs bool",
    "nan-reset": "reset after step .*is nan",
}


@pytest.mark.parametrize("fault", PROBLEMS)
def test_broken_host_environments(fault: str) -> None:
    env = Drift(fault=fault, at=7, length=13 if fault != "mask" else 5)
    if fault == "mask":  # episodes must end at different times
        env = Ragged(fault=fault)
    with pytest.raises(AssertionError, match=PROBLEMS[fault]):
        raise AssertionError(findings(env, "problem"))


class Ragged(Drift):
    """World i has episodes of length 5 + i."""

    def open(self, num_worlds: int, seeds: Any, threads: Any = None) -> Any:
        worlds = super().open(num_worlds, seeds)
        step = worlds.step

        def stepped(action: Any, context: Any) -> Any:
            out = step(action, context)
            return out._replace(truncated=worlds.time >= 5 + worlds.seeds)

        worlds.step = stepped  # pyright: ignore
        return worlds


def test_constant_contexts_of_ones_own_are_told() -> None:
    assert "did not change" in findings(Drift(moves="own", fault="deaf"), "problem")


@pytest.mark.parametrize(
    ("env", "note"),
    [
        (Drift(fault="endless"), "no episode ended"),
        (Drift(saves=False), "its state cannot be saved"),
        (from_gymnasium("CartPole-v1"), "no context is declared"),
        (from_gymnasium("Pendulum-v1"), "grid of 15 values per dimension"),
        (from_gymnasium("CartPole-v1"), "gymnasium's check_env: A Box observation space"),
        (ENVS["grid-world"](), "all seeds begin with the same observation"),
    ],
    ids=["endless", "unsaved", "context", "grid", "gymnasium", "same-start"],
)
def test_what_a_user_should_know_is_noted(env: Any, note: str) -> None:
    assert note in findings(env, "note")


@pytest.mark.parametrize(
    ("target", "fields", "problem"),
    [
        ("gym_examples:Walk", {"arguments": {"fault": "nan", "at": 30}}, "step 30: obs: entry"),
        ("gym_examples:Walk", {"arguments": {"fault": "raises", "at": 30}}, "simulator is gone"),
        ("gym_examples:Walk", {"context": "key:rain"}, "not a key of the observation space"),
        ("gym_examples:Walk", {"arguments": {"size": 3}}, "unexpected keyword argument 'size'"),
    ],
)
def test_broken_gymnasium_environments(target: str, fields: dict, problem: str) -> None:
    env = from_gymnasium(target, **{"context": "key:wind", **fields})
    assert problem in findings(env, "problem")


def test_before_a_run_a_host_environment_is_tried_once() -> None:
    check_env(Drift())
    with pytest.raises(ValueError, match="it has left the table"):
        check_env(Drift(fault="raises-alone"))
    with pytest.raises(ValueError, match=r"step\.obs has shape \(1, 0\): needs \(1, 1\)"):
        check_env(Drift(fault="shape"))
    with pytest.raises(ValueError, match=r"needs lcpo\.types\.Step"):
        check_env(Drift(fault="tuple"))
