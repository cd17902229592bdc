"""The paper's table and Figure 4 on the size of LCPO's reservoir.

All samples, a hundredth of them (the default), a 40,000th and an 800,000th. The paper calls the
columns by what these are on its traces of 20 million steps; on those of 8 million steps the
published code has 8M, 80K, 200 and 10.
"""

from __future__ import annotations

import dataclasses

from lcpo.contexts import TraceRef
from lcpo.study.cases import Case, choose
from lcpo.study.paper.columns import ColumnOptions, column_study
from lcpo.study.paper.normalised import table_and_figure


def share(variant: str, divisor: int) -> Case:
    """A reservoir for one in this many samples of a trace."""

    def size(trace: str) -> dict[str, int]:
        return {"buffer_size": max(1, TraceRef.parse(trace).shape()[0] // divisor)}

    return Case("lcpo", variant, by_trace=size)


CASES = [
    share("nb=20M", 1), share("nb=200K", 100), share("nb=500", 40_000), share("nb=25", 800_000),
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class BufferOptions(ColumnOptions):
    """Options of the study."""

    agents: str | None = None
    """Sizes, separated by commas: nb=20M, nb=200K, nb=500, nb=25; default: all four."""


study = column_study(
    "Table 'gym_buffer_all' and Figure 4: LCPO by the size of its reservoir, next to the paper's",
    BufferOptions,
    lambda options: choose(CASES, options.agents),
    paper="gym-buffer",
    more=table_and_figure,
)
