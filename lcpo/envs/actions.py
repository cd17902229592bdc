"""What an environment takes as an action, as plain values: no space, no function, no import."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class ActionForm(NamedTuple):
    """The value that each number of an action stands for, dimension by dimension."""

    values: tuple[tuple[float, ...], ...]
    """[A][K]: of a Box a grid of numbers, else whole ones."""
    shape: tuple[int, ...]
    """Of an action; () where it is one number."""
    dtype: str

    def decode(self, action: np.ndarray) -> Any:
        """Numbers of actions [A] -> an action as the environment takes it."""
        chosen = [row[i] for row, i in zip(self.values, action, strict=True)]
        return np.array(chosen).astype(self.dtype).reshape(self.shape)[()]

    @classmethod
    def from_json(cls, form: Any) -> ActionForm | None:
        """What `_asdict` gave, from JSON; ValueError where it is none."""
        if form is None:
            return None
        found = cls(tuple(map(tuple, form["values"])), tuple(form["shape"]), form["dtype"])
        numbers = [x for row in found.values for x in row]
        plain = all(isinstance(x, (int, float)) for x in (*numbers, *found.shape))
        kind = np.dtype(found.dtype).kind if isinstance(found.dtype, str) else "O"
        if len(form) != len(cls._fields) or not plain or kind not in "biuf":
            raise ValueError("its actions are of no form of ours")
        if int(np.prod(found.shape)) != len(found.values):
            raise ValueError(f"its actions have {len(found.values)} parts, not {found.shape}")
        return found
