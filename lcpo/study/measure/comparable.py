"""Whether runs can be compared: the same environment, and where imported runs come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lcpo.errors import InputError
from lcpo.run.plan.job import env_values
from lcpo.run.store.results import Result


def source_of(provenance: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the file of an imported run says about its origin; None: the run is ours."""
    found = provenance.get("imported")
    return found if isinstance(found, dict) else None


def imported_agents(results: Iterable[Result]) -> dict[str, str]:
    """The agents of imported runs, and the code that made them."""
    sources = {r.job.agent: source_of(r.provenance) for r in results}
    return {agent: str(found.get("code")) for agent, found in sources.items() if found}


def check_env(results: Sequence[Result]) -> None:
    """Raise InputError unless all runs have the same environment."""
    same("runs", "env", [r.job.env for r in results])
    configs = [env_values(r.job) for r in results]
    if imported_agents(results):  # their files may name only some fields of an outside environment
        shared = set(configs[0]).intersection(*configs)
        configs = [{name: values[name] for name in shared} for values in configs]
    same("runs", "env_config", configs)


def same(what: str, field: str, values: Sequence[Any]) -> None:
    """Raise InputError that names the field, or its entry, in which the values differ."""
    if all(value == values[0] for value in values):
        return
    if isinstance(values[0], dict):
        for name in sorted(set().union(*values)):
            same(what, f"{field}.{name}", [value.get(name) for value in values])
    found = ", ".join(dict.fromkeys(repr(value) for value in values))
    raise InputError(f"{what} differ in {field} ({found}): compare those that agree in it")
