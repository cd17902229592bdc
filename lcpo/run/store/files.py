"""Files that are there whole or not at all: .npz, JSON, bytes. No pickle, ever."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from lcpo.errors import InputError


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz so that a reader sees the old file or the new one, never a part."""
    write_whole(path, lambda file: np.savez(file, allow_pickle=False, **arrays))  # pyright: ignore


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read an .npz; a damaged file gives an InputError that says so."""
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {k: file[k] for k in file.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} is damaged or no array file ({error})") from error


def save_json(path: Path, value: Any) -> None:
    """Write JSON atomically."""
    save_bytes(path, json.dumps(value, indent=1).encode())


def load_json(path: Path) -> Any:
    """Read JSON; a damaged file gives an InputError that says so."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged or no JSON file ({error})") from error


def save_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    write_whole(path, lambda file: file.write(content))


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` fill a file, then put it in its place; folders are made as needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp's files are their owner's alone
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def digest(values: np.ndarray) -> str:
    """A fingerprint of an array."""
    return f"{zlib.crc32(np.ascontiguousarray(values).data):08x}"
