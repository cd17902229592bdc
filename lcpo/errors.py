"""What can go wrong, by who can mend it, and how an exception is told in one line.

`InputError`: the user, who is told what was given, what is needed, and what to do. `RunError`: a
run could not go on, because its environment or a worker broke; its checkpoint stays. Any other
exception is a bug of this library: it keeps its traceback, and is told as such.
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
from typing import NamedTuple


class InputError(ValueError):
    """Something that the user gave cannot be used; the text says what to do."""


class MissingFile(InputError, FileNotFoundError):
    """A file that the user named does not exist."""


class MissingPackage(InputError, ImportError):
    """What was asked for needs a package that is not installed; the text says which."""


class CannotServe(InputError):
    """An agent that cannot serve an environment; the text says why."""


class RunError(RuntimeError):
    """Runs that could not go on; the text says why, and `--resume` goes on from the checkpoints."""


def is_full(error: BaseException) -> bool:
    """Whether a write failed because the disk, or the user's share of it, is full."""
    full = (errno.ENOSPC, errno.EDQUOT)
    return any(isinstance(e, OSError) and e.errno in full for e in _causes(error))


def no_space(where: object) -> RunError:
    """What to tell where a write failed for that."""
    return RunError(
        f"no space is left for {where}: free some; the same command with --resume goes on then, "
        "and nothing that has ended is lost"
    )


_LONGEST = 500
"""Characters of an exception's message; a log has the rest."""


def tell(error: BaseException) -> str:
    """One line: type and message of an exception, and where in the user's code it arose."""
    where = place(error)
    return message(error) + (f" ({where})" if where else "")


def message(error: BaseException) -> str:
    """Type and message in one line; of an InputError the message alone, which is for users."""
    text = _text(error)
    if inner := _INNER.search(text):  # of a callback of JAX's, which tells its traceback as text
        return _first_line(inner["message"])
    text, kind = _first_line(text), type(error).__name__
    if isinstance(error, InputError) and text:
        return text
    return f"{kind}: {text}" if text else kind


def place(error: BaseException) -> str | None:
    """`file:line in function`: the innermost frame that is neither ours nor of a package.

    Where there is none, an error of an installed environment: the innermost of any package.
    """
    chain = list(_causes(error))
    for wanted in (_is_users, _is_packages):
        for one in chain:
            for frame in reversed(_frames(one)):
                if wanted(frame.file):
                    return f"{_short(frame.file)}:{frame.line} in {frame.function}"
    return None


def trace_of(error: BaseException) -> str:
    """The whole traceback, for a log."""
    return printable("".join(traceback.format_exception(error)))


class _Frame(NamedTuple):
    file: str
    line: int
    function: str


_INNER = re.compile(r"Traceback \(most recent call last\):\n(?:[ ].*\n)+(?P<message>\S(?s:.*))")
_INNER_FRAME = re.compile(r'^ *File "(.+)", line (\d+), in (.+)$', re.M)
_OURS = str(Path(__file__).parent)
_PYTHONS = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An exception, and those from which it was raised."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__


def _frames(error: BaseException) -> list[_Frame]:
    """From the outermost to the innermost."""
    steps = traceback.walk_tb(error.__traceback__)
    frames = [_Frame(f.f_code.co_filename, line, f.f_code.co_name) for f, line in steps]
    inner = _INNER_FRAME.findall(_text(error)) if _INNER.search(_text(error)) else []
    return frames + [_Frame(file, int(line), function) for file, line, function in inner]


def _is_users(file: str) -> bool:
    return not (file.startswith("<") or _below(file, (_OURS, *_PYTHONS)) or _is_packages(file))


def _is_packages(file: str) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _below(file: str, folders: tuple[str, ...]) -> bool:
    return any(Path(file).is_relative_to(folder) for folder in folders)


def _short(file: str) -> str:
    """From the current folder, if the file is below it."""
    with contextlib.suppress(OSError):  # the current folder is gone
        file = file.removeprefix(os.path.join(os.getcwd(), ""))
    return printable(file)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a `__str__` of the user's that is broken, too
        return "its message cannot be shown"


def _first_line(text: str) -> str:
    lines = [line.strip() for line in printable(text).splitlines() if line.strip()]
    first = lines[0] if lines else ""
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]} ..."


_CONTROL = {i: f"\\x{i:02x}" for i in (*range(32), *range(127, 160)) if chr(i) not in "\n\t"}


def printable(text: str) -> str:
    """Without what no terminal can encode, such as file names that are not UTF-8, or would obey."""
    return text.encode("utf-8", "backslashreplace").decode().translate(_CONTROL)
