"""Malformed command lines: those found by hand, and as many as you like from a grammar.

A command of the grammar is a tiny valid one with one to three mutations. Some mutations happen to
be harmless, so a command may also be accepted: `watch` stops it before any work, and what was
accepted must then be sane.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from lcpo import contexts
from lcpo.cli import main
from lcpo.run.engines.engine import prepare
from lcpo.run.plan.job import Job

Words = list[str]
Part = tuple[str, ...]
"""An option with its values, or a word alone."""

VALID: dict[str, list[Part]] = {
    "train": [
        ("--agent", "a2c"), ("--env", "pendulum"), ("--trace", "revisit"), ("--steps", "400"),
        ("--seeds", "2"), ("--out", "o"), ("--workers", "0"), ("--hidden", "8", "8"),
        ("--sweep", "gamma=0.5,0.9"), ("--checkpoint-seconds", "60"), ("--track", "jsonl"),
    ],
    "compare": [
        ("--agents", "a2c[gamma=0.9],lcpo"), ("--trace", "turns.npy"), ("--steps", "400"),
        ("--seeds", "3,7"), ("--scale", "0.5"), ("--warmup", "200"), ("--out", "o"),
        ("--workers", "1"), ("--columns", "1,2"), ("--quiet",), ("--json",),
    ],
    "tune": [
        ("--agents", "a2c"), ("--env", "pendulum"), ("--steps", "400"), ("--seeds", "2"),
        ("--search", "gamma=0.5..0.9"), ("--trials", "2"), ("--batch", "2"), ("--seed", "1"),
        ("--judge-seeds", "7,8"), ("--beside", "random"), ("--workers", "0"), ("--out", "o"),
        ("--warmup", "100"), ("--list",),
    ],
    "reproduce": [
        ("discretisation",), ("--agents", "a2c"), ("--seeds", "1"), ("--scale", "1/1000"),
        ("--out", "o"), ("--workers", "0"), ("--setting", "published"),
    ],
    "check-env": [
        ("pendulum",), ("--trace", "turns.npy"), ("--env.num-bins", "5"), ("--env.max-steps", "10"),
    ],
    "trace": [
        ("turns.npy",), ("--columns", "2"), ("--rows", "400"), ("--out", "t.png"),
    ],
    "calibrate": [
        ("--trace", "revisit"), ("--rows", "4000"), ("--rollout-length", "100"), ("--lags", "3"),
        ("--scale", "2"), ("--out", "c.png"),
    ],
    "export": [("runs-of-mine",), ("t.csv",)],
    "report": [("runs-of-mine",), ("--out", "page.html")],
    "import": [("theirs.csv",), ("--out", "o")],
    "evaluate": [("runs-of-mine",), ("--seeds", "3,7"), ("--steps", "400"), ("--out", "o")],
    "watch": [
        ("runs-of-mine",), ("--seed", "1"), ("--steps", "5"), ("--fps", "10"), ("--out", "w.gif"),
    ],
    "list": [("--json",)],
    "bench": [("--json",), ("--gpu-runs", "4")],
    "completion": [("bash",)],
}  # fmt: skip

MORE_OPTIONS = (
    "--gamma", "--learning-rate", "--rollout-length", "--hidden", "--faults", "--scale", "--steps",
    "--training-steps", "--sweep", "--warmup", "--rows", "--lags", "--seeds", "--workers",
    "--env.num-bins", "--env.max-steps", "--checkpoint-seconds", "--out", "--trace", "--env",
    "--agent", "--agents", "--buffer-size", "--max-grad-norm", "--scale-rewards", "--columns",
    "--repeat", "--hold", "--quiet", "--track", "--detector",
)  # fmt: skip

NASTY = (
    "", " ", ",", "-", "--", "=", ":", ":x", "x:", "a:b:c", "..:x", ".:.", "x:y", "json:loads",
    "builtins:int", "no.such:thing", "0", "-1", "-5", "1.5", "1e30", "1e39", "-1e39", "nan", "inf",
    "-inf", "NaN", "true", "None", "null", "x", "1,1", "1,,2", ",1", "3.5,4", "-1,2",
    "2147483647", "2147483648", "4294967296", "100000000", "99999999999999999999", "9" * 5000,
    "a\0b", "a\nb", "\x1b[31m", "ü", "🙂", "x" * 300, "x/" * 2000, "\udcff", "$x^$", "[red]",
    "[", "[" * 100_000, "{}", '{"a": 1}', "gamma=", "=1", "gamma=1,1", "gamma=x", "gama=1",
    "hidden=8", "gamma=nan", "rollout_length=0,-1", "--help-me", "-x", "..", "/", "/dev/null",
    "/dev/null/x", "nothing.npy", "nothing.xyz", "folder", "folder.npy", "folder.csv", "text.csv",
    "text.npy", "broken:agent", "exits:agent", "odd:agent", "gym:", "gym:NoSuch-v0", "family:",
    "family:drift:-1", "family:drift:" + "9" * 400, "family:x:0", "[x]", "a2c[", "a2c]", "a2c[]",
    "a2c[gamma=1,gamma=2]", "a2c[gamma]", "turns.npy[1]", "turns.npy[9]", "turns.npy[]", "+repeat",
    "turns.npy+repeat", "turns.npy+hold+repeat", "3[1]", "revisit+hold",
)  # fmt: skip

BROKEN_MODULES = {
    "broken.py": "agent = 1 / 0\n",
    "exits.py": "raise SystemExit(0)\n",
    "odd.py": "agent = 3\n\ndef f(:\n",
}


def mutate(parts: list[Part], rng: random.Random) -> list[Part]:
    """The command with one thing changed."""
    i = rng.randrange(len(parts)) if parts else 0
    kinds: list[Callable[[], list[Part]]] = [
        lambda: _with(parts, i, (*parts[i][:-1], rng.choice(NASTY))),  # another value
        lambda: _with(parts, i, (*parts[i][:-1], rng.choice(NASTY))),
        lambda: _with(parts, i, parts[i][:1]),  # no value
        lambda: _with(parts, i, (f"{parts[i][0]}={rng.choice(NASTY)}",)),
        lambda: _with(parts, i, (_misspelt(parts[i][0], rng), *parts[i][1:])),
        lambda: [*parts, parts[i]],  # twice
        lambda: parts[:i] + parts[i + 1 :],
        lambda: [*parts[:i], (rng.choice(NASTY),), *parts[i:]],  # a word too many
        lambda: [*parts, (rng.choice(MORE_OPTIONS), rng.choice(NASTY))],
        lambda: [*parts, (rng.choice(MORE_OPTIONS), rng.choice(NASTY))],
        lambda: [
            *parts,
            (
                rng.choice(
                    (
                        "--no-json",
                        "--no-resume",
                        "--resume",
                        "--published",
                        "--keep-state",
                        "--trust",
                    )
                ),
            ),
        ],
        lambda: rng.sample(parts, len(parts)),
    ]
    return rng.choice(kinds)() if parts else [(rng.choice(NASTY),)]


def _with(parts: list[Part], i: int, part: Part) -> list[Part]:
    return [*parts[:i], part, *parts[i + 1 :]]


def _misspelt(word: str, rng: random.Random) -> str:
    at = rng.randrange(len(word) + 1)
    return rng.choice((word[:at] + word[at + 1 :], word[:at] + "e" + word[at:], word.upper()))


def generated(count: int, seed: int = 0) -> list[Words]:
    """So many different command lines, always the same."""
    rng, found = random.Random(seed), {}
    while len(found) < count:
        command = rng.choice(list(VALID))
        parts = VALID[command]
        for _ in range(rng.randint(1, 3)):
            parts = mutate(parts, rng)
        words = [command, *(word for part in parts for word in part)]
        found[tuple(words)] = words
    return list(found.values())


_TRAIN = ["train", "--agent", "a2c", "--trace", "revisit"]
_SHORT = [*_TRAIN, "--steps", "400", "--seeds", "1"]
_PLAIN = ["train", "--agent", "a2c", "--env", "pendulum-v1"]
_COMPARE = ["compare", "--trace", "revisit", "--steps", "400", "--seeds", "1"]

FOUND: list[Words] = [
    # seeds
    *([*_TRAIN, "--steps", "400", "--seeds", text] for text in (
        "0", "-1", ",", "", "x", "1.5", "1,1", "3,,7", "-1,2", "2147483648,", "4294967296,", "True",
        "100000000", "9" * 5000, "1e3", "0x10",
    )),
    # sizes and numbers that nothing can hold
    *([*_SHORT, "--scale", text] for text in ("1e39", "-1e39", "nan", "inf", "1e31", "x", "")),
    ["train", "--agent", "a2c", "--trace", "large.npy", "--steps", "400", "--scale", "1e10"],
    *([*_SHORT, "--workers", text] for text in ("-1", "1000000000", "1.5", "x", "nan")),
    *([*_SHORT, "--engine", text] for text in ("", "rey", "LOCAL")),
    [*_SHORT, "--address", "1.2.3.4:5"], [*_SHORT, "--engine", "slurm", "--address", "x"],
    *([*_SHORT, "--checkpoint-seconds", text] for text in ("nan", "-1", "inf", "x", "1e400")),
    *([*_TRAIN, "--steps", text] for text in ("-1", "0", "1e30", "1.5", str(10**12), "9" * 400)),
    *([*_PLAIN, "--steps", text] for text in ("-1", "0", str(10**12), str(10**30))),
    [*_PLAIN, "--steps", str(2**31 - 1), "--rollout-length", str(2**31 - 1)],
    [*_PLAIN, "--steps", "400", "--rollout-length", str(10**12)],
    *([*_PLAIN, "--steps", "400", "--hidden", *sizes] for sizes in (
        ("1000000000",), ("1000000000", "1000000000"), ("2147483647",) * 8, ("0",), ("-1",),
        (str(10**12),), ("1.5",), ("x",),
    )),
    *(["train", "--agent", agent, "--trace", "revisit", "--steps", "400", flag, text]
      for text in ("2147483647", str(10**12), "1000000000")
      for agent, flag in (("lcpo", "--buffer-size"), ("lcpo", "--sampling-rounds"),
                          ("ddqn", "--buffer-size"), ("ddqn", "--batch-size"),
                          ("sac", "--updates-per-rollout"))),
    *([*_PLAIN, "--steps", "400", "--env.num-bins", text]
      for text in ("1", "0", "1000000000", "2147483647", str(10**12))),
    [*_SHORT, "--learning-rate", "1e39"],
    # sweeps
    *([*_SHORT, "--sweep", *texts] for texts in (
        ("gamma=0.5,0.5",), ("gamma=1,1.0",), ("gamma=0.5", "gamma=0.9"), ("gamma=",), ("=1",),
        ("gamma",), ("",), ("gama=1",), ("gamma=x",), ("gamma=0.5,nan",), ("hidden=8,16",),
        ("gamma=true",), ("rollout_length=0",), ("steps=100,200",), ("gamma=" + "[" * 10**5,),
        ("seeds=1,2",), ("gamma=0.5,",),
    )),
    [*_SHORT, "--sweep", "gamma=0.5", "--sweep", "lam=0.5"],
    [*_SHORT, "--gamma", "0.4", "--sweep", "gamma=0.5,0.6"],
    # the command line itself
    [*_SHORT, "--steps", "800"], [*_SHORT, "--hidden", "8", "--hidden", "9"],
    [*_SHORT, "--resume", "--no-resume"], [*_SHORT, "--ste", "5"], [*_SHORT, "--no-foo"],
    [*_SHORT, "--no-steps"], [*_SHORT, "--resume", "yes"], [*_SHORT, "--resume=yes"],
    [*_SHORT, "junk"], [*_SHORT, "--", "--steps", "5"], [*_SHORT, "-x"], [*_SHORT, "-"],
    ["train", "--agent"], ["train", "--trace"], ["train", "--agent="], ["train", "--agent", ""],
    ["train", "--agent", "--env", "pendulum"], ["train", "--env"], ["train", "--env="],
    [*_TRAIN, "--agent=lcpo", "--steps", "400"], ["compare", "--env"], ["compare", "--agents"],
    ["train", "--tyro-write-completion", "bash", "x"], ["list", "--json", "--json"],
    ["list", "--json=true"], ["list", "all"], [""], ["-x"], ["--version="], ["trian"], ["\0"],
    [*_SHORT, "--gamma", "-x"], [*_SHORT, "--gamma"], [*_SHORT, "--trace", "3"],
    # names
    *(["train", "--trace", "revisit", "--steps", "400", "--agent", name] for name in (
        "..:x", ":x", "x:", "a:b:c", "a b:c", "a:b\n", "a\0:b", "ü:ö", "x" * 300, "x" * 300 + ":y",
        "broken:agent", "exits:agent", "odd:agent", "json:loads", "json:no", "builtins:int", "lcop",
        "lcpo.types:Agent", "os.path:sep", "constant", "constant:", "constant:99", "constant:-1",
        "constant:1.5", "constant:x", "constant:1,0", "constant:1,", "constant:" + "9" * 400,
    )),
    *([*_COMPARE, "--agents", names] for names in ("constant:1,0", "a2c,1", "random,random")),
    # scales of observations
    *([*_SHORT, "--normalise", text] for text in (
        "", "runing", "1,2", "1,2,3,4", "1,0,1", "1,-1,1", "nan,1,1", "1e39,1,1", "1,,1",
        "9" * 5000,
    )),
    *([*_PLAIN[:1], "--agent", name, *_TRAIN[3:], "--steps", "400", "--normalise", "running"]
      for name in ("random", "constant:1")),
    *(["train", "--agent", "a2c", "--steps", "400", "--env", name] for name in (
        "..:x", ":x", "x:", "a:b:c", "a\0:b", "x" * 300, "broken:agent", "exits:agent", "odd:agent",
        "json:codecs", "builtins:int", "builtins:exit", "lcpo.run.plan.job:Job", "gym:", "gym:x",
        "lcpo.types:Spec", "pendulm",
    )),
    *(["train", "--agent", "a2c", "--steps", "400", "--trace", name] for name in (
        "", "revist", "a\0b.npy", "a\nb", "x" * 300, "x" * 300 + ".npy", "x/" * 2000 + "y.npy",
        "folder.npy", "text.npy", "text.csv", "pipe.npy", "nothing.npy", "nothing.xyz", "~nobody/x",
        "family:", "family:drift", "family:drift:-1", "family:drift:" + "9" * 5000, "family:x:0",
        "/dev/zero", "..", "\udcff.npy",
    )),
    ["train", "--agent", "a2c", "--steps", "400", "--trace", "./" * 200 + "turns.npy"],
    # where results go
    *([*_SHORT, "--out", name] for name in (
        "", "turns.npy", "turns.npy/x", "folder", "a\0b", "x" * 300, "x/" * 3000, "/dev/null",
        "/dev/null/x", "loop",
    )),
    [*_SHORT, "--plan-only", "--out", "/dev/null/x"], [*_SHORT, "--plan-only", "--workers", "-1"],
    *(["trace", "turns.npy", "--out", name] for name in (
        "", "folder", "folder.png", "x", "x.xyz", "turns.npy/y.png", "/dev/null/x.png", "turns.npy",
        "x" * 300 + ".png", "a\0.png",
    )),
    *(["trace", "revisit", "--rows", text] for text in (
        "0", "-5", "x", "1.5", str(2**31 - 1), str(10**12), str(10**30), "nan",
    )),
    ["trace", "turns.npy", "--rows", "100000"], ["trace", "nothing"], ["trace", ""],
    *(["calibrate", "--trace", "revisit", flag, text] for text in ("0", "-1", "x", str(10**12))
      for flag in ("--rollout-length", "--lags", "--rows")),
    *(["calibrate", "--trace", "revisit", "--scale", text] for text in ("nan", "inf", "1e39", "x")),
    ["calibrate", "--trace", "revisit", "--lags", "1000000000"], ["calibrate"],
    ["calibrate", "--trace", "revisit", "--out", "folder.png"], ["calibrate", "--trace"],
    ["calibrate", "--trace", "revisit", "--out", "x.xyz"], ["calibrate", "--trace", ""],
    *(["export", *words] for words in (
        (), ("runs-of-mine",), ("runs-of-mine", "folder.csv"), ("runs-of-mine", "x.xyz"),
        ("folder", "x.csv"), ("nothing", "x.csv"), ("turns.npy", "x.csv"), ("", "x.csv"),
        ("runs-of-mine", ""), ("runs-of-mine", "folder.csv", "--overwrite"), ("a\0b", "x.csv"),
        ("runs-of-mine", "x.csv", "y.csv"), ("runs-of-mine", "/dev/null/x.csv"),
        ("runs-of-mine", "x" * 300 + ".csv"), ("runs-of-mine", "text.csv"),
    )),
    *(["report", *words] for words in (
        (), ("folder",), ("nothing",), ("turns.npy",), ("",), ("a\0b",), ("x" * 300,), (".",),
        ("runs-of-mine", "--out", "folder.csv"), ("runs-of-mine", "x"), ("loop",),
        ("runs-of-mine", "--out", "/dev/null/x.html"), ("runs-of-mine", "--out", "x" * 300),
        ("runs-of-mine", "--out", ""), ("/dev/null",),
    )),
    *(["import", *words] for words in (
        (), ("theirs.csv",), ("theirs.csv", "--out"), ("text.csv", "--out", "o"),
        ("nothing.csv", "--out", "o"), ("folder.csv", "--out", "o"), ("turns.npy", "--out", "o"),
        ("theirs.csv", "--out", "turns.npy"), ("theirs.csv", "--out", "runs-of-mine"),
        ("theirs.csv", "--out", "/dev/null/x"), ("theirs.csv", "--out", "x" * 300),
        ("pipe.npy", "--out", "o"), ("a\0b", "--out", "o"), ("loop", "--out", "o"),
    )),
    *([*_COMPARE, "--agents", text] for text in (
        "a2c[", "a2c]", "[gamma=1]", "a2c[]", "a2c[gamma]", "a2c[gamma=]", "a2c[=1]", "a2c[gama=1]",
        "a2c[gamma=x]", "a2c[gamma=NaN]", "a2c[gamma=1,gamma=1]", "a2c[gamma=1]x", "a2c[gamma=1][",
        "a2c[gamma=0.9],a2c[gamma=0.90]", "a2c[hidden=8]", "all[gamma=0.9]", "a2c[gamma=[1]]",
        "a2c[" + "[" * 10**5, "a2c[steps=4]", "a2c,7",
    )),
    # files
    *([*_SHORT[:3], "--trace", "turns.npy", "--steps", "400", *words] for words in (
        ("--columns", "x"), ("--columns", "0"), ("--columns", "3"), ("--columns", "1,1"),
        ("--columns", ""), ("--columns", ","), ("--columns", "["), ("--columns", "1"),
        ("--repeat", "--hold"), ("--repeat=yes",), ("--columns", "9" * 400), ("--columns", "1]"),
    )),
    [*_SHORT, "--repeat"], [*_SHORT, "--columns", "1"], [*_SHORT, "--hold"],
    ["train", "--columns", "1", "--steps", "400"], ["train", "--repeat", "--steps", "400"],
    ["train", "--agent", "a2c", "--trace", "turns.npy", "--steps", "2000"],
    ["train", "--agent", "a2c", "--trace", "turns.npy", "--repeat"],
    ["train", "--agent", "a2c", "--trace", "turns.npy[3]", "--steps", "400"],
    ["calibrate", "--trace", "turns.npy", "--columns", "5"],
    ["calibrate", "--trace", "turns.npy", "--repeat", "--hold", "--rows", "2000"],
    ["trace", "revisit", "--columns", "1"], ["trace", "turns.npy", "--columns", "x"],
    ["trace", "turns.npy", "--fill", "linear"], ["trace", "revisit", "--write", "new.csv"],
    *(["trace", "turns.npy", "--write", "new.csv", *more] for more in (
        ("--every", "1h"), ("--every", "x"), ("--fill", "next"), ("--scale", "1,2,3,4,5,6,7"),
        ("--scale", "1,"), ("--scale", "nan"), ("revisit",),
    )),
    ["trace", "turns.npy", "--write", "turns.npy"], ["trace", "--write", "new.csv"],
    ["calibrate", "--env", "grid-world"], ["calibrate", "--env", "nothing"],
    ["calibrate", "--env", "pendulum", "--lags", "2"], ["calibrate", "--env"],
    ["calibrate", "--trace", "revisit", "--normalise", "running"],
    [*_SHORT, "--plan-only", "--json"], [*_SHORT, "--json=1"], ["--version", "x"],
    ["completion"], ["completion", "fish"], ["completion", "bash", "zsh"], ["completion", ""],
    *([command, *words] for command in ("evaluate", "watch") for words in (
        (), ("folder",), ("nothing",), ("turns.npy",), ("",), ("a\0b",), ("x" * 300,), ("loop",),
        ("runs-of-mine", "x"), ("runs-of-mine", "--run", "x"), ("runs-of-mine", "--run", ""),
        ("runs-of-mine", "--trace", "3"), ("runs-of-mine", "--trace", ""), ("/dev/null",),
        ("runs-of-mine", "--steps", "0"), ("runs-of-mine", "--steps", "-1"),
        ("runs-of-mine", "--steps", str(10**12)), ("runs-of-mine", "--out", "turns.npy/x.gif"),
        ("runs-of-mine", "--out", "/dev/null/x.gif"), ("runs-of-mine", "--out", ""),
    )),
    *(["evaluate", "runs-of-mine", "--steps", text] for text in ("199", "1.5", "x")),
    *(["evaluate", "runs-of-mine", "--seeds", text] for text in ("0", "-1", "1,1", "x", "1e9")),
    *(["watch", "runs-of-mine", "--out", name] for name in ("x.mp4", "x", "folder.png", "x.png")),
    *(["watch", "runs-of-mine", flag, text] for flag in ("--steps", "--fps", "--start", "--seed")
      for text in ("-1", "x", "1.5", str(10**30))),
    ["watch", "runs-of-mine", "--fps", "0"], ["watch", "runs-of-mine", "--steps", "2001"],
    ["watch", "runs-of-mine", "--start", "1"],
    [*_COMPARE, "--agents", "a2c", "--imported", "folder"],
    [*_COMPARE, "--agents", "a2c", "--imported", "nothing", "turns.npy"],
    *(["bench", "--gpu-runs", text] for text in ("0", "-1", "x", "1.5", str(10**12))),
    # comparisons and experiments
    *([*_COMPARE, "--agents", text] for text in (
        ",", "", "a2c,,", "a2c,a2c", ",a2c", "a2c;lcpo", "a2c,lcop", " ", "a2c,broken:agent",
    )),
    *([*_COMPARE, "--agents", "a2c,lcpo", "--warmup", text]
      for text in ("400", "1000", "-1", "x", "1.5", str(10**30))),
    [*_COMPARE, "--agents", "a2c", "--training-steps", "400"],
    [*_COMPARE, "--agents", "prescient-a2c", "--training-steps", "0"],
    ["reproduce"], ["reproduce", "x"], ["reproduce", ""], ["reproduce", "--seeds", "1"],
    *(["reproduce", name, flag, text]
      for name in ("grid-world", "discretisation", "lcpo-p", "theorem")
      for flag, text in (("--seeds", "0"), ("--seeds", "-1"), ("--seeds", str(10**9)),
                         ("--workers", "-1"), ("--seeds", "1.5"), ("--out", "turns.npy"))),
    *(["reproduce", "windy", "--seeds", "1", "--scale", "1/1000", "--agents", "a2c",
       "--envs", "pendulum", flag, text]
      for flag, text in (("--traces", ""), ("--traces", "3,3"), ("--traces", "3@2"),
                         ("--traces", "5"), ("--collect", "turns.npy"), ("--collect", "o"))),
    *(["reproduce", "lcpo-p", "--scale", text]
      for text in ("", "0", "2", "1/0", "-1/2", "1e-3", "nan", "1/1000000", "9" * 400)),
    *(["reproduce", "theorem", "--seeds", "1", "--steps", text] for text in ("0", "-1", "50")),
    ["check-env"], ["check-env", "--x"], ["check-env", ""], ["check-env", "pendulm"],
    ["check-env", "pendulum", "--env.num-bins", "1"], ["check-env", "broken:agent"],
    ["check-env", "pendulum", "pendulum"], ["check-env", "json:no"],
    ["train", "--env", "gym:CartPole-v1", "--steps", "400", "--env.arguments", "["],
    ["train", "--env", "gym:CartPole-v1", "--steps", "400", "--env.arguments", "3"],
    ["train", "--env", "gym:CartPole-v1", "--steps", "400", "--env.arguments", "[" * 100_000],
    ["train", "--env", "gym:CartPole-v1", "--steps", "400", "--env.arguments", '{"x": 1}'],
]  # fmt: skip
"""Each of these must be refused."""


class Accepted(BaseException):
    """A command that passed all checks; carries what would have been worked on."""

    def __init__(self, **what: Any) -> None:
        super().__init__(str(what)[:500])
        self.what = what


@contextlib.contextmanager
def watch() -> Iterator[None]:
    """Work raises `Accepted` instead of being done, after the last check before it."""

    def run_plan(
        jobs: list[Job], out: Path, engine: Any, report: Any, resume: bool = False, *_: Any
    ) -> None:
        waiting = prepare(jobs, out, resume)
        engine.check(waiting)
        raise Accepted(jobs=jobs, workers=engine.workers, seconds=engine.checkpoint_seconds)

    def write_plan(jobs: list[Job], out: Path, keep_state: bool = False) -> None:
        raise Accepted(jobs=jobs)

    def get(name: str, rows: int | None = None, scale: float = 1.0) -> Any:
        trace = contexts.TraceRef.parse(name)
        if trace.is_file:
            return real_get(name, rows, scale)
        raise Accepted(rows=trace.shape(rows)[0], scale=scale)

    def work(*arguments: Any, **more: Any) -> Any:
        raise Accepted()

    real_get = contexts.get
    with contextlib.ExitStack() as stack:
        for where, instead in {
            "lcpo.api.run_plan": run_plan,
            "lcpo.run.engines.engine.write_plan": write_plan,
            "lcpo.contexts.get": get,
            "lcpo.bench.bench": work,
            "lcpo.study.advice.examine.examine": work,
            "lcpo.run.drive.frozen.make_driver": work,
            "lcpo.study.play.video.play": work,
            "lcpo.study.report.export.write_bytes": work,
            "lcpo.study.report.html.write_bytes": work,
            "lcpo.study.report.output.write_bytes": work,
            "lcpo.study.report.imports.save_arrays": work,
            "lcpo.study.report.figures._render": work,
        }.items():
            stack.enter_context(mock.patch(where, instead))
        yield


@dataclasses.dataclass
class Outcome:
    """How a command ended: an exit code, or what was accepted."""

    code: int | None
    accepted: dict[str, Any] | None
    seconds: float


def run(words: Words) -> Outcome:
    """Run a command up to its work."""
    began, code, accepted = time.monotonic(), None, None
    with watch():
        try:
            code = main.main(words)
        except Accepted as stop:
            accepted = stop.what
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Outcome(code, accepted, time.monotonic() - began)


def complaint(words: Words, found: Outcome, errors: str, *, may_pass: bool) -> str | None:
    """What is wrong with how a command ended; None: nothing."""
    lines = errors.splitlines()
    shown = " ".join(word if len(word) < 100 else f"{word[:100]!r}..." for word in words)
    told = f"lcpo {shown!r}: {found.code} {str(found.accepted)[:300]}\n{errors[-3000:]}"
    if "Traceback" in errors:
        return f"a traceback: {told}"
    if found.seconds > 30.0:
        return f"{found.seconds:.0f} seconds: {told}"
    if found.accepted is not None:
        if not may_pass:
            return f"accepted: {told}"
        fault = _insane(found.accepted)
        return f"accepted, with {fault}: {told}" if fault else None
    if found.code == 0 and may_pass:
        return None
    if found.code != 2 or len(lines) != 1 or not errors.startswith("error: "):
        return f"not one line and exit code 2: {told}"
    return None


def _insane(what: dict[str, Any]) -> str | None:
    """What is wrong with something that was accepted."""
    jobs: list[Job] = what.get("jobs", [])
    names = [job.name for job in jobs]
    if len(set(names)) < len(names) or len(jobs) > 100_000:
        return "runs of one name, or very many"
    for job in jobs:
        values = [*job.config.values(), *job.env_config.values(), job.scale]
        flat = [x for v in values for x in (v if isinstance(v, list) else [v])]
        if any(isinstance(x, float) and not math.isfinite(x) for x in flat):
            return "a config that is not finite"
        if not (0 < job.steps < 2**31 and 0 <= job.seed < 2**31 and abs(job.scale) < 1e38):
            return "odd numbers"
        if len(job.name.encode()) > 255 or not job.name.isprintable():
            return "a run's name that no folder can have"
    if not 0 <= (what.get("workers") or 0) <= 1000:
        return "odd workers"
    if not 0 <= what.get("seconds", 1.0) < math.inf or not 0 < what.get("rows", 1) < 2**31:
        return "odd numbers"
    return None
