"""Atomic files: .npz, JSON and bytes. No pickle, ever.

Writing an array file returns its digest; a reader that passes it detects any change. A *document*
is JSON with its schema and its own digest; a *bundle* is a document and arrays in one file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import stat
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from lcpo.archives import digest, read_archive
from lcpo.errors import InputError, MissingFile

UNFINISHED = ".part"
"""Suffix of a file that is being written, or that a killed process left behind."""
_UNFINISHED = re.compile(rf"\.[0-9a-f]{{16}}{re.escape(UNFINISHED)}")
REGULAR = "regular file"
KINDS = {
    stat.S_IFREG: REGULAR, stat.S_IFDIR: "folder", stat.S_IFLNK: "symbolic link",
    stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}  # fmt: skip
LARGEST_JSON = 2**28
ABOUT = "about"
"""The array of a bundle that holds its document as text."""
_DAMAGED = "is damaged: its content differs from what was written"


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> str:
    """Write an .npz atomically and return its digest. Equal arrays make equal files."""

    def write(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, values in arrays.items():
                entry = zipfile.ZipInfo(f"{name}.npy")  # with a fixed date
                with archive.open(entry, "w", force_zip64=True) as opened:
                    np.lib.format.write_array(opened, np.asarray(values), allow_pickle=False)

    return write_whole(path, write)


def load_arrays(path: Path, digest: str | None = None) -> dict[str, np.ndarray]:
    """Read an .npz; InputError if it is damaged or has another digest."""
    with _reading(path, "an array file") as file:
        if digest is not None and _digest_of_file(file) != digest:
            raise InputError(f"{path} {_DAMAGED}")
        return read_archive(file)


def load_json(path: Path) -> Any:
    """Read JSON; InputError if it is damaged."""
    with _reading(path, "a JSON file") as file:
        if os.fstat(file.fileno()).st_size > LARGEST_JSON:
            raise InputError(f"{path} is not an lcpo file: it has over {LARGEST_JSON:,} bytes")
        return json.loads(file.read())


def save_document(path: Path, schema: int, values: Mapping[str, Any]) -> None:
    """Write JSON with its schema and its digest, atomically."""
    save_bytes(path, document(schema, values))


def document(schema: int, values: Mapping[str, Any], indent: int | None = 1) -> bytes:
    """JSON with its schema and its digest."""
    body = {"schema": schema, **values}
    return json.dumps({**body, "digest": digest_of_json(body)}, indent=indent).encode()


def load_document(
    path: Path, schema: int, needed: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Read what `save_document` wrote; InputError if it is damaged or has another schema.

    `needed`: the types of required values, by name.
    """
    return _check_document(path, load_json(path), schema, needed or {})


def _check_document(
    path: Path, body: Any, schema: int, needed: Mapping[str, Any]
) -> dict[str, Any]:
    if not isinstance(body, dict) or "schema" not in body:
        raise InputError(f"{path} is damaged or not an lcpo file: it has no schema")
    if body["schema"] != schema:
        raise InputError(
            f"{path} has schema {body['schema']!r}, this version reads {schema}: "
            "use the version of lcpo that wrote it, or start again in another folder"
        )
    if body.pop("digest", None) != digest_of_json(body):
        raise InputError(f"{path} {_DAMAGED}")
    for name, kind in needed.items():
        if name not in body or not isinstance(body[name], kind):
            found = f"its {name} is {body[name]!r}" if name in body else f"it has no {name}"
            raise InputError(f"{path} is not an lcpo file: {found}")
    return body


def save_bundle(
    path: Path, schema: int, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write a document and arrays as one file, atomically, with the digest of each of them."""
    digests = {name: digest(array) for name, array in arrays.items()}
    text = document(schema, {**values, "arrays": digests}, None)
    save_arrays(path, {**arrays, ABOUT: np.frombuffer(text, np.uint8)})


def load_bundle(
    path: Path, schema: int, needed: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `save_bundle` wrote; InputError if a bit of it has changed."""
    body, arrays = load_about(path)
    values = _check_document(path, body, schema, {**needed, "arrays": dict})
    if values.pop("arrays") != {name: digest(array) for name, array in arrays.items()}:
        raise InputError(f"{path} {_DAMAGED}")
    return values, arrays


def load_about(path: Path, digest: str | None = None) -> tuple[Any, dict[str, np.ndarray]]:
    """The JSON of a bundle, unchecked, and its other arrays."""
    arrays = load_arrays(path, digest)
    try:
        return json.loads(arrays.pop(ABOUT).tobytes()), arrays
    except (KeyError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not an lcpo file: it does not describe its arrays") from error


def save_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    write_whole(path, lambda file: file.write(content))


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> str:
    """Let `write` fill a file, move it into place, and return its digest. Makes missing folders.

    File and name are on the disk when it returns. Only a regular file is replaced, not a folder, a
    link or a device (which root could replace).
    """
    _make_folder(path.parent)
    if (found := kind_of(path)) not in (None, REGULAR):
        raise InputError(f"{path} is a {found}: give the path of a regular file, or a new one")
    temporary = path.parent / f".{secrets.token_hex(8)}{UNFINISHED}"
    handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)  # less the user's umask
    try:
        with os.fdopen(handle, "w+b") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            digest = _digest_of_file(file)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _flush_folder(path.parent)
    return digest


def sweep(folder: Path, min_age: float = 0.0) -> None:
    """Delete half-written files of a folder, if they are older than `min_age` seconds."""
    for file in filter(is_unfinished, folder.glob(f".*{UNFINISHED}")):
        with contextlib.suppress(OSError):  # another process was faster
            if not min_age or time.time() - file.stat().st_mtime > min_age:
                file.unlink()


def is_unfinished(path: Path) -> bool:
    """Whether `write_whole` made a file; other programs use the same suffix."""
    return _UNFINISHED.fullmatch(path.name) is not None and kind_of(path) == REGULAR


def kind_of(path: Path) -> str | None:
    """What is at a path, in words; None for nothing. Links are not followed."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    return KINDS.get(stat.S_IFMT(mode), "special file")


def digest_of_json(value: Any) -> str:
    """A fingerprint of plain values, independent of the order of their names."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _digest_of_file(file: IO[bytes]) -> str:
    file.seek(0)
    found = hashlib.file_digest(file, "sha256").hexdigest()  # pyright: ignore[reportArgumentType]
    file.seek(0)
    return found


@contextlib.contextmanager
def _reading(path: Path, kind: str) -> Iterator[IO[bytes]]:
    """Open a file; InputError if it cannot be parsed, or is a pipe or device, which may not end."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{path} is not a regular file")
        with open(path, "rb") as file:
            yield file
    except InputError:
        raise
    except FileNotFoundError as error:
        raise MissingFile(f"{path} is missing") from error
    except Exception as error:  # parsers raise anything on arbitrary bytes
        text = " ".join(str(error).split()) or type(error).__name__
        short = text if len(text) <= 200 else f"{text[:200]}..."
        raise InputError(f"{path} is damaged or not {kind} ({short})") from error


def _make_folder(folder: Path) -> None:
    """Make a folder and its parents; their names are on the disk when it returns."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _flush_folder(folder.parent)


def _flush_folder(folder: Path) -> None:
    if hasattr(os, "O_DIRECTORY"):  # not on Windows
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def private_folder(path: Path) -> Path | None:
    """A folder for what only this user may change, made if needed.

    None if it cannot be used: others own it or can write to it, or a file is in its place.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = path.stat()
        is_mine = not hasattr(os, "getuid") or info.st_uid == os.getuid()
        is_mine &= os.name != "posix" or not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return path if is_mine and os.access(path, os.W_OK) else None
    except OSError:
        return None
