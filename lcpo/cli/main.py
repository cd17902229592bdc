"""The command `lcpo`: dispatch to subcommands, and exit codes."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from collections.abc import Callable

from lcpo import __version__
from lcpo.cli import HELP, flags, show
from lcpo.errors import InputError, RunError, is_full, no_space
from lcpo.names import Registry, unknown
from lcpo.run import stop
from lcpo.run.worker import open_standard_streams

COMMANDS: Registry[Callable[[list[str]], int | None]] = Registry(
    {
        "train": "lcpo.cli.runs:train",
        "compare": "lcpo.cli.runs:compare",
        "tune": "lcpo.cli.tune:tune",
        "suggest": "lcpo.cli.suggest:suggest",
        "reproduce": "lcpo.cli.reproduce:reproduce",
        "list": "lcpo.cli.checks:list_names",
        "check-env": "lcpo.cli.checks:check_env",
        "trace": "lcpo.cli.data:trace",
        "calibrate": "lcpo.cli.data:calibrate",
        "report": "lcpo.cli.data:report",
        "import": "lcpo.cli.data:import_runs",
        "export": "lcpo.cli.data:export",
        "evaluate": "lcpo.cli.data:evaluate",
        "watch": "lcpo.cli.data:watch",
        "serve": "lcpo.cli.live:serve",
        "replay": "lcpo.cli.live:replay",
        "live-report": "lcpo.cli.live:live_report",
        "bench": "lcpo.cli.checks:bench",
        "completion": "lcpo.cli.completion:completion",
    }
)
"""Imported when they are called: most of them need JAX, whose import takes a second."""


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code, which docs/running.md explains."""
    arguments = sys.argv[1:] if arguments is None else arguments
    open_standard_streams()
    name = arguments[0] if arguments else ""
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()  # here, so that a closed pipe is noticed here
        return code
    except InputError as error:
        return _fail(error, flags.BAD_INPUT)
    except RunError as error:
        return _fail(error, flags.RUN_FAILED)
    except MemoryError:
        return _fail("out of memory: use smaller sizes, or fewer --workers", flags.BAD_INPUT)
    except stop.Stopped as stopped:
        again = f"lcpo {name} --resume --out {shlex.quote(str(stopped.out))}"
        is_alone = name in ("train", "compare", "tune")
        again = f"`{again}`" if is_alone else "the same command with --resume"
        print(f"stopped: {stopped}; to continue, run {again}", file=sys.stderr)
        return flags.STOPPED
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return flags.STOPPED
    except BrokenPipeError:  # the reader closed the pipe, as in `lcpo list | head`: not a bug
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return flags.NOT_READ
    except Exception as error:
        if is_full(error):
            return _fail(no_space("the results"), flags.RUN_FAILED)
        traceback.print_exc()
        return _fail(
            "this is a bug in lcpo: please report it with the traceback above "
            "(unless it ends in your own agent or environment)", flags.BUG,
        )  # fmt: skip


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: lcpo COMMAND [options]      (lcpo COMMAND --help shows its options)\n")
        for name, help in HELP.items():
            print(f"  {name:<11} {help}")
        print("\nlcpo --version prints the version; docs/running.md explains the exit codes.")
        return 0
    if arguments == ["--version"]:
        print(f"lcpo {__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        raise InputError(unknown("command", name, COMMANDS))
    try:
        return COMMANDS[name](rest) or 0
    except flags.Help as asked:
        print(asked)
        return 0


def _fail(error: Exception | str, code: int) -> int:
    """Print what went wrong in one line; the exit code."""
    text = " ".join(str(error).splitlines())
    short = text if len(text) <= 2000 else f"{text[:2000]}..."
    show.line(short, "error:", "red", stderr=True)
    return code
