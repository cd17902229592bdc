"""The contracts of detectors, checked on random observations."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.core.ood import Detector, Distance, check_distance
from lcpo.envs.pendulum import Pendulum
from lcpo.errors import InputError
from lcpo.run.plan.check import check_spec
from lcpo.testing import contracts
from lcpo.testing.contracts import Contracts, require
from lcpo.testing.random_worlds import random_obs
from lcpo.types import Array, ContextSlice, Spec

ROWS = 24
"""Of recent and of past observations."""
CLOSE = 1e-3
"""Relative: a matrix product may round differently for other sizes."""


class _Case(NamedTuple):
    detector: Detector
    spec: Spec

    def distances(self, recent: Array, data: Array) -> np.ndarray:
        return np.asarray(self.detector.distance(self.spec.context, recent, data))

    def observations(self, number: int) -> Array:
        return random_obs(self.spec, jax.random.key(number), (ROWS,))


def check_detector(detector: Detector | Distance, spec: Spec | None = None) -> None:
    """Raise ContractError with the first contract in `DETECTOR_CONTRACTS` that is broken.

    Args:
      detector: an `lcpo.core.ood.Detector`, or its function `distance(context, recent, data)`.
      spec: of an environment that it is made for; default: the windy pendulum's.
    """
    found = detector if isinstance(detector, Detector) else Detector(detector)
    spec = Pendulum().spec if spec is None else spec
    check_spec(spec)
    if found.needs_context and not spec.context.size:
        raise InputError("the detector needs a context, the spec has none: pass a spec with one")
    name = getattr(found.distance, "__name__", type(found.distance).__name__)
    contracts.check_all(f"detector {name!r}", DETECTOR_CONTRACTS, _Case(found, spec))


def _values(case: _Case) -> None:
    """A pure JAX function that returns a squared distance, 0 to infinity, for each row of data."""
    check_distance("the function", case.detector.distance, case.spec.context, case.spec.obs_size)


def _rows(case: _Case) -> None:
    """The distance of a row does not depend on the other rows of data, nor on their order."""
    recent, data = case.observations(0), 3.0 + case.observations(1)
    whole = case.distances(recent, data)
    some = case.distances(recent, data[::-2])
    wrong = ~np.isclose(whole[::-2], some, CLOSE, CLOSE)
    if wrong.any():
        first = int(np.argmax(wrong))
        seen = f"{whole[::-2][first]:.4g} among {ROWS} rows is {some[first]:.4g} among {len(some)}"
        require(False, f"a row's distance of {seen}")


def _still(case: _Case) -> None:
    """Distances are defined where the context of the recent batch is constant."""
    recent, context = case.observations(0), case.spec.context
    held = jnp.broadcast_to(context.history(recent[:1]), context.history(recent).shape)
    found = case.distances(context.insert(context.remove(recent), held), case.observations(1))
    require(not np.isnan(found).any(), f"{np.isnan(found).sum()} of {ROWS} distances are NaN")


def _vmap(case: _Case) -> None:
    """Under jax.vmap, over runs with batches of their own, it gives the same as one by one."""
    recent, data = (
        jnp.stack([case.observations(i) for i in numbers]) for numbers in ((0, 1), (2, 3))
    )
    together = jax.vmap(lambda r, d: case.detector.distance(case.spec.context, r, d))(recent, data)
    alone = [case.distances(*pair) for pair in zip(recent, data, strict=True)]
    require(np.allclose(together, alone, CLOSE, CLOSE), f"{together} differs from {alone}")


def _no_context(case: _Case) -> None:
    """It works without a context, or declares needs_context=True."""
    if case.detector.needs_context:
        return
    none = ContextSlice(case.spec.obs_size, channels=0, lags=1)
    check_distance("without a context", case.detector.distance, none, case.spec.obs_size)


DETECTOR_CONTRACTS: Contracts[_Case] = {
    "values": _values,
    "rows": _rows,
    "constant context": _still,
    "vmap": _vmap,
    "no context": _no_context,
}
"""What every detector promises, by name."""
