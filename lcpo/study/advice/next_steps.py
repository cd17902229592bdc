"""What to do with a calibration: channels of different scales, and traces without a suggestion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lcpo.study.advice.calibrate import Calibration

UNEVEN = 10.0
"""Channels whose standard deviations differ by more than this factor are reported."""


def uneven(c: Calibration) -> list[str]:
    """Channels of very different scales, of which the largest makes up the distances."""
    known = [x for x in c.spread if x > 0.0]
    if not known or max(known) <= UNEVEN * min(known):
        return []
    names = c.channels or [f"channel {i}" for i in range(len(c.spread))]
    sizes = ", ".join(f"{name} {_short(x)}" for name, x in zip(names, c.spread, strict=True))
    spread = np.where(np.array(c.spread) > 0.0, c.spread, 1.0)
    factors = ",".join(map(_short, np.broadcast_to(c.scale, spread.shape) / spread))
    scale = "--normalise running"
    if not c.is_own:
        scale = f"--scale {factors}, and train on a copy with it (lcpo trace FILE --scale --write)"
    return [
        f"the channels differ in scale (standard deviations: {sizes}), so the largest decides the "
        f"distances; give all the same weight: {scale}"
    ]


def _short(value: float) -> str:
    """Two digits, without an exponent where that is shorter."""
    return f"{float(f'{value:.2g}'):g}"


def next_steps(c: Calibration, shorter: tuple[int, float] | None) -> list[str]:
    """What to do where no sigma is suggested."""
    if not any(c.spread):
        return ["another context, or a2c: this one never changes, and LCPO cannot help"]
    steps = []
    if shorter is not None:
        steps.append("shorter rollouts: --rollout-length {} suggests sigma = {:g}".format(*shorter))
    return [
        *steps,
        "more rows: a context must last longer than a rollout, and differ from earlier ones",
        "the agent lcpo-uniform, which anchors the policy in the whole past and needs no sigma",
        "a detector of your own: docs/add_a_detector.md",
    ]
