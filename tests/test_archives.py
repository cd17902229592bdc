"""Archives that claim more than they hold: refused before anything of them is read."""

from __future__ import annotations

import copy
import io
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lcpo
from lcpo.errors import InputError
from lcpo.run.store.files import load_arrays
from lcpo.straggler import workloads
from lcpo.straggler.workloads import formats as workload_files

SIZE, LEVELS = 2**18, 200


def npy(content: bytes) -> bytes:
    """A file of NumPy's with these bytes as its entries."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.frombuffer(content, np.uint8))
    return file.getvalue()


def nested(path: Path) -> None:
    """Every entry is an array that holds the next entry, and all of them the same bytes."""
    entries: list[tuple[zipfile.ZipInfo, bytes]] = []
    content = npy(bytes(SIZE))
    for level in reversed(range(LEVELS)):
        entry = zipfile.ZipInfo(f"x{level}.npy")
        entry.file_size = entry.compress_size = len(content)
        entry.CRC = zlib.crc32(content)
        record = entry.FileHeader() + content
        entries.append((entry, record))
        content = npy(record)
    whole = entries[-1][1]
    with zipfile.ZipFile(path, "w") as archive:
        assert archive.fp is not None
        archive.fp.write(whole)
        archive.start_dir, archive._didModify = len(whole), True  # pyright: ignore
        for entry, record in entries:
            entry.header_offset = whole.index(record)
            archive.filelist.append(entry)


def listed(path: Path, times: int) -> None:
    """One entry, many times."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", npy(bytes(SIZE)))
        archive.filelist += [copy.copy(archive.filelist[0]) for _ in range(times - 1)]


def many_zeros(path: Path) -> None:
    np.savez_compressed(path, *[np.zeros(2**22, np.uint8) for _ in range(80)])


def learner(path: Path) -> object:
    return lcpo.Learner.load(path)


READERS = {
    "arrays": load_arrays,
    "policy": lcpo.load,
    "learner": learner,
    "workload": lambda path: workloads.get(str(path)),
}
BOMBS: dict[str, Any] = {
    "nested": (nested, "hold|not a plain"),
    "listed": (lambda path: listed(path, 2000), "twice"),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("reader", READERS)
def test_no_entry_of_a_bomb_is_read(
    reader: str, bomb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was found: 200 nested entries took 1.2 GiB, and 60,000 equal ones minutes."""
    make, match = BOMBS[bomb]
    path = tmp_path / "a.npz"
    make(path)
    monkeypatch.setattr(workload_files, "MOST_UNPACKED", 2**20)
    opened: list[str] = []
    real = zipfile.ZipFile.open

    def watched(self: zipfile.ZipFile, name: Any, *more: Any, **rest: Any) -> Any:
        opened.append(name)
        return real(self, name, *more, **rest)

    monkeypatch.setattr(zipfile.ZipFile, "open", watched)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=match):
            READERS[reader](path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert opened == []
    assert peak < LEVELS * SIZE / 4


def test_a_compressed_workload_unpacks_to_so_much_and_no_more(tmp_path: Path) -> None:
    """Public data are compressed. Here each entry is small, and all together are not."""
    many_zeros(tmp_path / "a.npz")
    with pytest.raises(InputError, match=r"a\.npz is not an .* hold 335,\d+,\d+ bytes in"):
        workloads.get(str(tmp_path / "a.npz"))
    np.savez_compressed(tmp_path / "b.npz", size_ms=[1.0, 2.0], gap_ms=[3.0, 4.0])
    assert workloads.get(str(tmp_path / "b.npz")).length == 7.0


def test_nested_entries_are_what_they_are_said_to_be(tmp_path: Path) -> None:
    """A reader that looks at each of them alone finds nothing odd."""
    nested(tmp_path / "a.npz")
    assert (tmp_path / "a.npz").stat().st_size < 2 * SIZE
    with np.load(tmp_path / "a.npz") as archive:
        assert len(archive.files) == LEVELS
        assert min(len(archive[name]) for name in archive.files[::50]) >= SIZE
