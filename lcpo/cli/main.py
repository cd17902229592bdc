"""The command `lcpo`: which command is meant, and how it ends."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from collections.abc import Callable

from lcpo import __version__
from lcpo.cli import checks, completion, data, reproduce, runs, show, watch
from lcpo.cli.flags import BAD_INPUT, BUG, NOT_READ, RUN_FAILED, STOPPED
from lcpo.errors import InputError, RunError, is_full, no_space
from lcpo.names import unknown
from lcpo.run import stop
from lcpo.run.worker import open_standard_streams

COMMANDS: dict[str, Callable[[list[str]], int | None]] = {
    "train": runs.train,
    "compare": runs.compare,
    "reproduce": reproduce.reproduce,
    "list": checks.list_names,
    "check-env": checks.check_env,
    "trace": data.trace,
    "calibrate": data.calibrate,
    "report": data.report,
    "import": data.import_runs,
    "export": data.export,
    "evaluate": watch.evaluate,
    "watch": watch.watch,
    "bench": checks.bench,
    "completion": completion.completion,
}


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code, which docs/running.md explains."""
    arguments = sys.argv[1:] if arguments is None else arguments
    open_standard_streams()
    if not arguments or arguments[0] in ("-h", "--help"):
        _usage()
        return 0
    if arguments == ["--version"]:
        print(f"lcpo {__version__}")
        return 0
    name, *rest = arguments
    try:
        if name not in COMMANDS:
            raise InputError(unknown("command", name, COMMANDS))
        code = COMMANDS[name](rest) or 0
        sys.stdout.flush()  # here, so that a reader who has gone is noticed here
        return code
    except InputError as error:
        _show_error(error)
        return BAD_INPUT
    except RunError as error:
        _show_error(error)
        return RUN_FAILED
    except MemoryError:
        _show_error(InputError("memory is used up: make sizes smaller, or --workers fewer"))
        return BAD_INPUT
    except stop.Stopped as stopped:
        again = f"lcpo {name} --resume --out {shlex.quote(str(stopped.out))}"
        again = f"`{again}`" if name in ("train", "compare") else "the same command with --resume"
        print(f"stopped: {stopped}; {again} goes on", file=sys.stderr)
        return STOPPED
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:  # nobody reads on, as in `lcpo list | head`: no bug, and no news
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOT_READ
    except Exception as error:
        if is_full(error):
            _show_error(no_space("the results"))
            return RUN_FAILED
        traceback.print_exc()
        show.line(
            "this is a bug of lcpo: please report it, with the traceback above "
            "(unless that ends in an agent or environment of your own)",
            "error:", "red", stderr=True,
        )  # fmt: skip
        return BUG


def _show_error(error: Exception) -> None:
    """One line: what was given, what is needed, what to do."""
    text = " ".join(str(error).splitlines())
    short = text if len(text) <= 2000 else f"{text[:2000]}..."
    show.line(short, "error:", "red", stderr=True)


def _usage() -> None:
    print("usage: lcpo COMMAND [options]      (lcpo COMMAND --help tells the options)\n")
    for name, command in COMMANDS.items():
        print(f"  {name:<10} {(command.__doc__ or '').splitlines()[0]}")
    print("\nlcpo --version tells the version; docs/running.md explains the exit codes.")
