"""Hostile outputs: what may stand at a path that a command writes to, and what must stay of it.

A case is a command, and a thing at the path that it is told to write to, or at a path inside the
folder that it wrote before; or a disk that is full after some files. All of it happens in a folder
of its own, as whoever runs the tests: as root, devices are among the things.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import shutil
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from commands import run

from lcpo.run import worker
from lcpo.run.plan.plan import plan
from lcpo.study.paper import STUDIES
from lcpo.study.report.tables import Table
from lcpo.study.study import NO_RUNS, Options, Picture, Report, Study

SMALL = {"hidden": [4], "rollout_length": 20}
TINY = ["--env", "pendulum-v1", "--steps", "40", "--seeds", "1", "--workers", "0", "--quiet"]
TRAIN = ["train", "--agent", "a2c", "--hidden", "4", "--rollout-length", "20", *TINY]
COMPARE = ["compare", "--agents", "a2c[hidden=[4],rollout_length=20]", *TINY]
TUNE = [
    "tune", "--agents", "a2c[hidden=[4],rollout_length=20]", "--search", "gamma=0.9|0.8",
    "--trials", "2", "--batch", "2", "--judge-seeds", "1",
    *(word.replace("40", "200") for word in TINY),
]  # fmt: skip
EVALUATE = ["evaluate", "train", "--steps", "200", "--seeds", "1", "--out"]
HEAD = "# format: lcpo-import 1\n# code: theirs\nagent,env,trace,seed,step,return\n"


class Command(NamedTuple):
    """A command line in which TARGET is what it writes to."""

    words: list[str]
    own: str
    """What it wrote before, on the shelf."""
    needs: tuple[str, ...] = ()
    """What it reads, on the shelf."""
    again: bool = True
    """Whether it replaces what it wrote before."""

    @property
    def name(self) -> str:
        """Of what it writes."""
        return f"target{Path(self.own).suffix}"


_ON_TRACE, _ON_RUNS = ("turns.npy",), ("train",)
FILES = {
    "report": Command(["report", "compare", "--out", "TARGET"], "page.html", ("compare",)),
    "trace": Command(["trace", "turns.npy", "--out", "TARGET"], "trace.png", _ON_TRACE),
    "trace pdf": Command(["trace", "turns.npy", "--out", "TARGET"], "trace.pdf", _ON_TRACE),
    "calibrate": Command(
        ["calibrate", "--trace", "turns.npy", "--out", "TARGET"], "calibrate.svg", _ON_TRACE
    ),
    "watch": Command(["watch", "train", "--steps", "2", "--out", "TARGET"], "watch.gif", _ON_RUNS),
    "export": Command(["export", "train", "TARGET"], "all.csv", _ON_RUNS, again=False),
    "export --overwrite": Command(
        ["export", "train", "TARGET", "--overwrite"], "all.csv", _ON_RUNS
    ),
    "export parquet": Command(
        ["export", "train", "TARGET", "--overwrite"], "all.parquet", _ON_RUNS
    ),
}
FOLDERS = {
    "train": Command([*TRAIN, "--out", "TARGET"], "train", again=False),
    "train --resume": Command(
        [*TRAIN, "--out", "TARGET", "--resume", "--track", "jsonl", "tensorboard"], "train"
    ),
    "train --plan-only": Command([*TRAIN, "--out", "TARGET", "--plan-only"], "begun", again=False),
    "train what was begun": Command([*TRAIN, "--out", "TARGET", "--resume"], "begun"),
    "compare": Command([*COMPARE, "--out", "TARGET"], "compare", again=False),
    "compare --resume": Command([*COMPARE, "--out", "TARGET", "--resume"], "compare"),
    "tune": Command([*TUNE, "--out", "TARGET"], "tune", again=False),
    "tune --resume": Command([*TUNE, "--out", "TARGET", "--resume"], "tune"),
    "reproduce": Command(["reproduce", "no-runs", "--out", "TARGET"], "study"),
    "reproduce --plan": Command(["reproduce", "one-run", "--plan", "TARGET"], "planned"),
    "reproduce --collect": Command(
        ["reproduce", "one-run", "--collect", "collected", "--out", "TARGET"], "report",
        ("collected",),
    ),
    "evaluate": Command([*EVALUATE, "TARGET"], "evaluation", ("train",)),
    "import": Command(["import", "theirs.csv", "--out", "TARGET"], "imported", ("theirs.csv",)),
    "worker": Command(["WORKER", "planned/plan.json", "--out", "TARGET"], "worked", ("planned",)),
}  # fmt: skip
PAGES = {
    f"report on {own}": Command(["report", "TARGET"], own)
    for own in ("train", "compare", "tune", "study", "imported", "evaluation")
}
COMMANDS = {**FILES, **FOLDERS, **PAGES}

_RUNS = [
    "plan.json", "runs", "runs/RUN", "runs/RUN/manifest.json", "runs/RUN/record.npz",
    "runs/RUN/policy.npz", "runs/RUN/checkpoint", "runs/RUN/state", ".lock", ".running", "logs",
    "slurm.sh", "study.json",
]  # fmt: skip
_REPORT = ["made.json", "report.json", "seeds.csv", "table.md", "table.csv", "report.html"]
INSIDE = {
    "train --resume": [*_RUNS, "events.jsonl", "tensorboard", "tensorboard/RUN", "wandb"],
    "train what was begun": _RUNS,
    "compare --resume": [*_RUNS, *_REPORT, "curves.png", "curves.svg"],
    "tune --resume": [
        *_RUNS,
        *_REPORT,
        "tune.json",
        "search",
        "search/plan.json",
        "verdict.md",
        "search.png",
    ],
    "reproduce": ["plan.json", "study.json", ".lock", *_REPORT, "figure.png"],
    "reproduce --plan": _RUNS,
    "reproduce --collect": [*_REPORT, "figure.svg"],
    "evaluate": _REPORT[:-1],
    "import": ["runs", "importing.json", ".lock", "runs/imported.ppo-pendulum-3-s1"],
    "worker": _RUNS,
    **{name: [*_REPORT, "curves.png"] for name in PAGES},
}
"""Of the folder that a command wrote before: what somebody may have put there since. RUN: the name
of its run."""

NEW, OWN = "nothing", "what the command wrote"


class Case(NamedTuple):
    command: str
    kind: str
    """What is there."""
    inside: str = ""
    """Where in the command's own folder; empty: at the path that the command is given."""
    space: int | None = None
    """Files that still fit on the disk; None: as many as you like."""

    def __str__(self) -> str:
        return " | ".join(str(part) for part in self if part not in ("", None))


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    """The number is that of /dev/null."""
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))


def bind(path: Path) -> None:
    here = os.open(path.parent, os.O_RDONLY)  # the name of a socket has 107 bytes at most
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


def folder_with(name: str, text: str = "mine") -> Callable[[Path], None]:
    def make(path: Path) -> None:
        (path / name).parent.mkdir(parents=True)
        (path / name).write_text(text)

    return make


def link_to(target: str) -> Callable[[Path], None]:
    """From any depth: the target is one in the folder of the case."""

    def make(path: Path) -> None:
        path.symlink_to(Path.cwd() / target)

    return make


THINGS: dict[str, Callable[[Path], Any]] = {
    "a text": lambda path: path.write_text("my thesis"),
    "an empty file": lambda path: path.touch(),
    "JSON": lambda path: path.write_text('{"schema": 2, "files": ["thesis.tex"]}'),
    "a folder": folder_with("thesis.tex"),
    "a link to a text": link_to("elsewhere/thesis.tex"),
    "a link to a folder": link_to("elsewhere"),
    "a link to nothing": link_to("elsewhere/nothing"),
    "a loop": lambda path: path.symlink_to(path.name),
    "a pipe": fifo,
    "a socket": bind,
    **({"a device": device} if os.getuid() == 0 else {}),
}
"""That nobody here wrote."""
FOLDER_THINGS: dict[str, Callable[[Path], Any]] = {
    **{f"a folder with {name}": folder_with(name) for name in (
        ".lock", ".running", ".film.part", "made.json", "plan.json", "runs/x/manifest.json",
        "report.html", "importing.json", "study.json", "table.md", "events.jsonl",
    )},
}  # fmt: skip
SHELF_FILES = ("page.html", "trace.png", "trace.pdf", "calibrate.svg", "watch.gif", "all.csv",
               "all.parquet", "turns.npy", "theirs.csv", "compare/report.html", "compare/made.json",
               "compare/table.csv", "compare/curves.png", "train/plan.json", "study/report.html",
               "train/events.jsonl", "imported/runs")  # fmt: skip
SHELF_FOLDERS = ("train", "begun", "compare", "tune", "study", "planned", "collected", "report",
                 "evaluation", "imported", "worked")  # fmt: skip
PLANNED = {"train", "begun", "compare", "tune", "study", "planned", "collected", "worked"}
"""Folders with a plan: asked to, other commands run it, or add runs of theirs to it."""
ALSO_OWN = {
    ("trace.png", "trace.pdf"),
    ("trace.pdf", "trace.png"),
    ("planned", "report"),
    ("collected", "report"),
}
"""What the same command wrote, in another format or for the same study."""
LOCKS = {(".lock", "an empty file"), (".running", "an empty file")}
"""Such a file is ours: it was left by a command that was killed."""


def cases() -> list[Case]:
    """All of them, in an order that is always the same."""
    found = [Case(name, kind) for name in FILES for kind in (*THINGS, NEW, OWN, *SHELF_FILES)]
    folder_kinds = (*THINGS, *FOLDER_THINGS, NEW, OWN, "an empty folder", *SHELF_FOLDERS)
    found += [Case(name, kind) for name in FOLDERS for kind in folder_kinds]
    found += [Case(name, OWN) for name in PAGES]
    found += [
        Case(name, kind, inside)
        for name, places in INSIDE.items()
        for inside, kind in itertools.product(places, THINGS)
    ]
    found += [
        Case(name, kind, space=space)
        for name, kind, space in itertools.product(COMMANDS, (NEW, OWN), range(4))
        if name not in PAGES or kind == OWN
    ]
    random.Random(28).shuffle(found)
    return found


def fill_shelf(shelf: Path) -> None:
    """What every command writes, by running it once."""
    shelf.mkdir()
    np.save(shelf / "turns.npy", np.cumsum(np.ones((400, 2), np.float32), 0) % 7)
    (shelf / "theirs.csv").write_text(f"{HEAD}ppo,pendulum,3,1,200,-1\nppo,pendulum,3,2,200,-1\n")
    (shelf / "earlier.csv").write_text(f"{HEAD}ppo,pendulum,3,0,200,-1\n")
    with contextlib.chdir(shelf), studies():
        commands: list[list[str]] = [
            [*TRAIN, "--out", "train", "--track", "jsonl", "tensorboard"],
            [*TRAIN, "--out", "begun", "--plan-only"],
            [*COMPARE, "--out", "compare"],
            [*TUNE, "--out", "tune"],
            ["reproduce", "no-runs", "--out", "study"],
            ["reproduce", "one-run", "--plan", "planned"],
            ["reproduce", "one-run", "--out", "collected", "--workers", "0"],
            ["reproduce", "one-run", "--collect", "collected", "--out", "report"],
            [*EVALUATE, "evaluation"],
            ["import", "earlier.csv", "--out", "imported"],
            ["WORKER", "planned/plan.json", "--out", "worked"],
            ["report", "compare", "--out", "page.html"],
            *(["trace", "turns.npy", "--out", name] for name in ("trace.png", "trace.pdf")),
            ["calibrate", "--trace", "turns.npy", "--out", "calibrate.svg"],
            ["watch", "train", "--steps", "2", "--out", "watch.gif"],
            *(["export", "train", name] for name in ("all.csv", "all.parquet")),
        ]
        for words in commands:
            assert call(words) == 0, words


def call(words: list[str]) -> int:
    """Exit code of a command, or of a worker."""
    return worker.main(words[1:]) if words[0] == "WORKER" else run(*words)


@contextlib.contextmanager
def studies() -> Iterator[None]:
    """Two studies that take no time."""
    table = Table(["agent"], [["a2c"]])
    report = Report(table, {"table": table}, figures={"figure": Picture(b"\x89PNG", b"<svg/>")})
    jobs = plan("a2c", "pendulum-v1", trace=None, steps=40, seeds=[0], overrides=SMALL)

    class NoRuns(Options):
        without = NO_RUNS

    mine = {
        "no-runs": Study("nothing", NoRuns, lambda options: [], lambda options, found: report),
        "one-run": Study("a run", Options, lambda options: jobs, lambda options, found: report),
    }
    with mock.patch.dict(STUDIES, mine):
        yield


Snapshot = dict[str, tuple[str, Any]]


def snapshot(folder: Path) -> Snapshot:
    """Type and content of all that is below a folder; no link is followed."""
    found: Snapshot = {}
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        content: Any = None
        if stat.S_ISREG(mode):
            content = path.read_bytes()
        elif stat.S_ISLNK(mode):
            content = os.readlink(path)
        found[str(path.relative_to(folder))] = (stat.filemode(mode), content)
    return found


@contextlib.contextmanager
def full_after(count: int | None) -> Iterator[None]:
    """A disk on which so many files still fit."""
    left = itertools.count() if count is None else iter(range(count))

    def flush(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode) and next(left, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")

    with mock.patch("os.fsync", flush):
        yield


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """What takes longer hangs."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def prepare(case: Case, shelf: Path) -> set[str]:
    """Make the things of a case in the current folder; the paths that the command may change."""
    command, here = COMMANDS[case.command], Path.cwd()
    folder_with("thesis.tex")(here / "elsewhere")
    for name in command.needs:
        _copy(shelf / name, here / name)
    target = here / command.name
    if case.kind == NEW:
        return set()
    if case.inside or case.kind == OWN:
        _copy(shelf / command.own, target)
    if case.inside:
        place = target / inside(case, shelf)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
    own = {command.name, *(f"{command.name}/{path}" for path in snapshot(target))} if (
        case.inside or case.kind == OWN
    ) else set()  # fmt: skip
    if case.inside:
        THINGS[case.kind](target / inside(case, shelf))
        if (case.inside, case.kind) in LOCKS:
            own.add(f"{command.name}/{case.inside}")
    elif case.kind in THINGS:
        THINGS[case.kind](target)
    elif case.kind in FOLDER_THINGS:
        FOLDER_THINGS[case.kind](target)
    elif case.kind == "an empty folder":
        target.mkdir()
    elif case.kind != OWN:
        _copy(shelf / case.kind, target)
        if case.kind == command.own or (case.kind, command.own) in ALSO_OWN:
            own = {command.name, *(f"{command.name}/{path}" for path in snapshot(target))}
        elif {case.kind, command.own} <= PLANNED:
            own = {command.name, f"{command.name}/plan.json", f"{command.name}/study.json"}
    return own


def inside(case: Case, shelf: Path) -> str:
    """Where the thing of a case is, below the command's own folder."""
    own = COMMANDS[case.command].own
    planned = shelf / ("train" if own == "begun" else "collected" if own == "planned" else own)
    runs = [path.name for path in planned.glob("runs/*")]
    return case.inside.replace("RUN", runs[0]) if runs else case.inside


def _copy(source: Path, target: Path) -> None:
    (shutil.copytree if source.is_dir() else shutil.copy)(source, target)


def complaints(case: Case, shelf: Path, read_errors: Callable[[], str]) -> list[str]:
    """Run a case in the current folder; what is wrong with what it did."""
    command, here, found = COMMANDS[case.command], Path.cwd(), []
    own = prepare(case, shelf)
    before = snapshot(here)
    words = [command.name if word == "TARGET" else word for word in command.words]
    code: int | None = None
    try:
        with studies(), full_after(case.space), at_most(120):
            code = call(words)
    except BaseException as error:  # a worker has no last resort: it raises what is wrong with it
        found.append(f"raised {error!r}")
    errors = read_errors()
    after = snapshot(here)
    logs = case.command == "worker"  # on its standard error: what broke a run, with a traceback
    if ("Traceback" in errors and not logs) or code not in (0, 1, 2):
        found.append(f"code {code}: {errors[-2000:]}")
    for path, was in before.items():
        if path not in own and after.get(path) != was:
            found.append(f"changed {path}: {was[0]}")
    fresh = case.kind in (NEW, OWN, "an empty folder") or bool(case.inside) or bool(own)
    for path in after.keys() - before.keys():
        if not (fresh and Path(path).is_relative_to(command.name)):
            found.append(f"made {path}")
    wanted = case.kind == NEW or (case.kind == OWN and command.again)
    if wanted and case.space is None and code != 0:
        found.append(f"refused: {errors[-500:]}")
    if code == 2 and after != before and case.space is None:
        found.append("refused after some work")
    return [f"{case}: {text}" for text in found]
