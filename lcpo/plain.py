"""What observations and actions are made of, in NumPy alone: acting without JAX needs it, too."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

CLIP = 10.0
"""No entry is further from 0 than this many standard deviations."""
LEAST = 1e-5
"""The least standard deviation, as a share of the mean: less is float32's rounding."""
PLAIN = -1
"""The column of entries that are not scaled."""


def columns(spec: Any, own: bool) -> np.ndarray:
    """The column of each entry of an observation, [D]; `own`: the environment writes its context.

    Those of the state come first, then the channels of the context.
    """
    number, context = np.full(spec.obs_size, PLAIN), spec.context
    state = [i for i in range(spec.obs_size) if not context.start <= i < context.end]
    count, size = spec.elements or (0, 1)
    names = [i % size if i < count * size else i for i in state]
    known = {name: column for column, name in enumerate(dict.fromkeys(names))}
    number[state] = [known[name] for name in names]
    if own and context.size:
        channel = np.repeat(np.arange(context.channels), context.lags)
        number[context.start : context.end] = len(known) + channel
    return number


class ActionForm(NamedTuple):
    """What the indices of an action stand for, in plain values, where spaces are not ours."""

    values: tuple[tuple[float, ...], ...]  # [A][K]: a grid of numbers for a Box, else whole numbers
    shape: tuple[int, ...]  # of an action; () where it is one number
    dtype: str

    def decode(self, action: np.ndarray) -> Any:
        """Indices [A] -> an action as the environment takes it."""
        chosen = [row[i] for row, i in zip(self.values, action, strict=True)]
        return np.array(chosen).astype(self.dtype).reshape(self.shape)[()]

    @classmethod
    def from_json(cls, form: Any) -> ActionForm | None:
        """From `_asdict` through JSON; ValueError where it is not such a form."""
        if form is None:
            return None
        found = cls(tuple(map(tuple, form["values"])), tuple(form["shape"]), form["dtype"])
        numbers = [x for row in found.values for x in row]
        plain = all(isinstance(x, (int, float)) for x in (*numbers, *found.shape))
        kind = np.dtype(found.dtype).kind if isinstance(found.dtype, str) else "O"
        if len(form) != len(cls._fields) or not plain or kind not in "biuf":
            raise ValueError("its actions have an unknown form")
        if int(np.prod(found.shape)) != len(found.values):
            raise ValueError(f"its actions have {len(found.values)} parts, not {found.shape}")
        return found
