"""A progress bar for runs: progress, speed, time left, and the latest return."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from lcpo.core import health
from lcpo.errors import printable
from lcpo.run.events import Crashed, Event, Failed, Finished, Note, Progress
from lcpo.run.plan.job import Job


def _reason(event: Failed | Crashed) -> str:
    if isinstance(event, Crashed):
        return event.reason
    where = " of the training" if event.phase == "training" else ""
    what = f"{event.quantity} is {event.value} at step {event.step:,}{where}"
    return what + health.explain(event.quantity)


class RunProgress:
    """Context manager; call it with the events of runs."""

    def __init__(self, jobs: Iterable[Job], show: bool = True) -> None:
        self.steps = {job.name: job.total_steps for job in jobs}
        self.reached = dict.fromkeys(self.steps, 0)
        self.show = show
        self.firsts: dict[str, tuple[float, int]] = {}  # when a run was first heard of, and where
        self.rates: dict[str, float] = {}
        self.rate = 0.0
        self.returns: dict[str, float] = {}
        self.phases: dict[str, str] = {}
        self.problems: list[str] = []
        self.console = Console(stderr=True)
        # Without a terminal (a log file, CI) a line now and then instead of a bar.
        self.lines = show and not self.console.is_terminal
        self.last_line = 0.0
        self.bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[note]}", markup=False),
            TimeElapsedColumn(),
            console=self.console,
            disable=not show or self.lines,
        )

    def __enter__(self) -> RunProgress:
        self.task = self.bar.add_task(
            f"{len(self.steps)} run(s)", total=sum(self.steps.values()), note="compiling"
        )
        self.bar.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.bar.stop()

    def begin(self, waiting: Iterable[Job]) -> None:
        """Runs that are not waiting have ended before: nothing of them is left to do."""
        ended = self.steps.keys() - {job.name for job in waiting}
        self.reached.update({name: self.steps[name] for name in ended})

    def __call__(self, event: Event) -> None:
        """An event of `lcpo.run.events`."""
        if isinstance(event, Note):
            if self.show:
                self._print(f"note: {event.text}")
            return
        if isinstance(event, Progress):
            self._measure(event)
            self.reached[event.job] = event.step
            self.returns[event.job] = event.mean_return
            self.phases[event.job] = event.phase
        else:
            self.phases.pop(event.job, None)
            self.rates.pop(event.job, None)
            self.reached[event.job] = self.steps[event.job]
            if not isinstance(event, Finished):
                self.problems.append(f"{event.job} stopped: {_reason(event)}")
                self._print(self.problems[-1], "red")
        self._show()

    def _measure(self, event: Progress) -> None:
        """The speed of a run from its first chunk on: that took as long as compiling did."""
        when, step = self.firsts.setdefault(event.job, (time.monotonic(), event.step))
        if event.step > step:
            seconds = max(time.monotonic() - when, 1e-9)
            self.rates[event.job] = (event.step - step) / seconds
            self.rate = sum(self.rates.values())

    def _print(self, text: str, style: str = "") -> None:
        """A line as it is: what environments say may look like rich's marks."""
        self.console.print(Text(printable(text), style), soft_wrap=True)

    def _show(self) -> None:
        reached = sum(self.reached.values())
        note = "running"
        if self.rate > 0.0:
            left = (sum(self.steps.values()) - reached) / self.rate
            note = f"{_count(self.rate)} steps/s, {_clock(left)} left"
        latest = [r for r in self.returns.values() if r == r]
        if latest:
            note += f", return {sum(latest) / len(latest):.1f}"
        phases = {phase for phase in self.phases.values() if phase != "run"}
        if phases:
            note += f" ({' and '.join(sorted(phases, reverse=True))})"
        self.bar.update(self.task, completed=reached, note=note)
        if self.lines and time.monotonic() - self.last_line > 10.0:
            self.last_line = time.monotonic()
            share = 100.0 * reached / sum(self.steps.values())
            print(f"{share:5.1f} %  {note}", file=sys.stderr, flush=True)


def _count(value: float) -> str:
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.0f}"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
