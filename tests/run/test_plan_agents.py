"""`all`: which agents it stands for, which it leaves out, and what a user is told."""

from __future__ import annotations

import pytest

from lcpo.agents import AGENTS
from lcpo.errors import InputError
from lcpo.run.plan import agents

FEW = ("a2c", "lcpo", "tabular-q", "prescient-a2c")


@pytest.fixture(autouse=True)
def few_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs a second: its functions are checked by shape."""
    monkeypatch.setattr(agents, "AGENTS", {name: AGENTS[name] for name in FEW})


def planned(names: str, env: str = "probe-two-contexts") -> tuple[list[str], list[str]]:
    notes: list[str] = []
    jobs = agents.plan_agents(names, env, trace=None, seeds=1, note=notes.append)
    return [job.agent for job in jobs], notes


def test_all_that_can_serve_lcpo_first() -> None:
    chosen, (note,) = planned("all")
    assert chosen == ["lcpo", "a2c"]
    assert note.startswith("left out of 'all': tabular-q (tables: ")
    assert "prescient" not in note
    assert planned("all", "grid-world") == (["lcpo", "a2c", "tabular-q"], [])


def test_all_beside_others() -> None:
    """They keep their place: the first is the reference."""
    assert planned("all,examples.reinforce:agent")[0] == ["lcpo", "a2c", "examples.reinforce:agent"]
    assert planned("a2c,all")[0] == ["a2c", "lcpo"]


def test_what_is_named_is_never_left_out() -> None:
    with pytest.raises(InputError, match="no finite levels"):
        planned("all,tabular-q")
    with pytest.raises(InputError, match="each once"):
        planned("all,all")
    with pytest.raises(InputError, match="did you mean"):
        planned("all,lcp")


def test_no_agent_can_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "AGENTS", {"tabular-q": AGENTS["tabular-q"]})
    with pytest.raises(InputError, match="no agent can serve"):
        planned("all")
