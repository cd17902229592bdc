"""The kinds of errors, by who can fix them, and how an exception is reported in one line.

`InputError`: the user can. It says what was given, what is needed, and what to do. `RunError`: a
run could not continue, because its environment or a worker broke; its checkpoint stays. Any other
exception is a bug in this library: it keeps its traceback, and is reported as such.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path


class InputError(ValueError):
    """The user's input cannot be used; the message says what to do."""


class MissingFile(InputError, FileNotFoundError):
    """A file that the user named does not exist."""


class MissingPackage(InputError, ImportError):
    """A package is not installed; the message says which."""


class CannotServe(InputError):
    """An agent that cannot serve an environment; the message says why."""


class Conflict(InputError):
    """A call that contradicts what has happened before, such as another outcome for the same id."""


class Unknown(InputError):
    """A call about something that there is not, such as an id that was never given."""


class NoAnswer(InputError):
    """Nobody can decide: the policy has no valid answer, and there is no fallback."""


class RunError(RuntimeError):
    """Runs that could not continue; `--resume` continues from their checkpoints."""


def is_full(error: BaseException) -> bool:
    """Whether a write failed because the disk, or the user's share of it, is full."""
    full = (errno.ENOSPC, errno.EDQUOT)
    return any(isinstance(e, OSError) and e.errno in full for e in _causes(error))


def no_space(where: object) -> RunError:
    """The error to raise if a write failed because of that."""
    return RunError(
        f"no space is left for {where}: free some, and run the same command with --resume; "
        "finished runs are kept"
    )


_LONGEST = 500
"""Longest message of an exception, in characters; a log has the rest."""


def tell(error: BaseException) -> str:
    """One line: type and message of an exception, and where in the user's code it arose."""
    where = place(error)
    return message(error) + (f" ({where})" if where else "")


def message(error: BaseException) -> str:
    """Type and message in one line; of an InputError the message alone, which is for users."""
    text = _text(error)
    if inner := _INNER.search(text):  # a callback of JAX has its traceback as text
        return _first_line(inner["message"])
    text, kind = _first_line(text), type(error).__name__
    if isinstance(error, InputError) and text:
        return text
    return f"{kind}: {text}" if text else kind


def place(error: BaseException) -> str | None:
    """`file:line in function`: the innermost frame of the user's code.

    If there is none, as in an installed environment: the innermost frame outside lcpo.
    """
    frames = [frame for one in _causes(error) for frame in reversed(_frames(one))]
    for is_wanted in (_is_users, _is_packages):
        for file, line, function in frames:
            if is_wanted(file):
                with contextlib.suppress(OSError):  # the current folder is gone
                    file = file.removeprefix(os.path.join(os.getcwd(), ""))
                return f"{printable(file)}:{line} in {function}"
    return None


def trace_of(error: BaseException) -> str:
    """The whole traceback, for a log."""
    return printable("".join(traceback.format_exception(error)))


_INNER = re.compile(r"Traceback \(most recent call last\):\n(?:[ ].*\n)+(?P<message>\S(?s:.*))")
_INNER_FRAME = re.compile(r'^ *File "(.+)", line (\d+), in (.+)$', re.M)
_NOT_USERS = (Path(__file__).parent, *map(sysconfig.get_path, ("stdlib", "platstdlib")))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An exception and its causes."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__


def _frames(error: BaseException) -> list[tuple[str, int, str]]:
    """(file, line, function) from the outermost to the innermost."""
    steps = traceback.walk_tb(error.__traceback__)
    frames = [(f.f_code.co_filename, line, f.f_code.co_name) for f, line in steps]
    inner = _INNER_FRAME.findall(_text(error)) if _INNER.search(_text(error)) else []
    return frames + [(file, int(line), function) for file, line, function in inner]


def _is_users(file: str) -> bool:
    others = any(Path(file).is_relative_to(folder) for folder in _NOT_USERS)
    return not (file.startswith("<") or others or _is_packages(file))


def _is_packages(file: str) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # the user's `__str__` is broken
        return "its message cannot be shown"


def _first_line(text: str) -> str:
    lines = [line.strip() for line in printable(text).splitlines() if line.strip()]
    first = lines[0] if lines else ""
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]} ..."


_CONTROL = {i: f"\\x{i:02x}" for i in (*range(32), *range(127, 160)) if chr(i) not in "\n\t"}


def printable(text: str) -> str:
    """Without characters that a terminal cannot encode (file names that are not UTF-8) or would
    execute."""
    return text.encode("utf-8", "backslashreplace").decode().translate(_CONTROL)
