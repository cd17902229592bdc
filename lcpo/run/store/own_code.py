"""Code outside this library that this user has run here: its runs need no `--trust` again.

    $XDG_STATE_HOME/lcpo/own-code        without that variable: ~/.local/state/lcpo/own-code

A line of the file is the digest of a run that this user has planned: all values of its job, and
the files that the modules it names are imported from. A folder cannot vouch for itself, because
whoever wrote it may have forged anything in it. It is known only if the same run, with code from
the same files, was planned by a command of this user. If the file cannot be read or written,
nothing is known.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lcpo.run.store.files import private_folder

MAX_BYTES = 2**20
"""Of the file, about 16,000 runs: the older half is dropped beyond."""


def fingerprint(job: Mapping[str, Any], modules: Iterable[str]) -> str | None:
    """Of a job's plain values and the modules it names; None if a module has no file."""
    files = {module: _origin(module) for module in modules}
    if None in files.values():
        return None
    text = json.dumps([job, files], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def remember(fingerprints: Iterable[str]) -> None:
    """Add runs of this user."""
    file = _file()
    new = [line for line in dict.fromkeys(fingerprints) if line not in known()]
    if file is None or not new:
        return
    with contextlib.suppress(OSError):
        if file.exists() and file.stat().st_size > MAX_BYTES:
            lines = file.read_text().splitlines()
            file.write_text("".join(f"{line}\n" for line in lines[len(lines) // 2 :]))
        with open(file, "a", opener=lambda path, flags: os.open(path, flags, 0o600)) as lines:
            lines.write("".join(f"{line}\n" for line in new))


def known() -> frozenset[str]:
    """The fingerprints of this user's runs."""
    file = _file()
    if file is None:
        return frozenset()
    try:
        return frozenset(file.read_text().split())
    except (OSError, UnicodeDecodeError):
        return frozenset()


def _file() -> Path | None:
    base = os.environ.get("XDG_STATE_HOME", "")
    try:
        home = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
    except RuntimeError:  # no home
        return None
    folder = private_folder(home / "lcpo")
    return folder and folder / "own-code"


def _origin(module: str) -> str | None:
    """The file that `names.find` would import a top-level module from. Imports nothing."""
    if module in sys.modules:
        spec = getattr(sys.modules[module], "__spec__", None)
    else:
        here = os.getcwd()
        path = sys.path if here in sys.path else [here, *sys.path]
        spec = importlib.machinery.PathFinder.find_spec(module, path)
        spec = spec or importlib.util.find_spec(module)  # an editable install has its own finder
    found = spec and spec.origin
    return os.path.realpath(found) if found else None
