"""A durable, append-only log of events, with one writer.

    with Log(folder, apply=replay_one) as log:        # apply gets the records that are there
        sequence = log.append(kind, pack({"reward": 1.0}))

When `append` returns, the record is in the kernel: it survives the end of the process, `kill -9`
included. With `durability="power"` it is on the disk, too; threads that append at the same time
share one flush (group commit).

A record that was not written to its end is cut when the log is opened: it was never acknowledged.
Anything else that does not match its checksum, its place or its log raises InputError with file and
offset. If a write fails, as on a full disk, `append` raises `NotWritten`, and the log is as before.
"""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NoReturn

from lcpo import values
from lcpo.errors import InputError, RunError
from lcpo.live.records import LARGEST, SEAL, Record, frame
from lcpo.live.segments import (
    START,
    Cut,
    Position,
    Scan,
    Segment,
    damaged,
    list_segments,
    log_id,
    make_log,
    make_segment,
    seal,
)
from lcpo.run.store.files import sweep
from lcpo.run.store.lock import locked

try:
    from fcntl import F_FULLFSYNC, fcntl  # pyright: ignore  # only there does it reach the disk
except ImportError:  # not macOS
    fcntl = F_FULLFSYNC = None

Durability = Literal["process", "power"]
SEGMENT = 2**24
"""Bytes after which the next segment starts."""


class NotWritten(RunError):
    """An event that is not in the log, and must not be acknowledged."""


class Log:
    """The writer of a log. Threads may share it."""

    def __init__(
        self,
        folder: Path,
        apply: Callable[[Record], object] | None = None,
        *,
        after: int = 0,
        durability: Durability = "process",
        segment_bytes: int = SEGMENT,
    ) -> None:
        """Open a log, or start one; InputError if it is damaged or another process writes it.

        Args:
          folder: of the log alone.
          apply: gets every record after `after`, in order, before the log can be written.
          after: the sequence up to which records are not needed any more: that of a checkpoint.
          durability: "process" survives the end of the process, "power" also a power cut.
          segment_bytes: when to start the next segment.
        """
        if durability not in ("process", "power"):
            values.refuse("durability", durability, "'process' or 'power'")
        self.folder, self.durability, self.cut = folder, durability, None
        self._segment_bytes = values.whole("segment_bytes", segment_bytes, START + 1)
        self._lock, self._sync_lock = threading.Lock(), threading.Lock()
        self._broken: str | None = None
        self._file = -1
        self._open = contextlib.ExitStack()
        try:
            self._open.enter_context(locked(folder, warnings.warn))
            self._recover(apply, values.whole("after", after, 0, 2**63))
        except BaseException:
            self.close()
            raise

    cut: Cut | None
    """What was cut from the end of the log when it was opened."""

    @property
    def last(self) -> int:
        """Sequence of the newest record; 0 if there is none."""
        return self._position.sequence - 1

    @property
    def first(self) -> int:
        """Sequence of the oldest record that was not dropped."""
        return self._segments[0].first

    @property
    def num_bytes(self) -> int:
        """Bytes of all segments."""
        with self._lock:  # `drop` deletes files
            return sum(segment.path.stat().st_size for segment in self._segments)

    def append(self, kind: int, payload: bytes) -> int:
        """Write one event and return its sequence. Raises NotWritten if it could not."""
        sequence = self.write([(kind, payload)])
        self.commit(sequence)
        return sequence

    def write(self, events: Sequence[tuple[int, bytes]]) -> int:
        """Write (kind, payload) of several events at once; returns the sequence of the last one.

        They may be acknowledged after `commit`.
        """
        for kind, payload in events:
            if not SEAL < kind < 256 or len(payload) > LARGEST:
                values.refuse("kind, bytes", (kind, len(payload)), f"1 to 255, up to {LARGEST:,}")
        with self._lock:
            self.check_usable()
            if self._position.offset >= self._segment_bytes:
                self._start_next()
            start, frames = self._position, []
            sequence, chain = start.sequence, start.chain
            for kind, payload in events:
                content, chain = frame(sequence, kind, payload, chain)
                frames.append(content)
                sequence += 1
            content = b"".join(frames)
            self._write(content, Position(sequence, chain, start.offset + len(content)))
        return sequence - 1

    def commit(self, sequence: int) -> None:
        """Wait until the events up to a sequence are as durable as the log promises."""
        if self.durability != "power":
            return
        self.flush(sequence)

    def flush(self, sequence: int) -> None:
        """Wait until the events up to a sequence are on the disk, whatever the log promises.

        Raises NotWritten if that fails. Threads that wait at the same time share one flush.
        """
        with self._sync_lock:
            with self._lock:
                if self._synced >= sequence:
                    return
                self.check_usable()
                file, written = os.dup(self._file), self.last  # the next segment closes the other
            try:
                self._flush(file)
                self._synced = max(self._synced, written)
            finally:
                os.close(file)

    def check_usable(self) -> None:
        """Raise NotWritten if the log is closed, or was left with a write that failed."""
        if self._broken is not None:
            raise NotWritten(f"the log in {self.folder} cannot be written: {self._broken}")

    def drop(self, through: int) -> None:
        """Delete the segments that hold no record after `through`: a checkpoint replaces them."""
        with self._lock:
            while len(self._segments) > 1 and self._segments[1].first <= through + 1:
                self._segments[0].path.unlink(missing_ok=True)  # the oldest first: no gap arises
                del self._segments[0]

    def close(self) -> None:
        """End writing; another process may then open the log."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file, self._broken = -1, "it is closed"
        self._open.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _recover(self, apply: Callable[[Record], object] | None, after: int) -> None:
        sweep(self.folder)
        log, segments = _find(self.folder, make=after == 0)
        if not segments and after == 0:
            segments = [make_segment(self.folder, log, 1, 0)]
        scan = _scan(self.folder, segments, after)
        for record in scan:
            if apply is not None and record.sequence > after:
                apply(record)
        assert scan.end is not None
        if scan.end.sequence <= after:
            last = f"the log ends with sequence {scan.end.sequence - 1}"
            raise damaged(segments[-1].path, scan.end.offset, f"{last}, and {after} is needed")
        for segment, place in scan.unsealed:
            with contextlib.suppress(OSError):  # the seal only protects the next segment's name
                os.truncate(segment.path, place.offset)
                with open(segment.path, "ab", buffering=0) as file:
                    file.write(seal(place))
        self._id, self._segments, self._position = log, segments, scan.end
        self._last, self._synced, self.cut = scan.last, scan.end.sequence - 1, scan.cut
        self._file = os.open(segments[-1].path, os.O_WRONLY | os.O_APPEND)
        os.ftruncate(self._file, scan.end.offset)
        if self.durability == "power":
            _sync(self._file)

    def _write(self, content: bytes, end: Position) -> None:
        """Write at the end of the segment, or restore it and raise."""
        try:
            _write_all(self._file, content)
            self._position, self._last = end, end.chain
        except BaseException as error:
            if self._position is not end:
                self._undo()
            if isinstance(error, OSError):
                _refuse(self.folder, error)
            raise

    def _undo(self) -> None:
        """Remove what a failed write left. If that fails, too, the next opening cuts it."""
        try:
            os.ftruncate(self._file, self._position.offset)
        except OSError as error:
            self._broken = f"a failed write could not be undone ({error.strerror})"

    def _start_next(self) -> None:
        """The next segment; on a full disk, the old one stays in use."""
        old, place = self._file, self._position
        self._flush(old)  # what follows must not reach the disk before it
        try:
            made = make_segment(self.folder, self._id, place.sequence, self._last)
            self._file = os.open(made.path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            _refuse(self.folder, error)
        self._segments.append(made)
        self._position = Position(place.sequence, made.chain, START)
        self._synced = place.sequence - 1
        with contextlib.suppress(OSError):  # an incomplete seal is completed at the next opening
            _write_all(old, seal(place))
        os.close(old)

    def _flush(self, file: int) -> None:
        try:
            _sync(file)
        except OSError as error:
            # The kernel may have dropped what it could not write, and would not say so again.
            self._broken = f"it could not be flushed ({error.strerror}); open it again"
            _refuse(self.folder, error)


def read(folder: Path, after: int = 0) -> Iterator[Record]:
    """The records after a sequence, without writing anything, also while another process writes.

    Raises InputError if the log is damaged, or if it does not reach back to `after`.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not the folder of a log")
    segments = _find(folder, make=False)[1]
    return (r for r in _scan(folder, segments, after) if r.sequence > after)


def first_sequence(folder: Path) -> int:
    """Sequence of the oldest record that was not dropped; 1 if there is none."""
    segments = _find(folder, make=False)[1]
    return segments[0].first if segments else 1


def _find(folder: Path, make: bool) -> tuple[bytes, list[Segment]]:
    """The id of a log and its segments."""
    is_new = make and not os.path.lexists(folder / "log.json")
    log = make_log(folder) if is_new else log_id(folder)
    return log, list_segments(folder, log)


def _scan(folder: Path, segments: list[Segment], after: int) -> Scan:
    """The segments that hold what follows `after`."""
    start = max((i for i, s in enumerate(segments) if s.first <= after + 1), default=None)
    if start is None:
        found = f"begins with sequence {segments[0].first}" if segments else "has no segments"
        raise InputError(
            f"the log in {folder} {found}, and {after + 1} is needed: restore the missing "
            "segments, or the checkpoint that replaces them"
        )
    return Scan(segments[start:])


def _write_all(file: int, content: bytes) -> None:
    written = os.write(file, content)
    while written < len(content):  # the disk is full, or nearly so
        written += os.write(file, content[written:])


def _sync(file: int) -> None:
    """Wait until a file's content is on the disk."""
    if fcntl is not None:
        fcntl(file, F_FULLFSYNC)  # pyright: ignore
    else:
        getattr(os, "fdatasync", os.fsync)(file)


def _refuse(folder: Path, error: OSError) -> NoReturn:
    why = error.strerror or str(error)
    text = f"the log in {folder} could not be written ({why}): the event is not acknowledged"
    raise NotWritten(text) from error
