"""Records of the event log, as bytes.

A record is a header and a payload, little-endian:

    length    u32   of the payload
    sequence  u64   1, 2, 3, ... without gaps, across segments
    kind      u8    what the payload means; 0 seals a segment
    body      u32   CRC-32 of the payload, continued from `check` of the record before
    check     u32   CRC-32 of the 17 bytes above, continued from the same

Two checksums, so that a damaged length is not mistaken for an unfinished record. Each continues
from the record before, so a record that is exchanged, repeated or missing is detected, too. They
are CRC-32 of zlib: the standard library has no CRC-32C, and both detect every burst of 32 bits.

A payload is JSON and arrays: the length of the JSON (u32), the JSON, and the bytes of the arrays
that its entry "arrays" describes.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

_HEAD = struct.Struct("<IQBI")
_CHECK = struct.Struct("<I")
HEADER = _HEAD.size + _CHECK.size
LARGEST = 2**26
"""Bytes of the largest payload."""
SEAL = 0
"""The kind of the last record of a segment that has a successor."""
_ARRAYS = "arrays"
_DTYPES = {np.dtype(name): name for name in ("<f4", "<f8", "<i4", "<i8", "|u1", "|b1")}
_FROM_NAME = {name: dtype for dtype, name in _DTYPES.items()}


class Record(NamedTuple):
    """One event of the log."""

    sequence: int
    kind: int
    payload: bytes

    @property
    def values(self) -> dict[str, Any]:
        """What `pack` was given."""
        return unpack(self.payload)


class Damage(ValueError):
    """A record that cannot be read; the text says why."""


class Torn(Damage):
    """A record that was not written to its end."""


def frame(sequence: int, kind: int, payload: bytes, chain: int) -> tuple[bytes, int]:
    """A record as bytes, and the `chain` of the next one; `chain`: `check` of the one before."""
    head = _HEAD.pack(len(payload), sequence, kind, crc32(payload, chain))
    check = crc32(head, chain)
    return head + _CHECK.pack(check) + payload, check


def parse(content: bytes, offset: int, sequence: int, chain: int) -> tuple[Record, int, int]:
    """The record at an offset, where the next one starts, and its chain.

    Raises Damage if it is not the record that must stand there; Torn if the content ends within it.
    """
    start = offset + HEADER
    if start > len(content):
        raise Torn("the record is incomplete")
    length, found, kind, body = _HEAD.unpack_from(content, offset)
    (check,) = _CHECK.unpack_from(content, start - _CHECK.size)
    if check != crc32(content[offset : start - _CHECK.size], chain):
        # A file system may extend a file before it writes the content: then only zeros follow.
        if not content[offset:].strip(b"\0"):
            raise Torn("the record is incomplete")
        raise Damage("the record's header does not match its checksum")
    if found != sequence:
        raise Damage(f"the record has sequence {found}, and {sequence} is expected")
    end = start + length
    if end > len(content):
        raise Torn("the record is incomplete")
    payload = content[start:end]
    if body != crc32(payload, chain):
        raise Damage("the record's payload does not match its checksum")
    return Record(found, kind, payload), end, check


def pack(values: Mapping[str, Any]) -> bytes:
    """Plain values (JSON) and arrays of numbers as bytes. The names must be text."""
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    if not arrays:
        text = _dumps(values)
        return _CHECK.pack(len(text)) + text
    rest = {name: value for name, value in values.items() if name not in arrays}
    rest[_ARRAYS] = [[name, _DTYPES[x.dtype], x.shape] for name, x in arrays.items()]
    text = _dumps(rest)
    return b"".join((_CHECK.pack(len(text)), text, *(x.tobytes() for x in arrays.values())))


def unpack(payload: bytes) -> dict[str, Any]:
    """What `pack` was given. Raises Damage if these are not its bytes."""
    try:
        end = _CHECK.size + _CHECK.unpack_from(payload)[0]
        values = json.loads(payload[_CHECK.size : end])
        for name, dtype, shape in values.pop(_ARRAYS, ()):
            count = math.prod(shape)
            array = np.frombuffer(payload, _FROM_NAME[dtype], count, end).reshape(shape)
            values[name] = array
            end += array.nbytes
        if end != len(payload):
            raise ValueError("bytes are left over")
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise Damage(f"the payload cannot be read ({error})") from error
    return values


_JSON = json.JSONEncoder(separators=(",", ":"), check_circular=False)


def _dumps(values: Any) -> bytes:
    return _JSON.encode(values).encode()
