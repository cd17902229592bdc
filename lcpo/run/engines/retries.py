"""Runs whose worker died are begun again from their last checkpoints, a few times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from lcpo.run.events import Crashed, Note, Report

MOST = 3
"""How often a run is begun again after its worker died. Then it is to blame, or its machine."""


class Retries:
    """Counts the deaths of workers, and tells of them."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.deaths: Counter[str] = Counter()

    def after_death(self, names: Collection[str], how: str) -> bool:
        """Whether runs whose worker died are to be begun again; if not, they have crashed."""
        self.deaths.update(list(names))  # of a dict it would add up the values
        deaths = max(self.deaths[name] for name in names)
        if deaths > MOST:
            for name in names:
                self.report(Crashed(name, how))
            return False
        which = f"time {deaths} of at most {MOST}"
        self.report(Note(f"from the last checkpoint again ({which}): {', '.join(names)}: {how}"))
        return True
