"""Segments of the event log: files of records, in one folder.

    log.json                      the log's id
    00000000000000000001.log      a segment, named after its first sequence
    00000000000000004711.log      the next one

A segment starts with the log's id, its first sequence and the checksum of the record before it.
When the next segment has been made, a seal ends the one before. So a segment that is missing,
exchanged or from another log is detected, the newest one included.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from lcpo.errors import InputError, MissingFile
from lcpo.live.records import SEAL, Damage, Record, Torn, frame, parse
from lcpo.run.store.files import load_document, save_bytes, save_document

SCHEMA = 1
_MAGIC = b"lcpolog1"
_HEAD = struct.Struct("<8s16sQI")
_CHECK = struct.Struct("<I")
START = _HEAD.size + _CHECK.size
"""The offset of a segment's first record."""
_NAME = re.compile(r"\d{20}\.log")


class Position(NamedTuple):
    """Where the next record belongs."""

    sequence: int
    chain: int
    """Checksum of the record before it, or of the segment's head."""
    offset: int


class Segment(NamedTuple):
    """A segment's file and what its head says."""

    path: Path
    first: int
    """Sequence of its first record."""
    before: int
    """Checksum of the record before it; 0 if there is none."""
    chain: int
    """Checksum of the head."""


class Cut(NamedTuple):
    """An incomplete record at the end of a log, which was never acknowledged."""

    path: Path
    offset: int
    size: int
    """Its bytes."""

    def __str__(self) -> str:
        return f"{self.path}: {self.size} bytes of an unfinished record, at offset {self.offset}"


def log_id(folder: Path) -> bytes:
    """The id of a log; InputError if there is no valid one."""
    if not os.path.lexists(folder / "log.json"):
        raise MissingFile(f"{folder / 'log.json'} is missing: restore it from a copy")
    found = load_document(folder / "log.json", SCHEMA, {"id": str})["id"]
    if not re.fullmatch(r"[0-9a-f]{32}", found):
        raise InputError(f"{folder / 'log.json'} is not a log of lcpo: its id is {found!r}")
    return bytes.fromhex(found)


def make_log(folder: Path) -> bytes:
    """Start a log in a folder that has none, and return its id."""
    if left := sorted(folder.glob("*.log")):
        raise InputError(f"{left[0]} belongs to a log without log.json: restore it, or move both")
    made = os.urandom(16)
    save_document(folder / "log.json", SCHEMA, {"id": made.hex()})
    return made


def segment_name(first: int) -> str:
    """The file name of a segment."""
    return f"{first:020}.log"


def make_segment(folder: Path, log: bytes, first: int, before: int) -> Segment:
    """Write an empty segment, atomically."""
    head = _HEAD.pack(_MAGIC, log, first, before)
    check = crc32(head)
    path = folder / segment_name(first)
    save_bytes(path, head + _CHECK.pack(check))
    return Segment(path, first, before, check)


def list_segments(folder: Path, log: bytes) -> list[Segment]:
    """All segments in order; InputError if one is damaged, misplaced or from another log."""
    paths = sorted(folder.glob("*.log"))
    for path in paths:
        if not _NAME.fullmatch(path.name):
            raise InputError(f"{path} is not a segment of this log: move it elsewhere")
    return [_read_head(path, log) for path in paths]


def _content(path: Path, size: int = -1) -> bytes:
    """The first bytes of a segment; MissingFile if its writer has dropped it meanwhile."""
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except FileNotFoundError as error:
        raise MissingFile(f"{path} was deleted while the log was read: read it again") from error


def _read_head(path: Path, log: bytes) -> Segment:
    head = _content(path, START)
    if len(head) < START:
        raise damaged(path, 0, "the head is incomplete")
    magic, owner, first, before = _HEAD.unpack_from(head)
    (check,) = _CHECK.unpack_from(head, _HEAD.size)
    if magic != _MAGIC or check != crc32(head[: _HEAD.size]):
        raise damaged(path, 0, "the head does not match its checksum")
    if owner != log:
        raise damaged(path, 8, f"it belongs to the log {owner.hex()}, not to {log.hex()}")
    if path.name != segment_name(first):
        raise damaged(path, 24, f"its first sequence is {first}: it was renamed or exchanged")
    return Segment(path, first, before, check)


class Scan:
    """Reads the records of consecutive segments and checks that they fit together.

    After the iteration: `end`, where the next record belongs; `last`, the checksum of the newest
    record; `cut`, what was left of an unfinished last record; `unsealed`, segments before the last
    one that lack their seal, with its place.
    """

    def __init__(self, segments: list[Segment]) -> None:
        self.segments = segments
        self.end: Position | None = None
        self.last = 0
        self.cut: Cut | None = None
        self.unsealed: list[tuple[Segment, Position]] = []

    def __iter__(self) -> Iterator[Record]:
        for number, segment in enumerate(self.segments):
            if self.end is not None:
                self._check_follows(segment, self.segments[number - 1])
            yield from self._read(segment, number == len(self.segments) - 1)

    def _check_follows(self, segment: Segment, last: Segment) -> None:
        assert self.end is not None
        if segment.first != self.end.sequence:
            missing = f"sequence {self.end.sequence} to {segment.first - 1} is missing"
            raise damaged(last.path, self.end.offset, f"{missing} before {segment.path.name}")
        if segment.before != self.last:
            raise damaged(segment.path, 32, f"it does not continue {last.path.name}")

    def _read(self, segment: Segment, is_last: bool) -> Iterator[Record]:
        content, position = _content(segment.path), Position(segment.first, segment.chain, START)
        self.last, sealed, torn = segment.before, False, None
        while position.offset < len(content):
            if sealed:
                raise damaged(segment.path, position.offset, "records follow the seal")
            try:
                record, end, check = parse(
                    content, position.offset, position.sequence, position.chain
                )
            except Torn:
                torn = Cut(segment.path, position.offset, len(content) - position.offset)
                break
            except Damage as error:
                raise damaged(segment.path, position.offset, str(error)) from error
            if record.kind == SEAL:
                sealed = True
                position = Position(position.sequence, position.chain, end)
                continue
            self.last, position = check, Position(position.sequence + 1, check, end)
            yield record
        follower = segment.path.parent / segment_name(position.sequence)
        if is_last and sealed and not follower.exists():  # a writer may have made it meanwhile
            raise damaged(
                segment.path, position.offset, f"sequence {position.sequence} and later is missing"
            )
        if is_last:
            self.cut = torn
        elif not sealed:
            self.unsealed.append((segment, position))
        self.end = position


def seal(position: Position) -> bytes:
    """The bytes that end a segment."""
    return frame(position.sequence, SEAL, b"", position.chain)[0]


def damaged(path: Path, offset: int, why: str) -> InputError:
    """The error for a log that cannot be trusted from some place on."""
    return InputError(
        f"{path} is damaged at offset {offset}: {why}; restore the file from a copy, or see "
        "docs/live/runbook.md"
    )
