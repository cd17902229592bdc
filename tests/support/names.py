"""What `lcpo list` shows, from the registries. `python tests/support/names.py` writes the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lcpo

FILE = Path(lcpo.__file__).parent / "cli" / "names.json"


def known() -> dict[str, dict[str, str]]:
    """Help by kind and name."""
    from lcpo.agents import AGENTS
    from lcpo.contexts import FAMILIES, TRACES
    from lcpo.core.ood import DETECTORS
    from lcpo.envs import ENVS
    from lcpo.study.paper import STUDIES, find_study

    families = {f"family:{kind}:SEED": help for kind, help in FAMILIES.items()}
    return {
        "agents": {name: agent_help(agent) for name, agent in AGENTS.items()},
        "envs": {name: first_line(env) for name, env in ENVS.items()},
        "detectors": {name: first_line(d.distance) for name, d in DETECTORS.items()},
        "traces": {**{name: trace.help for name, trace in TRACES.items()}, **families},
        "experiments": {name: find_study(name).help for name in STUDIES},
    }


def agent_help(agent: Any) -> str:
    changed = ", ".join(
        f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in agent.presets.items()
    )
    text = f"{first_line(agent.Config)} {changed}".strip()
    if agent.training:
        text += f" Trained on {agent.training.steps:,} steps from random starts, then only acts."
    return text


def first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]


def content() -> str:
    return json.dumps(known(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(content(), "utf-8")
