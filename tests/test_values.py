"""Values stay values: nobody reads a run's name or a trace's text back, but the one reader of each.

Names are derived from a job's fields (`lcpo.run.plan.job`), texts from a `TraceRef`
(`lcpo.contexts`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lcpo

ROOT = Path(lcpo.__file__).parent
NAMES = {"name", "stem", "label", "case", "kind"}
"""Of a job, all of them made of its fields."""
TRACES = {"trace", "trace_name"}
PARTS = {
    "split", "rsplit", "partition", "rpartition", "removeprefix", "removesuffix", "startswith",
    "endswith", "index", "find", "rfind",
}  # fmt: skip
"""What takes a text apart, or looks into it."""
GRAMMAR = {"columns", "refs"}
"""Modules of `lcpo.contexts` that know how the text of a trace is written."""


def what(node: ast.expr) -> ast.expr:
    """Without what turns it into a text: str(x), x or ''."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str":
        return what(node.args[0]) if node.args else node
    return what(node.values[0]) if isinstance(node, ast.BoolOp) else node


def is_name_of_job(node: ast.expr) -> bool:
    """Whether it is `job.name`, `result.job.label`, `jobs[0].name` or the like."""
    node = what(node)
    if not isinstance(node, ast.Attribute) or node.attr not in NAMES:
        return False
    owner = node.value.value if isinstance(node.value, ast.Subscript) else node.value
    called = getattr(owner, "attr", getattr(owner, "id", ""))
    return called.endswith(("job", "jobs"))


def is_trace(node: ast.expr) -> bool:
    node = what(node)
    return getattr(node, "attr", getattr(node, "id", "")) in TRACES


def taken_apart(tree: ast.AST) -> Iterator[tuple[int, ast.expr]]:
    """Line and text of each place that looks into one: text.split(...), re.match(..., text)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = node.func
            if called.attr in PARTS:
                yield node.lineno, called.value
            if isinstance(called.value, ast.Name) and called.value.id in ("re", "fractions"):
                yield from ((node.lineno, argument) for argument in node.args)


def readers_of_names(source: str) -> list[int]:
    return [line for line, text in taken_apart(ast.parse(source)) if is_name_of_job(text)]


def readers_of_traces(source: str) -> list[int]:
    tree = ast.parse(source)
    found = [line for line, text in taken_apart(tree) if is_trace(text)]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "lcpo.contexts":
            found += [node.lineno for alias in node.names if alias.name in GRAMMAR]
    return found


def test_a_name_is_read_back_in_one_place_only() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in ROOT.rglob("*.py")
        if path.relative_to(ROOT) != Path("run/plan/job.py")
        for line in readers_of_names(path.read_text())
    }
    assert not found, f"use the fields of the job: {sorted(found)}"


def test_the_text_of_a_trace_is_read_in_contexts_only() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in ROOT.rglob("*.py")
        if path.relative_to(ROOT).parts[0] != "contexts"
        for line in readers_of_traces(path.read_text())
    }
    assert not found, f"use the fields of a TraceRef: {sorted(found)}"


@pytest.mark.parametrize(
    ("source", "names", "traces"),
    [
        ('Path(job.name.rsplit("-s", 1)[0])', 1, 0),
        ('result.job.name.removesuffix("-s0")', 1, 0),
        ('re.match("(.*)-s", jobs[0].name)', 1, 0),
        ("fractions.split(str(result.job.trace))", 0, 1),
        ('(job.trace or "").partition("@")', 0, 1),
        ('trace.startswith("family:")', 0, 1),
        ("from lcpo.contexts import columns", 0, 1),
        ("path.name.split('.'); run_files(out, job.name); fractions.read('scale', text)", 0, 0),
    ],
)
def test_readers_are_caught(source: str, names: int, traces: int) -> None:
    assert len(readers_of_names(source)) == names
    assert len(readers_of_traces(source)) == traces
