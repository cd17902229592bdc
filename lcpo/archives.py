"""Reads untrusted archives of arrays (.npz): no pickle, and a limit on memory."""

from __future__ import annotations

import hashlib
import math
import os
import zipfile
from collections.abc import Sequence
from typing import IO

import numpy as np


def digest(values: np.ndarray) -> str:
    """A fingerprint of an array."""
    return hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()


def read_archive(file: IO[bytes], most_unpacked: int = 0) -> dict[str, np.ndarray]:
    """The arrays in an open .npz file, by name.

    The sizes that entries declare are added up before the first is read: entries may overlap, or
    be listed many times. The sum may not exceed the size of the file or `most_unpacked` bytes,
    whichever is larger. If `most_unpacked` is 0, entries must not be compressed. Damaged files may
    raise anything: see `load_arrays` of `lcpo.run.store.files`.
    """
    most = max(os.fstat(file.fileno()).st_size, most_unpacked)
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        _check(entries, most, is_plain=most_unpacked == 0)
        return {e.filename.removesuffix(".npy"): _read(archive, e) for e in entries}


def _check(entries: Sequence[zipfile.ZipInfo], most: int, is_plain: bool) -> None:
    for entry in entries:
        packed = is_plain and entry.compress_type != zipfile.ZIP_STORED
        if packed or not entry.filename.endswith(".npy"):
            raise ValueError(f"{entry.filename} is not a plain array")
    if len({entry.filename for entry in entries}) < len(entries):
        raise ValueError(f"it lists some of its {len(entries):,} entries twice")
    total = sum(max(entry.file_size, entry.compress_size) for entry in entries)
    if total > most:
        raise ValueError(
            f"its entries hold {total:,} bytes in total, more than the limit of {most:,}"
        )


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    """An array whose size matches its entry."""
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read_header(file)
        size = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or min(shape, default=0) < 0 or not 0 <= size <= entry.file_size:
            raise ValueError(f"{entry.filename} claims to be {dtype}{list(shape)}")
        content = file.read()  # to the end of the entry, which checks its sum
        if len(content) != size:
            raise ValueError(f"{entry.filename} is not of {size} bytes")
    return np.frombuffer(bytearray(content), dtype).reshape(shape, order="F" if fortran else "C")
