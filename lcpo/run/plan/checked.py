"""What of a plan need not be checked: programs that were, and plans that are only counted."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator
from typing import Any

import jax

from lcpo.run.plan.check import check_agent, check_values
from lcpo.types import AnyAgent, Spec

_checked: set[Hashable] = set()


def check_program(agent: AnyAgent, config: Any, spec: Spec) -> None:
    """`check_agent`; of a program that was traced before, only what looks at values."""
    program = (agent.root, jax.tree.structure(config), spec)
    if program in _checked:
        check_values(agent, config, spec)
    else:
        check_agent(agent, config, spec)
    _checked.add(program)


_counts_only = False


@contextlib.contextmanager
def counted() -> Iterator[None]:
    """Plans within are for counting their jobs: they are not checked, and cannot be run."""
    global _counts_only
    _counts_only = True
    try:
        yield
    finally:
        _counts_only = False


def is_counted() -> bool:
    """Whether plans are for counting only: what takes long may be left out of them."""
    return _counts_only
