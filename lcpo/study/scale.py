"""How long the runs of a study are: the paper's length, or a fraction of it, by name or number."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from lcpo.contexts import fractions
from lcpo.errors import InputError
from lcpo.names import unknown


class Scale(NamedTuple):
    """A share of the paper's steps."""

    fraction: Fraction
    seeds: int | None = None
    """At most so many; None: the paper's."""


NAMED = {
    "paper": Scale(Fraction(1)),
    "short": Scale(Fraction(1, 20), 5),
    "smoke": Scale(Fraction(1, 400), 1),
}


def read_scale(text: str) -> Scale:
    """The scale that a name or a fraction means."""
    if text in NAMED:
        return NAMED[text]
    if not any(character.isdigit() for character in text):
        raise InputError(unknown("scale", text, NAMED) + " (or a fraction such as 1/20)")
    return Scale(fractions.read("scale", text))
