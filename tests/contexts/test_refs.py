"""A trace as a value: its text, and the rows that runs share."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcpo import contexts
from lcpo.contexts import TraceRef
from lcpo.errors import InputError
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import plan


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("3", ("3", None, "", Fraction(1))),
        ("3@1/20", ("3", None, "", Fraction(1, 20))),
        ("3@0.05", ("3", None, "", Fraction(1, 20))),
        ("family:drift:7+hold", ("family:drift:7", None, "+hold", Fraction(1))),
        ("a/b.csv[x,2]+repeat@1/4", ("a/b.csv", ("x", "2"), "+repeat", Fraction(1, 4))),
        ("+repeat", ("+repeat", None, "", Fraction(1))),
    ],
)
def test_parts(text: str, fields: tuple) -> None:
    trace = TraceRef.parse(text)
    assert trace == TraceRef(*fields)
    assert str(trace) == text
    assert repr(trace) == repr(text)
    assert TraceRef.parse(trace) is trace


def test_a_stored_run_keeps_the_fraction_as_it_was_written() -> None:
    """A new run is named after the reduced fraction; one that is called 3@0.05 still loads."""
    (new,) = plan("a2c", "pendulum", trace="3@0.05", steps=400, seeds=[0])
    assert new.name == "a2c-pendulum-3@1_20-s0"
    job = Job.from_json({**new.to_json(), "trace": "3@0.05", "name": "a2c-pendulum-3@0.05-s0"}, "")
    assert job.name == "a2c-pendulum-3@0.05-s0"
    assert job.to_json()["trace"] == "3@0.05"
    assert job.trace == TraceRef.parse("3@1/20") != TraceRef.parse("3")
    assert str(TraceRef.parse("3@0.5").faster(Fraction(1, 2))) == "3@1/4"


def test_rows_are_shared_until_their_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "mine.npy"
    np.save(file, np.zeros((4, 1)))
    first, again = TraceRef.parse(file), TraceRef.parse(str(file))
    rows = first.load(scale=2.0)
    assert again.load(scale=2.0) is rows
    assert first.load() is not rows
    with pytest.raises(ValueError, match="read-only"):
        rows[0] = 1.0
    digest = first.digest(None, 2.0)
    np.save(file, np.ones((5, 1)))
    assert again.load(scale=2.0).tolist() == [[2.0]] * 5
    assert again.digest(None, 2.0) != digest
    assert again.shape() == (5, 1)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("1,3", ["1", "3"]),
        ("family:revisit:8..10", ["family:revisit:8", "family:revisit:9", "family:revisit:10"]),
        ("family:drift:2..2@1/20,4", ["family:drift:2@1/20", "4"]),
        ("family:iid:0..1@1/20", ["family:iid:0@1/20", "family:iid:1@1/20"]),
        ("family:iid:0,family:iid:1@1/20", ["family:iid:0", "family:iid:1@1/20"]),
        ("a.csv[x,y]+repeat, b.csv", ["a.csv[x,y]+repeat", "b.csv"]),
        ([Path("a.csv"), "family:iid:0..1"], ["a.csv", "family:iid:0", "family:iid:1"]),
    ],
)
def test_several_traces(given: Any, names: list[str]) -> None:
    found = contexts.several(given)
    assert [str(trace) for trace in found] == names
    assert contexts.several(contexts.in_short(names)) == found, "what is shown can be given"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "traces = ''.*and each once"),
        ("1,1", "traces = '1,1'.*and each once"),
        ("family:drift:0..2,family:drift:1", "and each once: 1,3 or family:revisit:0..9"),
        (7, "traces = 7: needs traces, separated by commas or in a list"),
        (Path("a.csv"), "needs traces, separated by commas or in a list"),
        ([7], "trace = 7: needs a name"),
        ("a.csv[x", r"needs a \] for every \["),
        ("family:drift:3..1", "needs the first and the last seed of at most 100,000 traces"),
        ("family:drift:0..999999", "needs the first and the last seed of at most 100,000 traces"),
        ("family:drift:0..", "trace 'family:drift:': the seed is '', needs a whole number from 0"),
        ("family:wind:0..3", "unknown trace family 'wind'"),
    ],
)
def test_several_traces_refused(given: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        contexts.several(given)


def test_a_range_where_one_trace_is_needed() -> None:
    with pytest.raises(
        InputError, match=r"`lcpo compare --traces family:drift:0..3` takes several"
    ):
        TraceRef.parse("family:drift:0..3").describe()
