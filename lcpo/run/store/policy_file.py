"""A trained policy in one file, with everything needed to act: no environment, no manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lcpo.agents import find_agent
from lcpo.agents.normalise import normalise, read_rule
from lcpo.envs.base import ActionForm, action_form_of
from lcpo.errors import InputError
from lcpo.run.plan.job import Setup
from lcpo.run.store.files import ABOUT, load_about, save_arrays
from lcpo.types import AnyAgent, ContextSlice, Guard, Spec

SCHEMA = 2


class About(NamedTuple):
    """What acting needs in addition to the arrays."""

    run: str
    agent: str
    config: dict[str, Any]
    spec: Spec
    """With the place, channels and lags of the context history in an observation."""
    advance: str
    """When the history moves on by one row: every "step" or "episode"; "own": the environment
    writes it."""
    scale: float
    """The policy has seen the rows of its trace multiplied by this."""
    seed: int
    normalise: str | list[float] | None = None
    """How the agent scales the raw observations that it is given."""
    actions: ActionForm | None = None
    """What the environment takes as an action; None: numbers of actions, as the agent gives."""


def agent_of(about: About) -> AnyAgent:
    """The policy's agent."""
    own = about.advance == "own"
    return normalise(find_agent(about.agent), read_rule(about.normalise), own)


def save_policy(path: Path, setup: Setup, arrays: Mapping[str, np.ndarray]) -> str:
    """Write the state of an agent, by the paths of its leaves; the digest of the file."""
    job, form = setup.job, action_form_of(setup.env)
    about = About(
        job.name, job.agent, job.config, setup.spec, setup.env.advance, job.scale, job.seed,
        job.normalise, form,
    )  # fmt: skip
    values = {**about._asdict(), "spec": spec_to_json(setup.spec), "schema": SCHEMA}
    values["actions"] = form and form._asdict()
    text = np.frombuffer(json.dumps(values).encode(), np.uint8)
    return save_arrays(path, {**arrays, ABOUT: text})


def load_policy(path: Path, digest: str | None = None) -> tuple[About, dict[str, np.ndarray]]:
    """What `save_policy` wrote. Nothing that the file names is imported or called."""
    values, arrays = load_about(path, digest)
    if not isinstance(values, dict) or "schema" not in values:
        raise InputError(f"{path} is not a policy of lcpo: it has no schema")
    if "streams" in values:
        raise InputError(
            f"{path} holds a learner, not a policy: use lcpo.Learner.load({str(path)!r})"
        )
    if (schema := values.pop("schema")) != SCHEMA:
        raise InputError(f"{path} has schema {schema!r}, this version reads {SCHEMA}")
    try:
        form = ActionForm.from_json(values.pop("actions", None))
        about = About(**{**values, "spec": spec_from_json(values["spec"])}, actions=form)
        kinds = (str, str, dict, Spec, str, (int, float), int, (str, list, type(None)))
        if not all(map(isinstance, about, kinds)):
            raise ValueError("its description has values of other types")
        if form is not None and tuple(map(len, form.values)) != about.spec.num_actions:
            raise ValueError("its actions are not those of its spec")
        return about, arrays
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is not a policy of lcpo: {error}") from error


def spec_to_json(spec: Spec) -> dict[str, Any]:
    """Plain values of a spec; `spec_from_json(spec_to_json(spec)) == spec`."""
    guard = spec.guard and spec.guard._asdict()
    values = {**spec._asdict(), "context": spec.context._asdict(), "guard": guard}
    return {**values, "num_actions": spec.discrete.counts, "distribution": None}


def spec_from_json(values: dict[str, Any]) -> Spec:
    """The inverse of `spec_to_json`; ValueError for invalid values."""

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(whole, value))
        if isinstance(value, dict):
            return {name: whole(inner) for name, inner in value.items()}
        if value is None or isinstance(value, (bool, int)):
            return value
        raise ValueError(f"{value!r} in its spec is not a whole number")

    readings = values["readings"]
    if not isinstance(readings, list) or not all(isinstance(name, str) for name in readings):
        raise ValueError(f"{readings!r} in its spec are not names of readings")
    rest = whole({name: value for name, value in values.items() if name != "readings"})
    context, guard = ContextSlice(**rest.pop("context")), rest.pop("guard")
    spec = Spec(context=context, guard=guard and Guard(**guard), readings=tuple(readings), **rest)
    sizes = (spec.obs_size, *spec.context, *spec.num_actions)
    if min(sizes) < 0 or spec.context.end > spec.obs_size or not spec.num_actions:
        raise ValueError(f"its spec holds sizes that do not fit: {sizes}")
    return spec
