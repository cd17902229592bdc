"""Files on bad days: whole or not at all, of the right size, and nobody else's."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcpo.errors import InputError, MissingFile
from lcpo.run.plan import budget
from lcpo.run.store import checkpoint, files, results
from lcpo.run.store.files import (
    load_arrays,
    load_document,
    load_json,
    save_arrays,
    save_bytes,
    save_document,
)
from lcpo.run.store.layout import RunFiles


def test_arrays_come_back(tmp_path: Path) -> None:
    """Of every kind, under every name: `file` and `allow_pickle` are arguments of NumPy's own."""
    arrays: dict[str, np.ndarray] = {
        "file": np.arange(6.0).reshape(2, 3), "allow_pickle": np.array(True),
        "empty": np.zeros((0, 3), np.int8), "columns": np.asfortranarray(np.eye(3)),
        ".agent[0].w": np.full((), 3.0, np.float32), "text": np.array(["a", "bc"]),
    }  # fmt: skip
    digest = save_arrays(tmp_path / "a.npz", arrays)
    found = load_arrays(tmp_path / "a.npz", digest)
    assert list(found) == list(arrays)
    for name, values in arrays.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values)
    assert save_arrays(tmp_path / "b.npz", arrays) == digest, "equal arrays make equal files"
    with np.load(tmp_path / "a.npz") as other:  # anybody can read them
        np.testing.assert_array_equal(other["file"], arrays["file"])


def test_another_digest_is_refused(tmp_path: Path) -> None:
    digest = save_arrays(tmp_path / "a.npz", {"x": np.zeros(3)})
    save_arrays(tmp_path / "a.npz", {"x": np.ones(3)})
    with pytest.raises(InputError, match=r"a\.npz is damaged: its content differs from what"):
        load_arrays(tmp_path / "a.npz", digest)
    with pytest.raises(MissingFile, match=r"b\.npz is missing"):
        load_arrays(tmp_path / "b.npz")


def header(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    "shape", ["(1000000000000,)", f"({2**62}, {2**62})", "(-1,)", "(2,)", "('a',)"]
)
def test_no_more_memory_than_the_file_has_bytes(tmp_path: Path, shape: str) -> None:
    """A header that claims a terabyte, or other nonsense."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", header(shape) + bytes(8))
    with pytest.raises(InputError, match=r"a\.npz is damaged"):
        load_arrays(tmp_path / "a.npz")


def test_compressed_arrays_are_refused(tmp_path: Path) -> None:
    """A few kilobytes could unfold to gigabytes."""
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(10**6))
    with pytest.raises(InputError, match="not a plain array"):
        load_arrays(tmp_path / "a.npz")


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.npz")
    with pytest.raises(InputError, match="not a regular file"):
        load_arrays(tmp_path / "a.npz")
    with pytest.raises(InputError, match="not a regular file"):
        load_json(tmp_path / "a.npz")


@pytest.mark.parametrize("text", ["", "{", "[" * 10**5, '"\\ud800', "\0", "{} x"])
def test_damaged_json_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match=r"a\.json is damaged or not a JSON"):
        load_json(tmp_path / "a.json")


def test_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    save_document(path, 7, {"b": [1, 2.5, None], "a": "ü"})
    assert load_document(path, 7, {"a": str}) == {"schema": 7, "b": [1, 2.5, None], "a": "ü"}
    good = load_json(path)
    for change, match in (
        ({**good, "b": [1, 2.25, None]}, "differs from what was written"),
        ({k: v for k, v in good.items() if k != "digest"}, "differs from what was written"),
        ({**good, "schema": 8}, "schema 8, this version reads 7"),
        ({"a": 1}, "has no schema"),
        ([good], "has no schema"),
    ):
        path.write_text(json.dumps(change))
        with pytest.raises(InputError, match=match):
            load_document(path, 7)
    save_document(path, 7, {"a": 1})
    with pytest.raises(InputError, match="it has no b"):
        load_document(path, 7, {"a": int, "b": int})
    with pytest.raises(InputError, match="its a is 1"):
        load_document(path, 7, {"a": str})
    monkeypatch.setattr(files, "LARGEST_JSON", 10)
    with pytest.raises(InputError, match="it has over 10 bytes"):
        load_document(path, 7)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_the_users_umask_counts(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        save_bytes(tmp_path / "folder/a", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "folder/a").stat().st_mode) == 0o666 & ~umask


def test_names_are_on_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the rename the folder is flushed, and so is the parent of every new folder."""
    flushed: list[str] = []
    order: list[str] = []
    fsync, replace = os.fsync, os.replace

    def record_flush(handle: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{handle}"))
        order.append("flush")
        fsync(handle)

    def record_rename(*paths: Any) -> None:
        order.append("rename")
        replace(*paths)

    monkeypatch.setattr(os, "fsync", record_flush)
    monkeypatch.setattr(os, "replace", record_rename)
    save_bytes(tmp_path / "new/a", b"x")
    assert flushed[0] == str(tmp_path), "the new folder's name"
    assert flushed[1].endswith(files.UNFINISHED), "the content"
    assert flushed[2] == str(tmp_path / "new"), "the file's name"
    assert order == ["flush", "flush", "rename", "flush"]


def test_nothing_half_written_stays(tmp_path: Path) -> None:
    def fail(file: Any) -> None:
        file.write(b"half")
        raise OSError("no space left")

    save_bytes(tmp_path / "a", b"old")
    with pytest.raises(OSError, match="no space"):
        files.write_whole(tmp_path / "a", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


GROUPS = {
    "version 2": (
        "0::/job/step\n",
        {"sys/fs/cgroup/job/step": ("max", "5", 0), "sys/fs/cgroup/job": ("1000", "700", 50)},
        [350],
    ),
    "version 1": (
        "5:cpu:/x\n4:hugetlb,memory:/box\n",
        {"sys/fs/cgroup/memory/box": ("900", "100", 0), "sys/fs/cgroup/memory": ("2000", "500", 0)},
        [800, 1500],
    ),
    "a container": ("0::/of/the/host\n", {"sys/fs/cgroup": ("600", "200", 0)}, [400]),
    "none": ("", {}, []),
}


@pytest.mark.parametrize("name", GROUPS)
def test_the_memory_of_a_container_counts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, groups, free = GROUPS[name]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(listed)
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    if listed.startswith("0:"):
        names = ("memory.max", "memory.current", "inactive_file")
    for folder, (limit, used, cache) in groups.items():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / names[0]).write_text(f"{limit}\n")
        (tmp_path / folder / names[1]).write_text(f"{used}\n")
        (tmp_path / folder / "memory.stat").write_text(f"anon 3\n{names[2]} {cache}\n")
    assert budget._free_of_groups(tmp_path) == free
    monkeypatch.setattr(budget, "_free_of_groups", lambda: [12345])
    assert budget.available_bytes() == 12345, "the smallest limit holds"


def test_a_commit_that_is_told_comes_before_the_one_that_git_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A copy on a cluster may have been made with the history of another commit."""
    monkeypatch.setenv("LCPO_COMMIT", "0123456789ab")
    assert results.provenance()["commit"] == "0123456789ab"


def test_a_checkpoint_is_deleted_without_what_others_put_beside_it(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    ours = [run.checkpoint.manifest, run.checkpoint.state(3), run.checkpoint.segment(0, 1, 2)]
    for path in ours:
        save_bytes(path, b"ours")
    checkpoint.drop(run)
    assert not run.checkpoint.folder.exists()
    for path in (*ours, run.checkpoint.folder / "thesis.npz"):
        save_bytes(path, b"mine")
    checkpoint.drop(run)
    assert [path.name for path in run.checkpoint.folder.iterdir()] == ["thesis.npz"]
