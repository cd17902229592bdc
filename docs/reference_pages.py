"""Pages that are generated: the command line, and the Python API by module."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import re
from collections.abc import Iterable
from pathlib import Path

from lcpo.cli import main as command

API = {
    "Train, compare and load": ("lcpo", "lcpo.acting"),
    "Agents": ("lcpo.types", "lcpo.config", "lcpo.distributions", "lcpo.agents"),
    "Parts of agents": (
        "lcpo.core.trust_region", "lcpo.agents.anchors", "lcpo.agents.on_policy",
        "lcpo.agents.off_policy", "lcpo.core.nets", "lcpo.core.ood", "lcpo.core.changepoint",
    ),
    "Environments and contexts": (
        "lcpo.envs.base", "lcpo.envs.entries", "lcpo.contexts", "lcpo.defaults", "lcpo.gym",
    ),
    "Tests of your own parts": ("lcpo.testing",),
    "Live learning": ("lcpo.live", "lcpo.live.state", "lcpo.live.events", "lcpo.live.loop"),
    "Runs and results": (
        "lcpo.run.options", "lcpo.run.plan.job", "lcpo.run.store.results", "lcpo.run.track",
    ),
    "Studies and reports": (
        "lcpo.study.study", "lcpo.study.cases", "lcpo.study.report.cells",
        "lcpo.study.report.tables",
    ),
}  # fmt: skip
"""Public modules, by what they are for. A module without `__all__` shows what it defines."""


def write(docs: Path) -> None:
    """Write generated/cli.md and generated/api."""
    folder = docs / "generated" / "api"
    folder.mkdir(parents=True, exist_ok=True)
    save(docs / "generated" / "cli.md", command_line())
    shown: set[int] = set()
    for name in _modules():
        save(folder / f"{name}.md", module_page(name, shown))
    save(docs / "generated" / "api.md", index())


def command_line() -> str:
    """Every command with its options, as `--help` prints them."""
    lines = [
        "# Command line",
        "",
        "This page is generated from the options of each command. `lcpo COMMAND --help` prints the",
        "same text. [Running and resuming](../running.md) explains the exit codes.",
        "",
    ]
    for name, function in command.COMMANDS.items():
        summary = inspect.getdoc(function) or ""
        lines += [f"## lcpo {name}", "", summary, "", "```text", _help(name), "```", ""]
    return "\n".join(lines)


def _help(name: str) -> str:
    shown = io.StringIO()
    os.environ.update(COLUMNS="92", NO_COLOR="1", TERM="dumb")
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        command.main([name, "--help"])
    return shown.getvalue().strip()


def _modules() -> Iterable[str]:
    return (name for names in API.values() for name in names)


def index() -> str:
    """The list of public modules."""
    lines = ["# Python API", ""]
    lines += ["The public names of the library, with their docstrings.", ""]
    for title, names in API.items():
        lines += [f"## {title}", "", "| module | purpose |", "|---|---|"]
        for name in names:
            summary = (inspect.getdoc(importlib.import_module(name)) or "").split("\n\n")[0]
            lines.append(f"| [`{name}`](api/{name}.md) | {' '.join(summary.split())} |")
        lines.append("")
    pages = [f"api/{name}" for name in _modules()]
    return "\n".join([*lines, "```{toctree}", ":hidden:", "", *pages, "```", ""])


def module_page(name: str, shown: set[int]) -> str:
    """A page for a module: its docstring, then its public names that no page has `shown`."""
    module = importlib.import_module(name)
    own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == name]
    parts = [f"# {name}", "", "```{eval-rst}", f".. automodule:: {name}", "   :no-members:", ""]
    for key in getattr(module, "__all__", own):
        value = getattr(module, key)
        if key.startswith("_") or not callable(value) or id(value) in shown:
            continue
        shown.add(id(value))
        kind = "class" if inspect.isclass(value) else "function"
        parts += [f".. auto{kind}:: {name}.{key}", ""]
    return "\n".join([*parts, "```", ""])


def save(path: Path, text: str) -> None:
    """Write a page if it has changed, so that an unchanged page is not built again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def as_rst(lines: list[str]) -> None:
    """Turn a docstring into reStructuredText, in place.

    Docstrings use backticks for code, indented blocks for equations and examples, and `Args:` with
    an item per argument. All three mean something else in reStructuredText, as do `_` and `|`.
    """
    out: list[str] = []
    block = ""
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent == 0:
            block = "args" if line == "Args:" else ""
        elif indent >= 4 and not block and (not out or not out[-1].strip()):
            block = "code"
            out += ["::", ""]
        if line == "Args:":
            out += ["Arguments:", ""]
        elif block == "args" and indent == 2:
            name, _, text = line.strip().partition(":")
            names = ", ".join(f"``{part.strip()}``" for part in name.split(","))
            out.append(f"- {names}: {_escape(text.strip())}")
        elif block == "args":
            out.append(f"  {_escape(line.strip())}".rstrip())
        else:
            out.append(line if block == "code" else _escape(line))
    lines[:] = out


def _escape(line: str) -> str:
    """The line with code in double backticks, and its other special characters escaped."""
    parts = re.split(r"(`+[^`]+`+)", line)
    parts[1::2] = [f"``{part.strip('`')}``" for part in parts[1::2]]
    parts[::2] = [re.sub(r"([|\\]|_(?=\W|$)|(?<!\w)\*(?!\w+\*))", r"\\\1", x) for x in parts[::2]]
    return "".join(parts)
