"""Anchors: past states whose context differs from the recent one, for LCPO, LCPO-P and LCPO+.

    S_c <- W(B_a, B_r)      line 4 of Algorithm 1: draw states from the reservoir B_a that
                            are OOD with respect to B_r (Algorithm 3)                   `recall`
    B_a <- B_a + B_r        line 16: reservoir sampling (Algorithm 2)                   `remember`

The published code swaps the two (fault "add-before-sample"). With `recent_batches` > 1, states are
compared with that many rollouts instead of B_r: `look_back`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from lcpo.agents import on_policy
from lcpo.config import config, static, traced, with_default
from lcpo.core import buffers, ood
from lcpo.core.buffers import Reservoir
from lcpo.errors import InputError
from lcpo.types import Array, Spec, Transition

ADD_BEFORE_SAMPLE = "add-before-sample"
"""Fault: the recent batch enters the reservoir before anchors are drawn from it."""
ROW_SUM_FILTER = "row-sum-filter"
"""Fault: `mahalanobis-full` leaves out columns that do vary (`core.ood.row_sum_filter`)."""


@config
class AnchorConfig(on_policy.AdamConfig):
    """Agents with anchors."""

    entropy_coef: float = with_default(on_policy.Config, "entropy_coef", 0.03)
    entropy_target: float = with_default(on_policy.Config, "entropy_target", 0.1)
    sigma: float = traced(1.0, "a context is OOD beyond this distance (paper: sigma)", low=0.0)
    detector: str = static("l2", "OOD detector, by name or as package.module:function")
    buffer_size: int | None = static(
        None, "reservoir capacity (paper: n_b); None: 1 % of the steps", low=1, share_of_steps=0.01
    )
    sampling_rounds: int = static(5, "draws per anchor wanted, before giving up", low=1)
    recent_batches: int = static(1, "newest rollouts that the detector compares with", low=1)


class Anchors(NamedTuple):
    """S_c: as many OOD states as the batch has, or none."""

    obs: Array  # [B, D]; invalid where `found` is False
    found: Array  # bool: S_c is not empty
    share: Array | float = 0.0  # of the draws that were OOD
    rows: Array | tuple = ()  # [B, W], the rows of the reservoir that begin with `obs`


class AnchorMemory(NamedTuple):
    """The reservoir, and older rollouts that count as recent."""

    past: Reservoir  # B_a, rows that begin with an observation
    rollouts: Array  # [recent_batches - 1, B, D], the newest first


def memory_init(config: AnchorConfig, spec: Spec, width: int | None = None) -> AnchorMemory:
    """An empty B_a of rows with `width` entries (None: observations), and room for rollouts."""
    shape = (config.recent_batches - 1, config.rollout_length * spec.num_worlds, spec.obs_size)
    past = buffers.reservoir_init(config.buffer_size, (width or spec.obs_size,))
    return AnchorMemory(past, jnp.zeros(shape))


def look_back(memory: AnchorMemory, batch: Array) -> tuple[Array, AnchorMemory]:
    """The recent states [R, D], the batch [B, D] included, and the memory for the next update.

    Until there are enough rollouts, the first one fills their places.
    """
    if len(memory.rollouts) == 0:
        return batch, memory
    older = jnp.where(memory.past.seen == 0, batch[None], memory.rollouts)
    rollouts = jnp.concatenate([batch[None], older])
    return rollouts.reshape(-1, batch.shape[1]), memory._replace(rollouts=rollouts[:-1])


def recall(
    config: AnchorConfig, spec: Spec, memory: AnchorMemory, recent: Array, count: int, key: Array
) -> Anchors:
    """S_c: `count` past states that are OOD with respect to `recent` [R, D], or none."""
    distance = ood.find_detector(config.detector).distance
    if ROW_SUM_FILTER in config.faults and distance is ood.mahalanobis_full:
        distance = ood.row_sum_filter
    rows, found, share = ood.sample_ood(
        memory.past,
        lambda rows: distance(spec.context, recent, rows[:, : spec.obs_size]),
        config.sigma,
        count,
        config.sampling_rounds,
        key,
    )
    return Anchors(rows[:, : spec.obs_size], found, share, rows)


def remember(
    memory: AnchorMemory, rows: Array, keep: Array | None, key: Array, read: Anchors | None = None
) -> AnchorMemory:
    """The memory with the rows [B, W] to keep added to B_a (Algorithm 2).

    `read`: the anchors recalled in the same update. The write must depend on them, or XLA would
    copy the buffer, and barriers do not help. So nothing is kept where NaN was read, which ends a
    run anyway.
    """
    if read is not None:
        sound = ~jnp.isnan(jnp.sum(read.obs))
        keep = jnp.broadcast_to(sound, len(rows)) if keep is None else keep & sound
    return memory._replace(past=buffers.reservoir_add(memory.past, rows, key, keep))


def offered(spec: Spec, batch: Transition) -> tuple[Array, Array | None]:
    """The states of a rollout, [B, D], and which of them may become anchors, [B]; None: all.

    States in which a guard acts are left out: the policy has no effect there.
    """
    keep = None if spec.unit_steps else (batch.weight > 0.0).reshape(-1)
    return batch.obs.reshape(-1, spec.obs_size), keep


def check(config: AnchorConfig, spec: Spec) -> None:
    """The detector must exist, keep its rules, and have a context if it needs one."""
    if ood.find_detector(config.detector).needs_context and spec.context.size == 0:
        raise InputError(
            f"detector {config.detector!r} looks at the context, but the observation has none: "
            "use 'mahalanobis-full', or an agent without anchors"
        )
    ood.check_detector(config.detector, spec.context, spec.obs_size)
