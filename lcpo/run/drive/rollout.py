"""A run of a compiled environment as pure functions: start, collect, update.

A run is a pure function of (seed, config, environment, trace). Its keys come from (seed, update
index) and its contexts from the step index, so a run does not depend on how it is cut into chunks,
stopped or resumed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.core import random
from lcpo.envs.base import AnyEnv, ObsLayout, entries, obs_layout, select, trace_rows
from lcpo.run.drive import base
from lcpo.run.drive.base import Program, Run, RunState, Worlds
from lcpo.run.plan.budget import num_operations
from lcpo.run.plan.phases import config_at
from lcpo.types import Array, Metrics, Spec, Step, Transition, Tree

UNROLL = {"cpu": 1, "gpu": 20}
"""Steps per iteration of a rollout's loop: on a GPU this saves most of the loop's own cost."""
MOST_OPERATIONS = 5_000
"""Operations in one iteration: fewer steps share it where one has many, or compiling takes long."""
MOST_CHOSEN = 64
"""Most columns that `_choose` puts side by side: its work grows with their square."""


class Contexts(NamedTuple):
    """Rows of a trace on the device, [rows, channels].

    Row `r` of the trace is at `r - first + lags - 1`: the rows before it are its history.
    """

    rows: Array
    first: Array

    def length(self, lags: int) -> int:
        """Number of rows that have their history here."""
        return self.rows.shape[0] - max(lags - 1, 0)

    def history(self, cursor: Array, lags: int) -> Array:
        """[lags, channels], newest first, when row `cursor` is the newest."""
        window = jax.lax.dynamic_slice_in_dim(self.rows, cursor - self.first, lags)
        return window[::-1]


def load_contexts(trace: np.ndarray, first: int, count: int, lags: int) -> Contexts:
    """Rows first .. first + count - 1 with their histories."""
    begin, end = first - lags + 1, first + count
    if begin >= 0 and end <= len(trace):
        rows = trace[begin:end]  # no copy
    else:
        rows = trace[trace_rows(np.arange(begin, end), len(trace))]
    return Contexts(np.asarray(rows, np.float32), np.int32(first))  # pyright: ignore


def init_run(
    program: Program, run: Run, contexts: Contexts, agent_state: Tree | None = None
) -> RunState:
    """State before the first update of a run or, with its agent's state, of a later phase."""
    spec, num_worlds = program.spec, program.spec.num_worlds
    agent_key, key = base.init_keys(run.seed)
    if agent_state is None:
        agent_state = program.agent.init(run.config, spec, agent_key)
    else:
        key = base.restart_key(run.seed)
    env_state, features = jax.vmap(run.env.reset)(jax.random.split(key, num_worlds))
    num_rows = contexts.length(spec.context.lags)
    cursor = base.first_rows(key, num_rows, num_worlds, program.mode)
    worlds = Worlds(env_state, features, _history(run.env, spec, contexts, cursor), cursor)
    return RunState(agent_state, worlds, jnp.zeros(num_worlds), jnp.zeros(num_worlds))


def run_update(
    program: Program, run: Run, state: RunState, contexts: Contexts, update: Array
) -> tuple[RunState, Metrics]:
    """One rollout and, if the mode says so, one update; `update` is its index in the phase."""
    run = run._replace(config=config_at(program.mode, run.config, update))
    rollout_key, learn_key = base.update_keys(run.seed, update, program.mode)
    first_step = update * run.config.rollout_length
    worlds, batch = rollout(program, run, state, contexts, first_step, rollout_key)
    return base.learn(program, run, state._replace(worlds=worlds), batch, learn_key)


def rollout(
    program: Program, run: Run, state: RunState, contexts: Contexts, first_step: Array, key: Array
) -> tuple[Worlds, Transition]:
    """Collect `rollout_length` steps.

    With random starts, `contexts` is the whole trace: every episode starts at a random row of it,
    and its first row follows its last one, with the history that it has there.
    """
    (agent, spec, mode), (config, env, _) = program, run
    num_steps, num_worlds = config.rollout_length, spec.num_worlds
    by_step, rows = env.advance == "step", contexts.length(spec.context.lags)
    layout = obs_layout(spec, env.advance)
    # Keys, reset states and starts are drawn before the scan: inside it they would cost A2C a
    # third of its speed.
    keys = base.rollout_keys(key)
    each = (num_steps, num_worlds)
    act_keys = random.scan_keys(keys.act, (num_steps,))
    step_keys = random.scan_keys(keys.step, each)
    resets = jax.vmap(jax.vmap(env.reset))(jax.random.split(keys.reset, each))
    starts = None
    if mode.random_starts:
        starts = jax.random.randint(keys.start, each, 0, rows, jnp.int32)

    known = None  # rows and their histories, if they do not depend on what happens
    if by_step and not mode.random_starts:
        ahead = first_step + 1 + jnp.arange(num_steps)
        cursors = jnp.broadcast_to(ahead[:, None], each)
        known = cursors, jax.vmap(lambda cursor: _history(env, spec, contexts, cursor))(cursors)

    def advance(worlds: Worlds, inputs: tuple) -> tuple[Worlds, tuple]:
        """One step: where the next one starts, and the rest of the transition."""
        act_key, step_keys, (fresh_state, fresh_features), start, known = inputs
        # On a GPU a step is two kernels: the policy with its draw, then all the rest.
        action, extra = jax.lax.optimization_barrier(
            agent.act(config, spec, state.agent, worlds.obs, act_key)
        )
        # The row of the transition that starts now. The agent does not see it before it acts.
        if known:
            cursor, history = known
        else:
            cursor = (worlds.cursor + 1) % rows if by_step else worlds.cursor
            history = _history(env, spec, contexts, cursor)
        step: Step
        env_state, step = jax.vmap(env.step)(worlds.env, action, layout.newest(history), step_keys)
        ended = step.terminated | step.truncated
        action = action if step.action is None else step.action
        units = None if spec.unit_steps else (step.elapsed, step.weight)
        units = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_worlds,)), units)
        seen = step.obs, None if known else history
        rest = (seen, action, step.reward, step.terminated, step.truncated, units)
        if mode.random_starts:
            cursor = jnp.where(ended, start, cursor)
        elif not by_step:
            cursor = (cursor + ended.astype(jnp.int32)) % rows
        if known is None:
            history = _history(env, spec, contexts, cursor)
        fresh = Worlds(fresh_state, fresh_features, history, cursor)
        following = select(ended, fresh, Worlds(env_state, step.obs, history, cursor))
        return following, (*rest, extra, step.readings)

    inputs = (act_keys, step_keys, resets, starts, known)
    before, worlds, outputs = packed_scan(advance, state.worlds, inputs)
    (features, history), action, reward, terminated, truncated, units, *rest = outputs
    next_obs = ObsLayout.join(features, known[1] if known else history)
    units = units or (jnp.ones(each),) * 2
    return worlds, Transition(
        before.obs, action, reward, next_obs, terminated, truncated, *units, *rest
    )


def _history(env: AnyEnv, spec: Spec, contexts: Contexts, cursor: Array) -> Array:
    """Context entries [N, H] of the observation at rows `cursor` [N]."""
    if env.advance == "own":
        return jnp.zeros((spec.num_worlds, 0))
    return jax.vmap(lambda c: entries(contexts.history(c, spec.context.lags)))(cursor)


def packed_scan(step: Callable, carry: Tree, inputs: Tree) -> tuple[Tree, Tree, Tree]:
    """Scan `step(carry, input) -> (carry, output)` over leaves [N, ...], packed into one array.

    `lax.scan` copies each array that it carries and writes each array that it returns with
    operations of their own. In a rollout, where the arrays are tiny, those cost more than the
    network. Returns (the carries before each step [T, N, ...], the last carry, the outputs
    [T, N, ...]).
    """
    program, shapes = jax.make_jaxpr(step, return_shape=True)(
        carry, jax.tree.map(lambda x: x[0], inputs)
    )
    most = max(1, MOST_OPERATIONS // num_operations(program.jaxpr))
    unroll = min(UNROLL.get(jax.default_backend(), 1), most)
    leaves, structure = jax.tree.flatten(shapes)
    sizes = [x.size // x.shape[0] for x in leaves]
    ends = np.cumsum(sizes)

    def pack(tree: Tree) -> Array:
        """Leaves [N, ...] as one int32 array [N, M], bit for bit."""
        parts = [_cast(x.reshape(x.shape[0], -1), jnp.int32) for x in jax.tree.leaves(tree)]
        if jax.default_backend() == "cpu" or ends[-1] > MOST_CHOSEN:
            return jnp.concatenate(parts, axis=-1)
        return _choose(parts)

    def unpack(row: Array) -> Tree:
        # As floats before it is cut: neighbours that are joined again are then one slice.
        floats = jax.lax.bitcast_convert_type(row, jnp.float32)
        parts = []
        for like, size, end in zip(leaves, sizes, ends, strict=True):
            part = (floats if like.dtype == jnp.float32 else row)[..., end - size : end]
            parts.append(_cast(part.reshape(like.shape), like.dtype))
        return jax.tree.unflatten(structure, parts)

    def body(row: Array, given: Tree) -> tuple[Array, Array]:
        before, _ = unpack(jax.lax.optimization_barrier(row))  # else XLA computes it again
        row = pack(step(before, given))
        return row, row

    # The first row has no output yet: zeros.
    first = pack((carry, jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes[1])))
    last, rows = jax.lax.scan(body, first, inputs, unroll=unroll)
    carries, outputs = jax.vmap(unpack)(rows)
    before = jax.tree.map(lambda c, later: jnp.concatenate([c[None], later[:-1]]), carry, carries)
    return before, unpack(last)[0], outputs


def _cast(x: Array, dtype: jnp.dtype) -> Array:
    """Bit for bit between types of 4 bytes; bool and small integers by value."""
    if x.dtype.itemsize == jnp.dtype(dtype).itemsize == 4:
        return x if x.dtype == dtype else jax.lax.bitcast_convert_type(x, dtype)
    return x.astype(dtype)


def _choose(leaves: list[Array]) -> Array:
    """`concatenate(leaves, axis=-1)` of [N, M_i], in which each entry looks at all columns.

    On a GPU the threads of a concatenation diverge, and run one after the other. Here all threads
    compute all columns at once, and each keeps its own, so that XLA can fuse this with the step
    before it into one kernel.
    """
    columns = [leaf[:, i : i + 1] for leaf in leaves for i in range(leaf.shape[1])]
    place = jnp.arange(len(columns))[None]
    row = jnp.broadcast_to(columns[-1], (columns[-1].shape[0], len(columns)))
    for i, column in enumerate(columns[:-1]):
        row = jnp.where(place == i, column, row)
    return row
