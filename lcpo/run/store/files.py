"""Files that are there whole or not at all: .npz, JSON, bytes. No pickle, ever.

Of an array file the writer keeps the digest, and a reader who gives it knows that not a bit has
changed. A *document* is JSON that carries its schema and its own digest; a *bundle* is a document
and arrays in one file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from lcpo.archives import digest, read_archive
from lcpo.errors import InputError, MissingFile

UNFINISHED = ".part"
"""End of the name of a file that is being written. A kill leaves it; `sweep` finds it."""
_UNFINISHED = re.compile(rf"\.[0-9a-f]{{16}}{re.escape(UNFINISHED)}")
REGULAR = "regular file"
KINDS = {
    stat.S_IFREG: REGULAR, stat.S_IFDIR: "folder", stat.S_IFLNK: "symbolic link",
    stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}  # fmt: skip
LARGEST_JSON = 2**28
ABOUT = "about"
"""Of a bundle: the array with the text that says what the others are."""


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> str:
    """Write an .npz so that a reader sees the old file or the new one, never a part; its digest.

    Equal arrays make equal files: the date of the entries is fixed.
    """

    def write(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, values in arrays.items():
                entry = zipfile.ZipInfo(f"{name}.npy")
                with archive.open(entry, "w", force_zip64=True) as opened:
                    np.lib.format.write_array(opened, np.asarray(values), allow_pickle=False)

    return write_whole(path, write)


def load_arrays(path: Path, digest: str | None = None) -> dict[str, np.ndarray]:
    """Read an .npz; a damaged file, or one of another digest, gives an InputError that says so."""
    try:
        with _open_regular(path) as file:
            if digest is not None and _digest_of_file(file) != digest:
                raise InputError(f"{path} is damaged: it does not hold what was written")
            return read_archive(file)
    except InputError:
        raise
    except Exception as error:  # whatever foreign bytes make a parser raise
        raise InputError(f"{path} is damaged or no array file ({_short(error)})") from error


def save_json(path: Path, value: Any) -> None:
    """Write JSON atomically."""
    save_bytes(path, json.dumps(value, indent=1).encode())


def load_json(path: Path) -> Any:
    """Read JSON; a damaged file gives an InputError that says so."""
    try:
        with _open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > LARGEST_JSON:
                raise InputError(f"{path} is larger than {LARGEST_JSON:,} bytes: no file of ours")
            return json.loads(file.read())
    except InputError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged or no JSON file ({_short(error)})") from error


def save_document(path: Path, schema: int, values: Mapping[str, Any]) -> None:
    """Write JSON with its schema and its digest, atomically."""
    save_bytes(path, document(schema, values))


def document(schema: int, values: Mapping[str, Any]) -> bytes:
    """JSON with its schema and its digest."""
    body = {"schema": schema, **values}
    return json.dumps({**body, "digest": digest_of_json(body)}, indent=1).encode()


def load_document(
    path: Path, schema: int, needed: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Read what `save_document` wrote; InputError where it is damaged, or has another schema.

    `needed`: the kinds of values that it must have, by name.
    """
    return _check_document(path, load_json(path), schema, needed or {})


def _check_document(
    path: Path, body: Any, schema: int, needed: Mapping[str, Any]
) -> dict[str, Any]:
    if not isinstance(body, dict) or "schema" not in body:
        raise InputError(f"{path} is damaged or no file of ours: it names no schema")
    if body["schema"] != schema:
        raise InputError(
            f"{path} has schema {body['schema']!r}, this version reads {schema}: "
            "use the version of lcpo that wrote it, or start anew"
        )
    if body.pop("digest", None) != digest_of_json(body):
        raise InputError(f"{path} is damaged: it does not hold what was written")
    for name, kind in needed.items():
        if name not in body or not isinstance(body[name], kind):
            found = f"its {name} is {body[name]!r}" if name in body else f"it has no {name}"
            raise InputError(f"{path} is no file of ours: {found}")
    return body


def save_bundle(
    path: Path, schema: int, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write a document and arrays as one file, atomically, with the digest of each of them."""
    digests = {name: digest(array) for name, array in arrays.items()}
    body = {"schema": schema, **values, "arrays": digests}
    text = json.dumps({**body, "digest": digest_of_json(body)}).encode()
    save_arrays(path, {**arrays, ABOUT: np.frombuffer(text, np.uint8)})


def load_bundle(
    path: Path, schema: int, needed: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `save_bundle` wrote; InputError where a bit of it has changed."""
    arrays = load_arrays(path)
    try:
        body = json.loads(arrays.pop(ABOUT).tobytes())
    except (KeyError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is no file of ours: nothing says what it holds") from error
    values = _check_document(path, body, schema, {**needed, "arrays": dict})
    if values.pop("arrays") != {name: digest(array) for name, array in arrays.items()}:
        raise InputError(f"{path} is damaged: it does not hold what was written")
    return values, arrays


def save_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    write_whole(path, lambda file: file.write(content))


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> str:
    """Let `write` fill a file, then put it in its place; folders are made as needed; its digest.

    File and name are on the disk when it returns, whatever happens to the machine then. Only a
    regular file is replaced: not a folder, not a link, and not a device, which root could replace.
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


def unfinished(folder: Path) -> list[Path]:
    """The files of a folder that are being written, or that a kill left half-written."""
    return [file for file in folder.glob(f".*{UNFINISHED}") if is_unfinished(file)]


def sweep(folder: Path) -> None:
    """Delete what a kill left half-written in a folder."""
    for file in unfinished(folder):
        file.unlink(missing_ok=True)


def is_unfinished(path: Path) -> bool:
    """Whether `write_whole` was writing a file; other programs, too, have some that end so."""
    return _UNFINISHED.fullmatch(path.name) is not None and kind_of(path) == REGULAR


def kind_of(path: Path) -> str | None:
    """What a path holds, in words; None: nothing. A link is a link, wherever it leads."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    return KINDS.get(stat.S_IFMT(mode), "special file")


def digest_of_json(value: Any) -> str:
    """A fingerprint of plain values, whatever the order of their names."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _digest_of_file(file: IO[bytes]) -> str:
    file.seek(0)
    found = hashlib.file_digest(file, "sha256").hexdigest()  # pyright: ignore[reportArgumentType]
    file.seek(0)
    return found


def _open_regular(path: Path) -> IO[bytes]:
    """Open a file to read it. A pipe or a device, which may never end, is refused."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{path} is no regular file")
        return open(path, "rb")
    except FileNotFoundError as error:
        raise MissingFile(f"{path} is missing") from error


def _make_folder(folder: Path) -> None:
    """With its parents; their names, too, are on the disk when it returns."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _flush_folder(folder.parent)


def _flush_folder(folder: Path) -> None:
    """A rename lasts once the folder is on the disk."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows has no such thing
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _short(error: Exception) -> str:
    """One line, however long the text."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}..."
