"""Trained policies: `lcpo.load(...)`."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo import values
from lcpo.agents import is_ours
from lcpo.errors import InputError
from lcpo.history import Session
from lcpo.names import unknown
from lcpo.run.plan.job import is_own
from lcpo.run.store import checkpoint as checkpoints
from lcpo.run.store.layout import RunFiles
from lcpo.run.store.policy_file import About, agent_of, load_policy
from lcpo.run.store.results import Result, load_result, load_results
from lcpo.types import Array


class Policy:
    """A trained policy, made by `load`. It does not need its environment."""

    def __init__(self, about: About, arrays: Mapping[str, np.ndarray]) -> None:
        self.about, self.spec = about, about.spec
        self.agent = agent_of(about)
        self.config: Any = configs.make(self.agent.Config, about.config)
        self.state = restore(about, functools.partial(self.agent.init, self.config), arrays)
        self._key = jax.random.key(about.seed)
        self._calls = 0

    def __repr__(self) -> str:
        return f"Policy({self.about.run!r}: {self.spec.obs_size} numbers -> {self.spec.actions})"

    def act(self, obs: Any, key: Any = None, deterministic: bool = False) -> np.ndarray:
        """Action indices for obs [D] or [N, D]: [A] or [N, A].

        They are sampled as in training, or the most probable ones with `deterministic`. `key`: a
        JAX key; default: the next of a fixed sequence.
        """
        obs = self._check_obs(obs)
        if values.flag("deterministic", deterministic):
            return np.asarray(self.spec.actions.mode(jnp.asarray(self.probabilities(obs))))
        if key is None:
            key = jax.random.fold_in(self._key, self._calls)
            self._calls += 1
        _check_key(key)
        action = np.asarray(self._act(self.state, np.atleast_2d(obs), key))
        return action[0] if obs.ndim == 1 else action

    def probabilities(self, obs: Any) -> np.ndarray:
        """Action probabilities for obs [D] or [N, D]: [A, K] or [N, A, K]; 0 for actions that do
        not exist."""
        obs = self._check_obs(obs)
        found = np.asarray(self._probabilities(self.state, np.atleast_2d(obs)))
        return found[0] if obs.ndim == 1 else found

    def decode(self, action: Any) -> Any:
        """Action indices [A] in the form that the environment of the run takes.

        For a Gymnasium environment that is an element of its action space: a whole number, or the
        value of a Box. Environments of lcpo take the indices themselves.
        """
        actions, found = self.spec.actions, np.asarray(action)
        fits = found.dtype != bool and np.can_cast(found.dtype, actions.dtype, "same_kind")
        if not fits or not actions.contains(found):
            values.refuse("action", action, f"{actions.size} number(s), as `act` gives for one obs")
        form = self.about.actions
        return found if form is None else form.decode(found)

    def session(self) -> Session:
        """A stateful policy for one stream, which keeps the history of its context."""
        return Session(self)

    def _check_obs(self, obs: Any) -> np.ndarray:
        found = values.reals("obs", obs)
        if found.ndim not in (1, 2) or found.shape[-1] != self.spec.obs_size:
            size = self.spec.obs_size
            raise InputError(f"obs has shape {found.shape}: needs [{size}] or [N, {size}]")
        return found

    @functools.cached_property
    def _act(self) -> Callable[..., Array]:
        agent, config, spec = self.agent, self.config, self.spec
        return jax.jit(lambda state, obs, key: agent.act(config, spec, state, obs, key)[0])

    @functools.cached_property
    def _probabilities(self) -> Callable[..., Array]:
        function, config, spec = self.agent.probabilities, self.config, self.spec
        if function is None:
            raise InputError(
                f"agent {self.agent.name} has no `probabilities` (a field of its Agent): it can "
                "only be sampled, with act(obs)"
            )
        return jax.jit(lambda state, obs: function(config, spec, state, obs))


def restore(about: About, init: Callable[..., Any], arrays: Mapping[str, np.ndarray]) -> Any:
    """The state that a policy file holds, without large buffers; `init(spec, key)` makes one."""
    try:
        shapes = jax.eval_shape(functools.partial(init, about.spec), jax.random.key(0))
    except Exception as error:  # the agent has changed since, or the file is wrong
        cause = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(
            f"{about.run}: {about.agent} cannot have saved this policy ({cause}): load it with the "
            "version of the agent that did"
        ) from error
    slim = checkpoints.without_memory(shapes)
    return jax.tree.map(jnp.asarray, checkpoints.unflatten(slim, dict(arrays)))


def _check_key(key: Any) -> None:
    is_array = isinstance(key, (jax.Array, np.ndarray))
    is_new = is_array and jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ()
    is_old = is_array and key.shape == (2,) and key.dtype == np.uint32
    if not is_new and not is_old:
        values.refuse("key", key, "one key, such as jax.random.key(0)")


def load(
    source: str | Path, run: str | None = None, *, agent: str | None = None, trust: bool = False
) -> Policy:
    """Load the policy of a finished run.

    Args:
      source: the run's own folder, its policy.npz alone, or an output folder of several runs.
      run: the name of the run in an output folder; default: the first finished run, if the runs
        differ only in their seeds.
      agent: which agent's run, if the folder has several agents.
      trust: import the agent if it is not one of this library's. Its module is looked for in the
        current folder, too, and importing it runs its author's code.

    Without `trust` nothing that the files name is imported or called, unless you have started
    this run yourself on this machine, with code from the same files.
    """
    return Policy(*find_policy(source, run, agent, trust))


def find_policy(
    source: str | Path, run: str | None, agent: str | None, trust: bool
) -> tuple[About, dict[str, np.ndarray]]:
    """What a policy is made of; arguments as in `load`."""
    source, trust = values.path("source", source), values.flag("trust", trust)
    job = None
    if source.is_file():
        about, arrays = load_policy(source)
    else:
        found = _find_run(source, run, agent)
        (about, arrays), job = found.policy(), found.job
    if agent is not None and about.agent != agent:
        raise InputError(f"{source} holds a policy of {about.agent!r}, not of {agent!r}")
    is_known = trust or is_ours(about.agent)
    if not is_known and job is not None:  # a run of this user's, with the policy that it made
        is_known = (about.agent, about.config) == (job.agent, job.config) and is_own(job)
    if not is_known:
        raise InputError(
            f"the policy in {source} is of the agent {about.agent!r}, which is not part of lcpo, "
            "and you did not start this run here: loading it runs its author's code; pass "
            "trust=True if you trust both"
        )
    return about, arrays


def find_runs(folder: Path, run: str | None = None) -> list[Result]:
    """The runs of a folder that have a policy, or the one called `run`; also of a run's own folder.

    InputError if there is none.
    """
    if not folder.is_dir():
        raise InputError(
            f"{folder} is not a folder: give the folder of a run, or an output folder (--out)"
        )
    is_single = RunFiles(folder).manifest.exists()
    results = [load_result(folder)] if is_single else load_results(folder)
    found = {r.job.name: r for r in results if RunFiles(r.folder).policy.name in r.files}
    if not found:
        raise InputError(f"{folder} holds no finished run with a policy")
    if run is None:
        return list(found.values())
    if not isinstance(run, str) or run not in found:
        raise InputError(unknown("run", run, found, of=str(folder)))
    return [found[run]]


def _find_run(folder: Path, run: str | None, agent: str | None) -> Result:
    """The first of the selected runs, if they differ only in their seeds."""
    found = find_runs(folder, run)
    if len(found) == 1:
        return found[0]
    agents = sorted({r.job.agent for r in found})
    if agent is not None and agent not in agents:
        raise InputError(unknown("agent", agent, agents, of=str(folder)))
    kinds: dict[str, Result] = {}
    for result in found:
        if agent in (None, result.job.agent):
            kept = {k: v for k, v in result.job.to_json().items() if k not in ("name", "seed")}
            kinds.setdefault(json.dumps(kept, sort_keys=True), result)
    if len(kinds) == 1:
        return next(iter(kinds.values()))
    if agent is None and len(agents) > 1:
        raise InputError(
            f"{folder} holds runs of {', '.join(agents)}: choose an agent, as in "
            f"agent={agents[0]!r}, or a run, as in run={found[0].job.name!r}"
        )
    some = ", ".join(repr(result.job.name) for result in list(kinds.values())[:4])
    raise InputError(
        f"{folder} holds {len(kinds)} kinds of runs of {agent or agents[0]}, which differ in more "
        f"than their seeds: choose one with run=NAME, such as {some}"
    )
