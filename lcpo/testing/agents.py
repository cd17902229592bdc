"""The contracts of agents, checked on random interactions: no learning, hence quick."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo.envs.pendulum import Pendulum
from lcpo.errors import InputError
from lcpo.run.drive import compiled
from lcpo.run.drive.base import Program, Run
from lcpo.run.drive.rollout import load_contexts
from lcpo.run.plan import check as plan_check
from lcpo.run.store.checkpoint import without_memory
from lcpo.testing import contracts
from lcpo.testing.contracts import Broken, Contracts, require
from lcpo.testing.random_worlds import RandomWorld, random_batch, random_obs, random_trace
from lcpo.types import Agent, AnyAgent, Array, Spec, Transition, Tree
from lcpo.values import refuse

UPDATES = 4
"""That are run at most: sizes that are shares of a run's steps count in this many."""
CLOSE = 2e-4
"""Relative and absolute: one program may round differently from another."""


def check_agent(
    agent: AnyAgent, spec: Spec | None = None, *, skip: Collection[str] = (), **config: Any
) -> None:
    """Raise ContractError with the first contract in `AGENT_CONTRACTS` that the agent breaks.

    Args:
      agent: an `lcpo.types.Agent`.
      spec: of an environment that the agent supports; default: the windy pendulum's.
      skip: names of contracts that do not apply, such as "episode ends" if a model of the
        environment learns from every successor.
      config: fields of the agent's config. Small networks and buffers make the checks quicker.
        Choose values with which the agent learns from its second update on.
    """
    if not isinstance(agent, Agent):
        refuse("agent", agent, "an lcpo.types.Agent")
    case = AgentCase(agent, agent.config(**config), Pendulum().spec if spec is None else spec)
    contracts.check_all(f"agent {agent.name!r}", AGENT_CONTRACTS, case, skip)


@functools.cache
def compiled_function(function: Callable[..., Any]) -> Any:
    """An agent's `init`, `act` or `update` under jit; variants of an agent share it."""
    return jax.jit(function, static_argnums=1)


class AgentCase:
    """An agent with a config and a spec, and a state after two updates."""

    def __init__(self, agent: AnyAgent, config: Any, spec: Spec) -> None:
        plan_check.check_spec(spec)
        self.agent, self.spec = agent, spec
        self.num_steps = getattr(config, "rollout_length", 1)  # "shapes" reports a missing one
        self.given = configs.resolve(config, UPDATES * self.num_steps * spec.num_worlds)
        self.config = jax.tree.map(jnp.float32, self.given)

    def check(self, contract: str) -> None:
        """Raise ContractError if the agent breaks this contract."""
        contracts.check(f"agent {self.agent.name!r}", AGENT_CONTRACTS, contract, self)

    def init(self, key: Array) -> Tree:
        return compiled_function(self.agent.init)(self.config, self.spec, key)

    def act(self, state: Tree, obs: Array, key: Array) -> tuple[Array, Any]:
        return compiled_function(self.agent.act)(self.config, self.spec, state, obs, key)

    def update(self, state: Tree, batch: Transition, key: Array) -> tuple[Tree, Any]:
        return compiled_function(self.agent.update)(self.config, self.spec, state, batch, key)

    def batch(self, key: Array, ends: bool = True) -> Transition:
        """Random interactions; with `extra` as `act` returns it."""
        batch = random_batch(self.spec, key, self.num_steps, ends)
        extra = self._extra
        if not jax.tree.leaves(extra):
            return batch._replace(extra=extra)
        keys = jax.random.split(key, self.num_steps)
        played = [self.act(self.fresh, obs, k) for obs, k in zip(batch.obs, keys, strict=True)]
        action, extra = jax.tree.map(lambda *x: jnp.stack(x), *played)
        return batch._replace(action=action, extra=extra)

    @cached_property
    def fresh(self) -> Tree:
        return self.init(jax.random.key(0))

    @cached_property
    def _extra(self) -> Any:
        """Shapes of what `act` returns beside the action."""
        obs = jnp.zeros((self.spec.num_worlds, self.spec.obs_size))
        act = functools.partial(self.agent.act, self.config, self.spec)
        return jax.eval_shape(act, self.fresh, obs, jax.random.key(0))[1]

    @cached_property
    def state(self) -> Tree:
        """After two updates, so that buffers hold something."""
        state = self.fresh
        for i in range(2):
            state, _ = self.update(state, self.batch(jax.random.key(i)), jax.random.key(i))
        return state

    def after_end(self, kind: str) -> list[Tree]:
        """States after a batch whose last step ended as `kind`, each with another successor.

        There are several successors, because a table has the same values for many of them.
        """
        batch = self.batch(jax.random.key(7), ends=False)
        batch = batch._replace(**{kind: getattr(batch, kind).at[-1].set(True)})
        found = (batch.next_obs.at[-1].set(obs) for obs in self._successors())
        return [
            self.update(self.state, batch._replace(next_obs=x), jax.random.key(0))[0] for x in found
        ]

    def _successors(self) -> list[Array]:
        """Observations [N, D] of earlier batches, and one from far away."""
        seen = self.batch(jax.random.key(1)).obs[:3]
        highest = self.spec.obs_levels
        far = jnp.full(self.spec.obs_size, 3.0) if highest is None else jnp.float32(highest) - 1.0
        return [jnp.broadcast_to(far, seen[0].shape), *seen]

    def learns(self) -> bool:
        """Whether rewards reach the state. They do not reach that of a rule."""
        batch = self.batch(jax.random.key(7), ends=False)
        more = batch._replace(reward=batch.reward + 5.0)
        after = [self.update(self.state, data, jax.random.key(0))[0] for data in (batch, more)]
        return differ(map(without_memory, after))


def _shapes(case: AgentCase) -> None:
    """`init`, `act` and `update` return arrays of the shapes and dtypes in lcpo.types.Agent."""
    try:
        plan_check.check_agent(case.agent, case.config, case.spec)
    except InputError as error:
        raise Broken(str(error).removeprefix(f"agent {case.agent.name}: ")) from error


def _config(case: AgentCase) -> None:
    """A config survives JSON: its fields are numbers, texts, flags and tuples of these."""
    plain = json.loads(json.dumps(configs.to_json(case.given)))
    again = configs.make(case.agent.Config, plain)
    require(again == case.given, f"{case.given} became {again}")


def _state(case: AgentCase) -> None:
    """`update` keeps shapes and dtypes of the state, and its numbers are finite."""
    after, metrics = case.update(case.state, case.batch(jax.random.key(5)), jax.random.key(5))
    for old, new in ((case.fresh, case.state), (case.state, after)):
        leaves = jax.tree_util.tree_leaves_with_path(old)
        for (path, a), b in zip(leaves, jax.tree.leaves(new), strict=True):
            change = f"state{jax.tree_util.keystr(path)} was {_kind(a)} and became {_kind(b)}"
            require(_kind(a) == _kind(b), f"{change}: update compiles again for it")
    for name, tree in {"metrics": metrics, "the state": without_memory(after)}.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            sound = not jnp.issubdtype(leaf.dtype, jnp.floating) or not jnp.isnan(leaf).any()
            where = jax.tree_util.keystr(path)
            require(sound, f"{name}{where} is not a number after three updates")
    for name, value in metrics.items():
        require(np.isfinite(value), f"metric {name!r} is {value} after three updates")


def _keys(case: AgentCase) -> None:
    """Results depend on the arguments alone, and all randomness comes from the key."""
    key, batch = jax.random.key(3), case.batch(jax.random.key(3))
    calls = {"init": (key,), "act": (case.state, batch.obs[0], key)}
    for name, given in (calls | {"update": (case.state, batch, key)}).items():
        function = functools.partial(getattr(case.agent, name), case.config, case.spec)
        # NumPy's random numbers, and a counter, become constants of a program when it is traced.
        traced = [jax.make_jaxpr(lambda *x, f=function: f(*x))(*given) for _ in range(2)]
        texts = [re.sub("0x[0-9a-f]+", "", str(program)) for program in traced]
        pure = texts[0] == texts[1] and not differ(program.consts for program in traced)
        require(pure, f"two traces of {name} differ: it reads something that is not an argument")
        results = [getattr(case, name)(*given) for _ in range(2)]
        require(not differ(results), f"two calls of {name} with the same arguments differ")


def _acting(case: AgentCase) -> None:
    """`act` works on a state without its field `memory`, and returns valid actions."""
    obs = random_obs(case.spec, jax.random.key(3), (case.spec.num_worlds,))
    action, extra = case.act(case.state, obs, jax.random.key(9))
    slim = case.act(without_memory(case.state), obs, jax.random.key(9))
    require(not differ([(action, extra), slim]), "without `memory` the action is another one")
    for one in np.asarray(action):
        valid = case.spec.actions.contains(one)
        require(valid, f"action {one.tolist()} is none of the {case.spec.actions}")


def _episode_ends(case: AgentCase) -> None:
    """`update` bootstraps from the successor of a truncated step, not of a terminated one."""
    if not case.learns():
        return
    nowhere = "another successor of a truncated step changes nothing: its value is left out"
    require(differ(map(without_memory, case.after_end("truncated"))), nowhere)
    beyond = "another successor of a terminated step changes the state: nothing follows that step"
    require(not differ(map(without_memory, case.after_end("terminated"))), beyond)


def _vmap(case: AgentCase) -> None:
    """Runs that differ in seed and traced fields give the same together as one by one."""
    names = configs.traced_fields(case.agent.Config)
    members = [case.given, case.given]
    for name in names:
        value = 0.5 * getattr(case.given, name) + 0.01
        members.append(dataclasses.replace(case.given, **{name: value}))
    keys = jax.random.split(jax.random.key(1), len(members))
    batches = [[case.batch(jax.random.fold_in(key, i)) for i in range(2)] for key in keys]

    def run(config: Any, key: Array, batches: list[Transition]) -> Any:
        init, update = map(compiled_function, (case.agent.init, case.agent.update))
        state, metrics = init(config, case.spec, key), None
        for i, batch in enumerate(batches):
            state, metrics = update(config, case.spec, state, batch, jax.random.fold_in(key, 9 + i))
        return without_memory(state), metrics

    stacked = jax.tree.map(lambda *x: jnp.stack(x), *batches)
    together = jax.vmap(run)(configs.stack(members), keys, stacked)
    last = len(members) - 1
    for i in sorted({0, 1, min(2, last), last}):
        alone = run(jax.tree.map(jnp.float32, members[i]), keys[i], batches[i])
        changed = f" with {names[i - 2]} changed" if i > 1 else ""
        mine = jax.tree.map(lambda x, i=i: x[i], together)
        require(
            not differ([mine, alone], CLOSE), f"run {i}{changed} differs from the same run alone"
        )


def _resume(case: AgentCase) -> None:
    """A run that is stopped and resumed equals one that never stopped; `memory` is not copied."""
    driven = _Driven(case)
    half = jax.tree.map(np.array, driven.go(driven.start, 0, 2))
    whole, resumed = driven.go(driven.start, 0, 4), driven.go(half, 2, 2)
    require(not differ([whole, resumed]), "four updates at once differ from two and two")
    # A large buffer that the program copies would cost more than all else (types.Agent.memory).
    for leaf in jax.tree.leaves(getattr(driven.start.agent, "memory", None)):
        shape = ",".join(map(str, leaf.shape))
        kind = {"f": "f", "i": "s", "u": "u"}[leaf.dtype.kind] + str(8 * leaf.dtype.itemsize)
        copied = re.findall(rf"{kind}\[{shape}\]\S* copy\(", driven.program.as_text())
        require(leaf.size < 8 or not copied, f"memory of shape [{shape}] is copied in each update")


def _kind(leaf: Array) -> str:
    """Its shape and dtype; a weak dtype adapts to others, and counts as another one."""
    return f"{'weak ' if leaf.weak_type else ''}{leaf.dtype}{list(leaf.shape)}"


class _Driven:
    """An agent in a random world, in one compiled program; at most four updates at a time."""

    def __init__(self, case: AgentCase) -> None:
        env, rows = RandomWorld(spec=case.spec), UPDATES * case.num_steps + 1
        self.contexts = load_contexts(
            random_trace(case.spec, rows), 0, rows, case.spec.context.lags
        )
        program = Program(case.agent, case.spec)
        self.run = Run(case.config, env, jnp.int32(3))
        self.start = compiled.make_init(program)(self.run, self.contexts)
        chunk: Any = compiled.make_chunk(program, UPDATES)
        self.program = chunk.lower(*self._arguments(self.start, 0, UPDATES)).compile()

    def _arguments(self, state: Any, first: int, count: int) -> tuple:
        return self.run, state, self.contexts, jnp.int32(first), jnp.int32(count)

    def go(self, state: Any, first: int, count: int) -> Any:
        """Updates first .. first + count - 1, from a state that is kept."""
        mine = jax.tree.map(jnp.array, state)
        return self.program(*self._arguments(mine, first, count))[0]


AGENT_CONTRACTS: Contracts[AgentCase] = {
    "shapes": _shapes,
    "config": _config,
    "state": _state,
    "keys": _keys,
    "acting": _acting,
    "episode ends": _episode_ends,
    "vmap": _vmap,
    "resume": _resume,
}
"""What every agent promises, by name, the cheapest first."""


def differ(trees: Iterable[Tree], tolerance: float = 0.0) -> bool:
    """Whether any tree holds other numbers than the first one."""
    first, *others = (jax.tree.leaves(tree) for tree in trees)
    close = functools.partial(np.allclose, rtol=tolerance, atol=tolerance, equal_nan=True)
    return not all(all(map(close, first, other)) for other in others)
