"""`all`: which agents it stands for, which it leaves out, and what a user is told."""

from __future__ import annotations

import pytest
from each import for_each

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


def test_settings_of_each_agent() -> None:
    text = "lcpo[sigma=2, hidden=[8,8]],a2c[learning-rate=1e-3],lcpo,"
    jobs = agents.plan_agents(text, "probe-two-contexts", trace=None, seeds=1)
    assert [job.agent for job in jobs] == ["lcpo", "a2c", "lcpo"]
    assert jobs[0].config["sigma"] == 2.0
    assert jobs[0].config["hidden"] == [8, 8]
    assert jobs[1].config["learning_rate"] == 1e-3
    assert jobs[2].config["hidden"] != [8, 8]
    assert "-sigma=2-hidden=[8, 8]-s0" in jobs[0].name
    pairs = [("lcpo", {"sigma": 2, "hidden": [8, 8]}), "a2c[learning_rate=0.001]", "lcpo"]
    again = agents.plan_agents(pairs, "probe-two-contexts", trace=None, seeds=1)
    assert again == jobs


def test_switches_may_be_written_as_in_python() -> None:
    """Pages and printed commands write them so."""
    for text in ("lcpo[dual=True]", "lcpo[dual=true]"):
        (job,) = agents.plan_agents(text, "probe-two-contexts", trace=None, seeds=1)
        assert job.config["dual"] is True


def test_settings_beside_a_sweep() -> None:
    """As studies have it: the values of the sweep for every agent."""

    def swept(agent: str) -> list[float]:
        jobs = agents.plan_agents(
            agent, "probe-two-contexts", trace=None, seeds=1, sweep={"gamma": [0.5, 0.9]}
        )
        return [job.config["gamma"] for job in jobs]

    assert swept("a2c[lam=0.5]") == [0.5, 0.9]
    with pytest.raises(InputError, match="both set and swept"):
        swept("a2c[gamma=0.5]")


def test_all_beside_an_agent_with_settings() -> None:
    """LCPO as it is belongs to all; the first is the reference."""
    assert planned("a2c[gamma=0.9],all")[0] == ["a2c", "lcpo", "a2c"]


@for_each(
    "text, says",
    [
        ("lcpo[sigma=1", r"a \] for every \["),
        ("lcpo]sigma=1", r"a \] for every \["),
        ("lcpo[sigma=1]x,a2c", r"settings that end with \]"),
        ("lcpo[]", "field=value"),
        ("lcpo[sigma]", "field=value"),
        ("lcpo[sigma=]", "field=value"),
        ("lcpo[sigma=1,sigma=2]", "given twice"),
        ("lcpo[sigm=1]", "did you mean 'sigma'"),
        ("lcpo[sigma=x]", "needs a number"),
        ("lcpo[sigma=NaN]", "finite|number"),
        ("lcpo[sigma=1],lcpo[sigma=1.0]", "each once"),
        ("[sigma=1]", "names separated by commas"),
        ("all[gamma=0.9]", "takes no settings"),
        ([], "names separated"),
        ([("lcpo",)], "a pair such as"),
        ([("lcpo", 3)], "config = 3"),
        ([3], "a pair such as"),
        ({"lcpo": {}}, "names separated"),
    ],
)
def test_settings_that_cannot_be_had(text: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        agents.plan_agents(text, "probe-two-contexts", trace=None, seeds=1)  # pyright: ignore
