"""The event log: what was acknowledged is there; what is damaged is refused, with its place."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcpo.errors import InputError
from lcpo.live import log as logs
from lcpo.live import segments
from lcpo.live.log import Log, NotWritten, read
from lcpo.live.records import HEADER, Damage, frame, pack, parse, unpack
from lcpo.run.store import files

SMALL = 400
"""Bytes of a segment: a few records each."""


def fill(folder: Path, count: int, first: int = 1, **options: Any) -> list[bytes]:
    """Append records with different lengths, and return their payloads."""
    payloads = [pack({"number": n, "text": "x" * (n % 7)}) for n in range(first, first + count)]
    with Log(folder, segment_bytes=SMALL, **options) as log:
        for number, payload in enumerate(payloads, start=first):
            assert log.append(1 + number % 3, payload) == number
    return payloads


def payloads(folder: Path, after: int = 0) -> list[bytes]:
    return [record.payload for record in read(folder, after)]


def last_file(folder: Path) -> Path:
    return max(folder.glob("*.log"))


def test_records_come_back_in_order_from_any_sequence_on(tmp_path: Path) -> None:
    wrote = fill(tmp_path, 30)
    wrote += fill(tmp_path, 20, first=31)
    found = list(read(tmp_path))
    assert [(r.sequence, r.kind) for r in found] == [(n, 1 + n % 3) for n in range(1, 51)]
    assert [r.payload for r in found] == wrote
    assert len(list(tmp_path.glob("*.log"))) > 3
    for after in range(51):
        assert payloads(tmp_path, after) == wrote[after:]
    seen: list[int] = []
    with Log(tmp_path, lambda r: seen.append(r.sequence), after=44) as log:
        assert (log.last, log.cut) == (50, None)
    assert seen == [45, 46, 47, 48, 49, 50]


def test_several_events_are_written_at_once(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        assert log.write([(1, b"a"), (2, b"b"), (3, b"")]) == 3
        assert log.append(1, b"d") == 4
    assert payloads(tmp_path) == [b"a", b"b", b"", b"d"]


def test_values_and_arrays_survive_packing() -> None:
    arrays: dict[str, np.ndarray] = {
        "obs": np.array([1.5, -0.0, 3e38], np.float32),
        "sums": np.array([[0.1], [1e300]]),
        "action": np.array([2, 0], np.int32),
        "count": np.array(2**40),
        "flags": np.array([True, False]),
        "empty": np.zeros((0, 3), np.float32),
    }
    plain = {"reward": 0.1 + 0.2, "id": "ü-1", "none": None, "list": [1, 2.5, "x"], "yes": True}
    found = unpack(pack({**plain, **arrays}))
    assert {name: found[name] for name in plain} == plain
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()
    assert found.keys() == plain.keys() | arrays.keys()
    assert unpack(pack(plain)) == plain
    for wrong in (b"", b"\0\0", pack(plain)[:-1], pack(arrays) + b"\0"):
        with pytest.raises(Damage):
            unpack(wrong)


def test_a_log_cut_anywhere_in_its_last_record_loses_only_that(tmp_path: Path) -> None:
    wrote = fill(tmp_path / "whole", 22)
    content = last_file(tmp_path / "whole").read_bytes()
    size = HEADER + len(wrote[-1])
    for left in range(size):
        folder = tmp_path / str(left)
        shutil.copytree(tmp_path / "whole", folder)
        last_file(folder).write_bytes(content[: len(content) - size + left])
        assert payloads(folder) == wrote[:-1]
        with Log(folder) as log:
            assert log.last == 21
            assert log.cut == ((last_file(folder), len(content) - size, left) if left else None)
            assert log.append(7, b"new") == 22
        assert payloads(folder) == [*wrote[:-1], b"new"]


def test_zeros_at_the_end_are_an_unfinished_record(tmp_path: Path) -> None:
    """Some file systems leave them after a power cut."""
    wrote = fill(tmp_path, 3)
    with last_file(tmp_path).open("ab") as file:
        file.write(bytes(100))
    with Log(tmp_path) as log:
        assert log.cut is not None
        assert (log.last, log.cut.size) == (3, 100)
        assert "100 bytes" in str(log.cut)
    assert payloads(tmp_path) == wrote


def test_no_flipped_bit_is_overlooked(tmp_path: Path) -> None:
    fill(tmp_path, 40)
    rng = random.Random(0)
    paths = sorted(p for p in tmp_path.iterdir() if p.suffix in (".log", ".json"))
    last_records = 0
    for _ in range(300):
        path = rng.choice(paths)
        content = path.read_bytes()
        byte, bit = rng.randrange(len(content)), rng.randrange(8)
        damaged = bytearray(content)
        damaged[byte] ^= 1 << bit
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=path.name) as refused:
            Log(tmp_path)
        if path.suffix == ".log":
            offset = int(str(refused.value).split("offset ")[1].split(":")[0])
            assert offset <= byte < offset + 100, (byte, str(refused.value))
            last_records += path == paths[-2]
        with pytest.raises(InputError, match=path.name):
            list(read(tmp_path))
        path.write_bytes(content)
    assert last_records > 3
    Log(tmp_path).close()


def names(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def swap(folder: Path) -> str:
    second, third = names(folder)[1:3]
    one, other = second.read_bytes(), third.read_bytes()
    second.write_bytes(other)
    third.write_bytes(one)
    return f"{second.name} is damaged at offset 24"


def lose(place: int) -> Callable[[Path], str]:
    def spoil(folder: Path) -> str:
        before = names(folder)[place - 1]
        names(folder)[place].unlink()
        return f"{before.name} is damaged at offset"

    return spoil


def lose_first(folder: Path) -> str:
    names(folder)[0].unlink()
    return f"begins with sequence {int(names(folder)[0].stem)}, and 1 is needed"


def foreign(folder: Path) -> str:
    fill(folder / "other", 40)
    path = names(folder)[2]
    shutil.copy(names(folder / "other")[2], path)
    return f"{path.name} is damaged at offset 8: it belongs to the log"


def earlier_branch(folder: Path) -> str:
    """A segment of a copy of the same log, which went on differently."""
    copy = folder / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("copy"))
    for path in names(copy)[3:]:
        path.unlink()
    content = names(copy)[2].read_bytes()
    first = int(names(copy)[2].stem)
    record = parse(content, segments.START, first, int.from_bytes(content[36:40], "little"))
    names(copy)[2].write_bytes(content[: record[1]])
    with Log(copy, segment_bytes=SMALL) as log:
        while len(names(copy)) == 3:
            log.append(1, pack({"number": 0, "text": ""}))
    shutil.copy(names(copy)[2], names(folder)[2])
    return "is damaged at offset"


def stranger(folder: Path) -> str:
    (folder / "old.log").write_text("x")
    return "old.log is not a segment"


def no_id(folder: Path) -> str:
    (folder / "log.json").unlink()
    return "without log.json"


def twice(folder: Path) -> str:
    path = names(folder)[-1]
    start = segments.START
    content = path.read_bytes()
    path.write_bytes(content + content[start:])
    return f"{path.name} is damaged at offset {len(content)}"


SPOIL = [swap, lose(1), lose(2), lose(-1), lose_first, foreign, earlier_branch, stranger, no_id,
         twice]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SPOIL)))
def test_wrong_segments_are_refused(tmp_path: Path, number: int) -> None:
    fill(tmp_path, 40)
    message = SPOIL[number](tmp_path)
    contents = {path: path.read_bytes() for path in names(tmp_path)}
    with pytest.raises(InputError) as refused:
        Log(tmp_path)
    assert message in str(refused.value)
    assert contents == {path: path.read_bytes() for path in names(tmp_path)}


def test_a_checkpoint_that_is_ahead_of_the_log_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, 9)
    with pytest.raises(InputError, match="ends with sequence 9, and 10 is needed"):
        Log(tmp_path, after=10)
    with Log(tmp_path, after=9) as log:
        assert log.last == 9


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        log.append(1, b"a")
        with pytest.raises(InputError, match="in use by process"):
            Log(tmp_path)
        code = "import sys; from pathlib import Path; from lcpo.live.log import Log; Log(Path('.'))"
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
        assert b"is in use by process" in done.stderr
        assert log.append(1, b"b") == 2
        assert payloads(tmp_path) == [b"a", b"b"]  # reading needs no lock
    with pytest.raises(NotWritten, match="closed"):
        log.append(1, b"c")
    Log(tmp_path).close()


class FullDisk:
    """Every write, and every new file, fails from the n-th one on, after some of its bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, good: int, partly: int) -> None:
        self.left, self.partly, self.write = good, partly, os.write
        self.whole = files.write_whole
        monkeypatch.setattr(logs.os, "write", self.fake_write)
        monkeypatch.setattr(files, "write_whole", self.fake_file)

    def fake_write(self, file: int, content: bytes) -> int:
        self.left -= 1
        if self.left >= 0:
            return self.write(file, content)
        if self.left == -1 and self.partly:
            return self.write(file, content[: self.partly])
        raise OSError(errno.ENOSPC, "No space left on device")

    def fake_file(self, *arguments: Any) -> str:
        self.left -= 1
        if self.left >= 0:
            return self.whole(*arguments)
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("partly", [0, 1, HEADER, HEADER + 5])
def test_a_full_disk_loses_nothing_that_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partly: int
) -> None:
    payload, failed = b"some payload", 0
    for good in range(40):
        folder, acknowledged = tmp_path / str(good), []
        with Log(folder, segment_bytes=SMALL) as log:
            with monkeypatch.context() as patch:
                FullDisk(patch, good, partly)
                for number in range(30):
                    try:
                        acknowledged.append(log.append(1, payload + bytes([number])))
                    except NotWritten as error:
                        failed += "No space left" in str(error)
            assert [r.sequence for r in read(folder)] == acknowledged
            assert log.append(1, b"space again") == len(acknowledged) + 1
        assert len(payloads(folder)) == len(acknowledged) + 1
        with Log(folder, segment_bytes=SMALL) as log:
            assert (log.last, log.cut) == (len(acknowledged) + 1, None)
    assert failed > 400


def test_a_write_that_cannot_be_undone_ends_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with Log(tmp_path) as log:
        log.append(1, b"a")
        with monkeypatch.context() as patch:
            FullDisk(patch, 0, 5)
            patch.setattr(logs.os, "ftruncate", fails)
            with pytest.raises(NotWritten, match="No space"):
                log.append(1, b"b")
        with pytest.raises(NotWritten, match="could not be undone"):
            log.append(1, b"c")
    with Log(tmp_path) as log:
        assert log.cut is not None
        assert (log.last, log.cut.size) == (1, 5)


@pytest.mark.learn
def test_the_kernels_limit_on_a_file_is_a_full_disk_too(tmp_path: Path) -> None:
    """Real writes that the kernel cuts short, in a process with a limit on the size of files."""
    code = """
import resource, signal
from pathlib import Path
from lcpo.live.log import Log, NotWritten
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Log(Path(".")) as log:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    count = 0
    try:
        while True:
            log.append(1, b"x" * 77)
            count += 1
    except NotWritten as error:
        print(count, log.num_bytes, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    count, size, message = done.stdout.split(" ", 2)
    assert "File too large" in message
    assert int(count) == (2000 - segments.START) // (HEADER + 77)
    assert int(size) == segments.START + int(count) * (HEADER + 77)
    assert len(payloads(tmp_path)) == int(count)


def test_the_next_segment_waits_for_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Log(tmp_path, segment_bytes=SMALL) as log:
        while len(names(tmp_path)) == 1:
            log.append(1, b"x" * 50)
        last = log.last
        while log._position.offset < SMALL:
            log.append(1, b"x" * 50)
        with monkeypatch.context() as patch:
            FullDisk(patch, 0, 0)
            with pytest.raises(NotWritten):
                log.append(1, b"x")
        assert len(names(tmp_path)) == 2
        assert log.append(1, b"y") > last
        assert len(names(tmp_path)) == 3


@pytest.mark.parametrize("left", [0, 1, HEADER - 1])
def test_a_seal_that_was_not_finished_is_completed(tmp_path: Path, left: int) -> None:
    wrote = fill(tmp_path, 30)
    path = names(tmp_path)[1]
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - HEADER + left])
    assert payloads(tmp_path) == wrote
    with Log(tmp_path) as log:
        assert log.cut is None
    assert path.read_bytes() == content


def test_segments_before_a_checkpoint_are_dropped(tmp_path: Path) -> None:
    wrote = fill(tmp_path, 40)
    firsts = [int(path.stem) for path in names(tmp_path)]
    with Log(tmp_path, after=20) as log:
        log.drop(firsts[2] - 2)
        assert log.first == firsts[1]
        log.drop(firsts[2] - 1)
        assert log.first == firsts[2]
        log.drop(log.last)
        assert names(tmp_path) == [tmp_path / f"{firsts[-1]:020}.log"]
        assert log.append(1, b"new") == 41
        assert log.num_bytes == names(tmp_path)[0].stat().st_size
    assert payloads(tmp_path, 40) == [b"new"]
    assert payloads(tmp_path, firsts[-1] - 1) == [*wrote[firsts[-1] - 1 :], b"new"]
    with pytest.raises(InputError, match=f"begins with sequence {firsts[-1]}, and 21 is needed"):
        read(tmp_path, 20)


def test_power_durability_flushes_before_it_acknowledges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []  # sizes of the file on the disk
    monkeypatch.setattr(logs, "_sync", lambda file: flushed.append(os.fstat(file).st_size))
    with Log(tmp_path, durability="power") as log:
        for _ in range(5):
            log.append(1, b"x")
            assert flushed[-1] == log.num_bytes
        assert len(flushed) == 6
        acknowledged: list[int] = []

        def work() -> None:
            for _ in range(50):
                acknowledged.append(log.append(1, b"y"))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert flushed[-1] == log.num_bytes
    assert sorted(acknowledged) == list(range(6, 206))
    assert len(payloads(tmp_path)) == 205
    with Log(tmp_path) as log:
        flushed.clear()
        log.append(1, b"z")
    assert not flushed


def test_a_failed_flush_ends_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with Log(tmp_path, durability="power") as log:
        log.append(1, b"a")
        with monkeypatch.context() as patch:
            patch.setattr(logs, "_sync", fails)
            with pytest.raises(NotWritten, match="Input/output error"):
                log.append(1, b"b")
        with pytest.raises(NotWritten, match="could not be flushed"):
            log.append(1, b"c")


def test_flushes_are_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written during a flush needs one more, however many threads wait for it."""
    busy, go_on, flushes = threading.Event(), threading.Event(), []

    def slow(file: int) -> None:
        flushes.append(os.fstat(file).st_size)
        busy.set()
        assert go_on.wait(30)

    with Log(tmp_path, durability="power") as log:
        monkeypatch.setattr(logs, "_sync", slow)
        threads = [threading.Thread(target=log.append, args=(1, b"x"))]
        threads[0].start()
        assert busy.wait(30)
        threads += [threading.Thread(target=log.append, args=(1, b"x")) for _ in range(8)]
        for thread in threads[1:]:
            thread.start()
        while log.last < 9:
            pass
        go_on.set()
        for thread in threads:
            thread.join()
        assert len(flushes) == 2


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    for options in ({"durability": "disk"}, {"segment_bytes": 3}, {"after": -1}):
        with pytest.raises(InputError, match=next(iter(options))):
            Log(tmp_path / "log", **options)  # pyright: ignore
    assert not (tmp_path / "log").exists()
    with pytest.raises(InputError, match="not the folder of a log"):
        read(tmp_path / "log")
    with Log(tmp_path) as log:
        for kind in (0, 256, -1):
            with pytest.raises(InputError, match="kind"):
                log.append(kind, b"")
        assert log.last == 0


def test_an_error_while_replaying_frees_the_log(tmp_path: Path) -> None:
    fill(tmp_path, 3)

    def fails(_: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        Log(tmp_path, fails)
    Log(tmp_path).close()


def test_a_record_of_another_place_is_damage() -> None:
    content, chain = frame(5, 1, b"abc", 77)
    record, end, check = parse(content, 0, 5, 77)
    assert (record, end, check) == ((5, 1, b"abc"), len(content), chain)
    for sequence, before in ((6, 77), (5, 78)):
        with pytest.raises(Damage):
            parse(content, 0, sequence, before)


KILLED = """
import sys
from pathlib import Path
from lcpo.live.log import Log
log = Log(Path("."), segment_bytes=400)
print(log.last, flush=True)
while True:
    print(log.append(1, b"x" * (log.last % 50)), flush=True)
"""


@pytest.mark.learn
def test_what_a_killed_writer_acknowledged_is_there(tmp_path: Path) -> None:
    rng, last = random.Random(0), 0
    for _ in range(10):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(rng.randrange(1, 300)):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        told = process.stdout.read().splitlines()
        process.wait()
        last = int(told[-1]) if told and told[-1] else last
        process.stdout.close()
        found = [record.sequence for record in read(tmp_path)]
        assert found == list(range(1, len(found) + 1))
        assert len(found) in (last, last + 1)
