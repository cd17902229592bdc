"""How runs are run is one record: what commands and calls offer are its fields."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import pytest

import lcpo
from lcpo.cli import flags, runs
from lcpo.errors import InputError
from lcpo.run.options import RunOptions

FIELDS = {field.name: field for field in dataclasses.fields(RunOptions)}
PYTHON_ONLY, COMMAND_ONLY = {"progress", "callbacks"}, {"engine", "address"}


def test_calls_and_commands_offer_its_fields_with_its_defaults() -> None:
    options = {option[0]: option[3] for option in runs.RUN_OPTIONS}
    for name in FIELDS.keys() - PYTHON_ONLY:
        assert options[name] == FIELDS[name].default, name
    assert not PYTHON_ONLY & options.keys()
    for call in (lcpo.train, lcpo.compare):
        parameters = inspect.signature(call).parameters
        for name in FIELDS.keys() - COMMAND_ONLY:
            assert parameters[name].default == FIELDS[name].default, name


def test_a_command_line_becomes_the_record() -> None:
    words = ["--out", "x", "--workers", "2", "--track", "jsonl", "--keep-state"]
    found = flags.parse("train", words, runs.RUN_OPTIONS)
    how = flags.made(RunOptions, found, progress=False)
    wanted = RunOptions(Path("x"), False, 2, keep_state=True, track=("jsonl",), progress=False)
    assert how == wanted


BAD: list[tuple[str, Any]] = [
    ("workers", -1), ("workers", 1001), ("workers", 1.5), ("checkpoint_seconds", -1.0),
    ("checkpoint_seconds", float("nan")), ("resume", 1), ("keep_state", "yes"), ("progress", None),
    ("callbacks", print), ("callbacks", [1]), ("track", 3), ("track", ["jsonl", "jsonl"]),
    ("track", "nothing"), ("out", 3), ("out", ""),
]  # fmt: skip


def test_what_cannot_be_used_is_refused() -> None:
    for name, value in BAD:
        with pytest.raises(InputError):
            RunOptions.of(**{name: value})
