"""Loops: some that may end early, with a limit, and some of a fixed length."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax

from lcpo.types import Array

Carry = TypeVar("Carry")


def bounded_while(
    unfinished: Callable[[Carry], Array],
    step: Callable[[Carry], Carry],
    start: Carry,
    limit: int,
    unroll: bool = False,
) -> Carry:
    """`step` while `unfinished`, at most `limit` times; afterwards `step` must change nothing.

    On a CPU the loop ends when it is finished. Elsewhere, where runs are vmapped, it goes on to the
    limit: a loop that may end for some of the runs waits for all of them, and copies all that it
    carries in every iteration.
    """
    if jax.default_backend() == "cpu":
        return jax.lax.while_loop(unfinished, step, start)
    return jax.lax.fori_loop(0, limit, lambda _, carry: step(carry), start, unroll=unroll)


UNROLL = 10
"""Steps of a loop that stand one after the other in a GPU's program."""


def repeat(step: Callable[[Carry], Carry], start: Carry, count: int) -> Carry:
    """`step`, `count` times.

    Elsewhere than on a CPU small kernels wait for the loop around them; a CPU gains nothing from a
    longer program, which takes longer to compile.
    """
    if count == 0:
        return start
    unroll = 1 if jax.default_backend() == "cpu" else UNROLL
    return jax.lax.fori_loop(0, count, lambda _, carry: step(carry), start, unroll=unroll)
