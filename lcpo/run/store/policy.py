"""A trained policy in one file, with all that acting needs: no environment, no manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lcpo.agents import find_agent
from lcpo.agents.normalise import normalise, read_rule
from lcpo.errors import InputError
from lcpo.run.plan.job import Setup
from lcpo.run.store.files import load_arrays, save_arrays
from lcpo.types import AnyAgent, ContextSlice, Spec

SCHEMA = 1
_ABOUT = "about"
"""The array with the text that says what the others are."""


class About(NamedTuple):
    """What acting needs beside the arrays."""

    run: str
    agent: str
    config: dict[str, Any]
    spec: Spec
    """With the place, channels and lags of the context history in an observation."""
    advance: str
    """When the history moves on by one row: every "step", or every "episode"; "own": the
    environment writes it."""
    scale: float
    """The policy has seen the rows of its trace multiplied by this."""
    seed: int
    normalise: str | list[float] | None = None
    """How the agent sees observations: it is given them as they are, and scales them itself."""


def agent_of(about: About) -> AnyAgent:
    """The agent that the policy is of."""
    own = about.advance == "own"
    return normalise(find_agent(about.agent), read_rule(about.normalise), own)


def save_policy(path: Path, setup: Setup, arrays: Mapping[str, np.ndarray]) -> str:
    """Write the state of an agent, by the paths of its leaves; the digest of the file."""
    job = setup.job
    about = About(
        job.name, job.agent, job.config, setup.spec, setup.env.advance, job.scale, job.seed,
        job.normalise,
    )  # fmt: skip
    values = {**about._asdict(), "spec": _spec_to_json(setup.spec), "schema": SCHEMA}
    text = np.frombuffer(json.dumps(values).encode(), np.uint8)
    return save_arrays(path, {**arrays, _ABOUT: text})


def load_policy(path: Path, digest: str | None = None) -> tuple[About, dict[str, np.ndarray]]:
    """What `save_policy` wrote. Nothing that the file names is imported or called."""
    arrays = load_arrays(path, digest)
    try:
        values = json.loads(arrays.pop(_ABOUT).tobytes())
        schema = values.pop("schema")
    except (KeyError, ValueError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is no policy of ours: nothing says what it holds") from error
    if schema != SCHEMA:
        raise InputError(f"{path} has schema {schema!r}, this version reads {SCHEMA}")
    try:
        about = About(**{**values, "spec": _spec_from_json(values["spec"])})
        kinds = (str, str, dict, Spec, str, (int, float), int, (str, list, type(None)))
        if not all(map(isinstance, about, kinds)):
            raise ValueError("it says what it holds in other words")
        return about, arrays
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is no policy of ours: {error}") from error


def _spec_to_json(spec: Spec) -> dict[str, Any]:
    return {**spec._asdict(), "context": spec.context._asdict()}


def _spec_from_json(values: dict[str, Any]) -> Spec:
    """Tuples of whole numbers again; ValueError where they are none."""

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(whole, value))
        if value is None or isinstance(value, (bool, int)):
            return value
        raise ValueError(f"{value!r} in its spec is no whole number")

    context = ContextSlice(**{name: whole(v) for name, v in values["context"].items()})
    rest = {name: whole(value) for name, value in values.items() if name != "context"}
    spec = Spec(context=context, **rest)
    sizes = (spec.obs_size, *context, *spec.num_actions)
    if min(sizes) < 0 or context.end > spec.obs_size or not spec.num_actions:
        raise ValueError(f"its spec holds sizes that do not fit: {sizes}")
    return spec
