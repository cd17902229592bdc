"""The commands about live agents: serve one, rebuild one from its log, report on it."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Console

from lcpo import values
from lcpo.cli import flags, show
from lcpo.cli.flags import Option
from lcpo.errors import InputError

FOLDER = Option("folder", Path, "Folder of a live agent.", is_positional=True)


def replay(arguments: list[str]) -> None:
    """Rebuild the learner from its log, and compare it with what was recorded."""
    other = "Other settings of the agent, as in gamma=0.9,learning_rate=0.001: what if?"
    trust = "Also import an agent outside lcpo, which runs its author's code."
    options = flags.parse(
        "replay",
        arguments,
        [
            FOLDER,
            Option("until", int | None, "Sequence of the event to stop after.", None),
            Option("config", str | None, other, None),
            Option("trust", bool, trust, False),
        ],
    )
    config = None if options.config is None else read_config(options.config)
    from lcpo.live import rebuild

    screen = Console(stderr=True)
    with screen.status("replaying") as status:
        found = rebuild.replay(
            options.folder, options.until, config, trust=options.trust,
            tell=lambda sequence: status.update(f"replaying event {sequence:,}"),
        )  # fmt: skip
    state, counts = found.state, found.state.counts
    show.line(
        f"events {found.first + 1:,} to {found.last:,}: {state.decisions:,} decisions, "
        f"{counts.observed:,} rewards, {state.updates:,} updates ({state.dropped:,} dropped)"
    )
    if config is None and not found.checked:
        show.line(f"no checkpoint with which to compare: none was saved up to event {found.last:,}")
    elif config is None:
        word = "checkpoint" if found.checked == 1 else "checkpoints"
        show.line(f"equal to the learner at {found.checked} {word}, bit for bit")
    show.line(f"digest {state.digest()}")


def serve(arguments: list[str]) -> None:
    """Serve a live agent over HTTP, or explain what would be served."""
    what = "Check and explain the configuration, without serving."
    trust = "Also import an agent outside lcpo, which runs its author's code."
    options = flags.parse(
        "serve",
        arguments,
        [
            Option("config", Path, "TOML file (docs/live/serve.md).", is_positional=True),
            Option("check", bool, what, False),
            Option("trust", bool, trust, False),
        ],
    )
    from lcpo import serve as serving

    serving.check_installed()
    if options.check:
        from lcpo.serve import check

        for text in check.explain(options.config, trust=options.trust):
            show.line(text)
    else:
        from lcpo.serve import server

        server.run(options.config, trust=options.trust)


def read_config(text: str) -> dict[str, object]:
    """NAME=VALUE,... as a dict."""
    found: dict[str, object] = {}
    for part in values.split("config", text):
        name, equals, value = part.partition("=")
        if not equals or not name or name in found:
            raise InputError(f"--config {text}: needs NAME=VALUE,NAME=VALUE with different names")
        found[name] = values.from_text(value)
    return found


def live_report(arguments: list[str]) -> None:
    """Print tables about a live agent, and write them with a page."""
    from lcpo.study.report import live

    where = "Folder for tables, figures and the page; default: report in the folder."
    options = flags.parse(
        "live-report", arguments, [FOLDER, Option("out", Path | None, where, None)]
    )
    out = options.out or options.folder / "report"
    command = shlex.join(["lcpo", "live-report", *arguments])
    report, paths = live.write(options.folder, out, command)
    for table in report.tables.values():
        if table.rows:
            show.line(table.heading)
            show.table(table)
            print()
    show.line(f"wrote {paths[-1]}")
