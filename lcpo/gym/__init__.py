"""Gymnasium, both ways.

    to_gym     our environments as Gymnasium's, one world; `vector`: many; `frames`: pictures;
               `ids` has their names, which `import lcpo` registers
    from_gym   Gymnasium's environments as ours; `worlds` steps them, `spaces` translates their
               observations and actions

`from_gymnasium` is the function to call. `import lcpo` passes through here, so that nothing is
imported before it is used: a bare machine has no Gymnasium.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lcpo.gym.from_gym import from_gymnasium

__all__ = ["from_gymnasium"]


def __getattr__(name: str) -> Any:
    if name == "from_gymnasium":
        from lcpo.gym.from_gym import from_gymnasium

        return from_gymnasium
    raise AttributeError(f"module 'lcpo.gym' has no attribute {name!r}")
