"""Prescient runs: random starts, halved rates, frozen evaluation, stops in either phase."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stopping import Stop, assert_same_results, ignore, saved, stops_change_nothing

import lcpo
from lcpo import config as configs
from lcpo.agents import AGENTS, a2c, prescient
from lcpo.agents import lcpo as lcpo_agent
from lcpo.config import config, static, traced
from lcpo.envs.probes import Bandit, TwoContexts
from lcpo.run.drive import compiled, execute, group, rollout
from lcpo.run.drive.base import Program, Run, state_shapes
from lcpo.run.events import Event, Failed, Finished, Progress
from lcpo.run.plan.job import Job, Setup
from lcpo.run.plan.phases import Mode
from lcpo.run.plan.plan import plan
from lcpo.run.store import checkpoint
from lcpo.run.store.files import load_json
from lcpo.run.store.layout import run_files
from lcpo.run.store.results import load_results
from lcpo.types import Agent, ContextSlice, Spec, Step, Training

RANDOM = Mode(random_starts=True)
SMALL: dict[str, Any] = {"hidden": [8, 8], "rollout_length": 20}


@config
class Clock:
    """Shows the time of the episode; episodes have `length` steps. Two channels, three lags."""

    length: int = static(7, "episode length", low=1)
    by: str = static("step", "what moves the trace")

    @property
    def spec(self) -> Spec:
        return Spec(7, ContextSlice(1, channels=2, lags=3), (2,))

    @property
    def advance(self) -> Any:
        return self.by

    def reset(self, key: Any) -> tuple[Any, Any]:
        del key
        return jnp.float32(0.0), jnp.zeros(1)

    def step(self, state: Any, action: Any, context: Any, key: Any) -> tuple[Any, Step]:
        """The reward tells the context that acted."""
        del action, key
        state = state + 1.0
        return state, Step(state[None], context[0], jnp.bool_(False), state >= self.length)


def rows_seen(env: Any, rows: int, steps: int, seed: int = 0) -> Any:
    """A rollout on a trace whose row r is (r, -r): the batch, and the state after it."""
    spec, lags = env.spec, env.spec.context.lags
    trace = np.arange(rows, dtype=np.float32)[:, None] * np.array([[1.0, -1.0]], np.float32)
    trace = trace[:, : spec.context.channels]
    contexts = jax.device_put(rollout.load_contexts(trace, 0, rows, lags))
    chosen = jax.tree.map(jnp.float32, a2c.agent.config(rollout_length=steps, hidden=(4,)))
    key = jax.random.key(seed)
    program, run = Program(a2c.agent, spec, RANDOM), Run(chosen, env, jnp.int32(seed))
    state = rollout.init_run(program, run, contexts)

    @jax.jit
    def go(state: Any) -> Any:
        return rollout.rollout(program, run, state, contexts, jnp.int32(0), key)

    worlds, batch = go(state)
    return state, batch, state._replace(worlds=worlds)


def test_the_trace_jumps_at_resets_and_walks_in_between() -> None:
    rows, length = 11, 7
    first, batch, after = rows_seen(Clock(length=length), rows, 700)
    start = int(first.worlds.cursor[0])
    obs, following = np.asarray(batch.obs)[:, 0], np.asarray(batch.next_obs)[:, 0]
    assert obs[0, 1] == start
    ended = np.asarray(batch.truncated)[:, 0]
    assert ended.sum() == 100
    # The context that acts, and is seen afterwards, is the row after the one seen before.
    np.testing.assert_array_equal(following[:, 1], (obs[:, 1] + 1) % rows)
    np.testing.assert_array_equal(np.asarray(batch.reward)[:, 0], following[:, 1])
    walks = ~ended[:-1]
    np.testing.assert_array_equal(obs[1:][walks], following[:-1][walks])
    jumps = (obs[1:][~walks][:, 1] - following[:-1][~walks][:, 1]) % rows
    assert len(set(jumps)) == rows, "99 resets jump by all of 11 distances"
    assert int(after.worlds.cursor[0]) == (obs[-1, 1] if not ended[-1] else after.worlds.obs[0, 1])
    for shown in (obs, following):
        newest = shown[:, 1]
        history = np.stack([newest, newest - 1, newest - 2], axis=1).clip(0)
        np.testing.assert_array_equal(shown[:, 1:4], history)
        np.testing.assert_array_equal(shown[:, 4:7], -history)


@pytest.mark.learn
def test_starts_are_uniform() -> None:
    """Chi-square over 50 rows, 20,000 episodes of one step, and over the first starts of seeds."""
    _, batch, _ = rows_seen(Bandit(), 50, 20_000)
    starts = np.asarray(batch.obs)[1:, 0, -1].astype(int)
    assert_uniform(starts, 50)
    env, contexts = Bandit(), rollout.load_contexts(np.zeros((50, 1)), 0, 50, 1)
    chosen = jax.tree.map(jnp.float32, a2c.agent.config(rollout_length=1, hidden=(4,)))
    init = compiled.make_init(Program(a2c.agent, env.spec, RANDOM), many=True)
    many = 3000
    runs = Run(configs.stack([chosen] * many), configs.stack([env] * many), jnp.arange(many))
    assert_uniform(np.asarray(init(runs, contexts).worlds.cursor)[:, 0], 50)


def assert_uniform(rows: np.ndarray, count: int) -> None:
    found = np.bincount(rows, minlength=count)
    assert len(found) == count
    expected = len(rows) / count
    chi = ((found - expected) ** 2 / expected).sum()
    freedom = count - 1
    assert abs(chi - freedom) < 5.0 * np.sqrt(2.0 * freedom)
    assert abs(np.corrcoef(rows[1:], rows[:-1])[0, 1]) < 5.0 / np.sqrt(len(rows))


def test_by_episode_the_row_is_drawn_when_an_episode_ends() -> None:
    rows, length = 9, 5
    _, batch, _ = rows_seen(Clock(length=length, by="episode"), rows, 500)
    shown = np.asarray(batch.obs)[:, 0, 1].reshape(-1, length)
    assert (shown == shown[:, :1]).all(), "constant within an episode"
    assert len(set(shown[:, 0])) == rows
    np.testing.assert_array_equal(np.asarray(batch.reward)[:, 0], np.asarray(batch.obs)[:, 0, 1])


# A probe agent whose metrics tell what the driver gave it.


@config
class ProbeConfig:
    """Rates to halve, and one to leave alone."""

    rollout_length: int = static(10, "interactions per update", low=1)
    learning_rate: float = traced(1.0, "halved")
    other_rate: float = traced(1.0, "not halved")


def probe_update(config: Any, spec: Any, state: Any, batch: Any, key: Any) -> Any:
    del spec, key
    rates = {"rate": config.learning_rate, "other": config.other_rate}
    return state + 1.0, {k: jnp.asarray(v, jnp.float32) for k, v in rates.items()}


def probe_act(config: Any, spec: Any, state: Any, obs: Any, key: Any) -> Any:
    del config, spec, state, key
    return jnp.zeros((obs.shape[0], 1), jnp.int32), ()


probe = Agent(
    "probe",
    ProbeConfig,
    lambda config, spec, key: jnp.float32(0.0),
    probe_act,
    probe_update,
    training=Training(1000, halve=("learning_rate",), evaluation_length=25),
)
HERE = f"{__name__}:"


def probe_jobs(**more: Any) -> list[Job]:
    given: Any = {"trace": "revisit", "steps": 500, "seeds": [0], **more}
    return plan(HERE + "probe", "pendulum", **given)


def test_rates_are_halved_at_the_right_updates(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(group, "CHUNK_UPDATES", 7)  # a chunk's end is no matter
    execute.run_jobs(probe_jobs(overrides={"learning_rate": 0.3}), tmp_path, ignore, 1e9)
    (result,) = load_results(tmp_path)
    training = result.training
    assert training["step"].tolist() == [10 * (i + 1) for i in range(100)]
    times = [0] * 50 + [1] * 10 + [2] * 10 + [3] * 10 + [4] * 10 + [5] * 10
    np.testing.assert_array_equal(training["rate"], np.float32(0.3) / 2.0 ** np.array(times))
    np.testing.assert_array_equal(training["other"], 1.0)
    # The evaluation: epochs of 25 steps along the trace, and no update.
    assert result.record["step"].tolist() == [25 * (i + 1) for i in range(20)]
    assert "rate" not in result.record
    _, policy = result.policy()
    assert [v.item() for v in policy.values()] == [100.0], "100 updates, all of them in training"


@pytest.mark.learn
def test_halving_and_keys_count_updates() -> None:
    """Two updates of A2C with the rate halved before the second are those of two rates."""
    env, trace = TwoContexts(), np.ones((50, 1), np.float32)
    contexts = rollout.load_contexts(trace, 0, 50, 1)
    chosen = jax.tree.map(jnp.float32, a2c.agent.config(rollout_length=8, hidden=(4,)))
    half = dataclasses.replace(chosen, learning_rate=0.5 * chosen.learning_rate)
    program, seed = Program(a2c.agent, env.spec), jnp.int32(0)
    state = compiled.make_init(program)(Run(chosen, env, seed), contexts)
    mode = Mode(halve=("learning_rate",), halve_at=(1,))

    def go(chunk: Any, chosen: Any, state: Any, first: int, count: int) -> Any:
        copy = jax.tree.map(jnp.array, state)
        where = jnp.int32(first), jnp.int32(count)
        return chunk(Run(chosen, env, seed), copy, contexts, *where)[0]

    plain = compiled.make_chunk(program, 2)
    halved = go(compiled.make_chunk(program._replace(mode=mode), 2), chosen, state, 0, 2)
    by_hand = go(plain, half, go(plain, chosen, state, 0, 1), 1, 1)
    never = go(plain, chosen, state, 0, 2)
    jax.tree.map(np.testing.assert_array_equal, halved.agent.policy, by_hand.agent.policy)
    assert not np.array_equal(halved.agent.policy[0][0], never.agent.policy[0][0])
    # On a constant trace an update differs from the next one in its keys only, and those of a
    # later phase go on where the phase before ended.
    later = compiled.make_chunk(program._replace(mode=Mode(first_update=1)), 2)
    second, shifted = go(plain, chosen, state, 1, 1), go(later, chosen, state, 0, 1)
    jax.tree.map(np.testing.assert_array_equal, second.agent.policy, shifted.agent.policy)


def small_jobs(agent: str = "prescient-a2c", seeds: Any = (0,), **more: Any) -> list[Job]:
    given: Any = {"trace": "revisit", "steps": 4000, "training_steps": 2000, "overrides": SMALL}
    return plan(agent, "pendulum", seeds=seeds, **{**given, **more})


@pytest.mark.learn
def test_the_evaluation_walks_the_trace_once_with_the_trained_policy(tmp_path: Path) -> None:
    """Record and policy against phases run by hand."""
    (job,) = small_jobs()
    execute.run_jobs([job], tmp_path, ignore, 1e9)
    (result,) = load_results(tmp_path)
    assert result.record["step"].tolist() == list(range(200, 4001, 200))
    assert result.training["step"][-1] == 2000
    setup = Setup(job)
    training, evaluation = setup.phases
    trace = lcpo.contexts.get("revisit", 4000)
    whole = rollout.load_contexts(trace, 0, 4000, 3)
    run = Run(jax.tree.map(jnp.float32, setup.config), setup.env, jnp.int32(0))
    program = Program(setup.agent, setup.spec, training.mode)
    state = compiled.make_init(program)(run, whole)
    state, _ = compiled.make_chunk(program, 100)(run, state, whole, jnp.int32(0), jnp.int32(100))
    trained = jax.tree.map(np.array, state.agent)
    _, policy = result.policy()
    found = checkpoint.unflatten(trained, policy)
    jax.tree.map(np.testing.assert_array_equal, found, trained)

    along = rollout.load_contexts(trace, 0, 4001, 3)
    program = program._replace(mode=evaluation.mode)
    state = compiled.make_init(program)(run, along, state.agent)
    assert state.worlds.cursor.tolist() == [0]
    run = run._replace(config=dataclasses.replace(run.config, rollout_length=200))
    chunk = compiled.make_chunk(program, 20)
    state, metrics = chunk(run, state, along, jnp.int32(0), jnp.int32(20))
    assert state.worlds.cursor.tolist() == [4000]
    np.testing.assert_array_equal(result.record["reward"], metrics["reward"])
    np.testing.assert_array_equal(result.record["epoch_return"], metrics["episode_return_sum"])
    jax.tree.map(np.testing.assert_array_equal, state.agent, trained)


def test_no_two_updates_share_a_key() -> None:
    (job,) = small_jobs()
    training, evaluation = Setup(job).phases
    assert training.mode.first_update == 0
    assert evaluation.mode.first_update == training.num_updates == 100
    assert (training.end, evaluation.end) == (100, 120)
    assert [p.step_at(u) for p, u in ((training, 0), (training, 99), (evaluation, 100))] == [
        0, 1980, 2000,
    ]  # fmt: skip


# An agent with a memory: it must not be carried through the evaluation.
prescient_lcpo = prescient(lcpo_agent.agent, steps=2000, buffer_size=50)


@pytest.mark.learn
@pytest.mark.parametrize("agent", ["prescient-a2c", HERE + "prescient_lcpo"])
def test_stopped_in_both_phases_equals_never_stopped(
    agent: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """A checkpoint after every chunk, and a fresh start from disk for every chunk."""
    monkeypatch.setattr(group, "CHUNK_UPDATES", 8)
    jobs = small_jobs(agent)
    manifest = run_files(tmp_path / "cut", jobs[0].name).checkpoint.manifest
    resumed = [0]

    def stop(event: Event) -> None:
        if isinstance(event, Progress) and manifest.exists():
            update = load_json(manifest)["update"]
            if update > resumed[-1]:
                resumed.append(update)
                raise Stop

    stops_change_nothing(jobs, tmp_path, stop)
    assert sum(0 < update < 100 for update in resumed) >= 5, "in the training"
    assert sum(100 < update < 120 for update in resumed) >= 1, "in the evaluation"
    names = {name.split(":")[0].split("/")[1] for name in saved(tmp_path / "whole")}
    assert names == {"record.npz", "training.npz", "policy.npz"}


def test_a_checkpoint_of_the_evaluation_holds_no_memory(tmp_path: Path) -> None:
    (job,) = small_jobs(HERE + "prescient_lcpo")
    setup = Setup(job)
    early, late = (state_shapes(setup, update).agent for update in (99, 100))
    assert early.memory is not None
    assert late.memory is None
    assert job.config["buffer_size"] == 50


def test_sizes_given_as_a_share_are_of_the_training() -> None:
    variant = prescient(lcpo_agent.agent)
    monkey = {"prescient-lcpo": variant}
    assert variant.training == Training(32_000_000, ("learning_rate",))
    AGENTS.update(monkey)
    try:
        (job,) = small_jobs("prescient-lcpo", training_steps=3000)
    finally:
        del AGENTS["prescient-lcpo"]
    assert job.config["buffer_size"] == 30


@pytest.mark.learn  # of other runs: tests/run/test_run.py
def test_seed_alone_equals_seed_in_a_group(tmp_path: Path) -> None:
    """Through worker processes, as the command line runs them."""
    arguments: Any = {
        "trace": "revisit", "steps": 1000, "training_steps": 1000, "config": SMALL,
        "progress": False,
    }  # fmt: skip
    lcpo.train("prescient-a2c", seeds=[7], out=tmp_path / "alone", **arguments)
    lcpo.train("prescient-a2c", seeds=[6, 7], out=tmp_path / "group", **arguments)
    name = "prescient-a2c-pendulum-revisit-s7"
    assert_same_results(tmp_path / "alone/runs" / name, tmp_path / "group/runs" / name)


@pytest.mark.learn  # of other runs: tests/run/test_run.py, test_segments.py
def test_vmapped_group_agrees_with_single_runs_and_resumes(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """What a GPU does with a group, stopped once in each phase."""
    monkeypatch.setattr(group, "CHUNK_UPDATES", 10)
    jobs = small_jobs(seeds=(0, 1), sweep={"learning_rate": [1e-3, 1e-2]})
    execute.run_jobs(jobs, tmp_path / "single", ignore, 1e9)
    setups = [Setup(job) for job in jobs]
    assert len({s.statics() for s in setups}) == 1
    assert Setup(small_jobs(training_steps=3000)[0]).statics() != setups[0].statics()
    group.Group(setups, tmp_path / "group", ignore, 1e9).run([None] * 4)
    singles, together = load_results(tmp_path / "single"), load_results(tmp_path / "group")
    for one, other in zip(singles, together, strict=True):
        # Rounding differs between the two programs and grows: compare the first rows only.
        for column in ("reward", "value_loss"):
            np.testing.assert_allclose(
                one.training[column][:3], other.training[column][:3], rtol=2e-3, atol=1e-4
            )

    def stop_at(step: int) -> Any:
        def stop(event: Event) -> None:
            if isinstance(event, Progress) and event.step > step:
                raise KeyboardInterrupt

        return stop

    for step in (1000, 4000):
        loaded = [execute._load_checkpoint(s, tmp_path / "cut") for s in setups]
        with pytest.raises(KeyboardInterrupt):
            group.Group(setups, tmp_path / "cut", stop_at(step), -1.0).run(loaded)
    loaded = [execute._load_checkpoint(s, tmp_path / "cut") for s in setups]
    assert {c.update for c in loaded if c} == {110}
    group.Group(setups, tmp_path / "cut", ignore, 1e9).run(loaded)
    assert_same_results(tmp_path / "group", tmp_path / "cut")


@pytest.mark.learn
def test_a_run_that_diverges_in_training_is_not_judged(tmp_path: Path) -> None:
    jobs = small_jobs(sweep={"learning_rate": [1e-3, 1e30]})
    events: list[Event] = []
    group.Group([Setup(job) for job in jobs], tmp_path, events.append, 1e9).run([None] * 2)
    kinds = [type(event) for event in events if not isinstance(event, Progress)]
    assert kinds == [Finished, Failed]
    good, bad = load_results(tmp_path)
    assert bad.failure is not None
    assert bad.failure["phase"] == "training"
    assert bad.record == {}
    assert not (bad.folder / "record.npz").exists()
    assert len(good.record["step"]) == 20
    steps = [e.step for e in events if isinstance(e, Progress) and e.job == good.job.name]
    assert steps == [2000, 6000]


@pytest.mark.learn
def test_the_training_sees_only_the_rows_of_the_evaluation(tmp_path: Path) -> None:
    """A trace longer than the run: what comes after the run's end is not its future."""
    trace = np.zeros((5000, 1), np.float32)
    trace[1001:] = 1e6
    np.save(tmp_path / "t.npy", trace)
    module = f"{TwoContexts.__module__}:TwoContexts"
    execute.run_jobs(
        plan("prescient-a2c", module, trace=str(tmp_path / "t.npy"), steps=1000,
             training_steps=4000, seeds=[0], overrides=SMALL),
        tmp_path / "o", ignore, 1e9,
    )  # fmt: skip
    (result,) = load_results(tmp_path / "o")
    assert result.training["largest_obs"].max() <= 1.0
    assert result.record["largest_obs"].max() <= 1.0


@pytest.mark.learn
def test_prescient_training_learns_both_contexts(tmp_path: Path) -> None:
    """Right in A is wrong in B, and B comes last: the frozen policy must know both."""
    trace = np.repeat([1.0, -1.0], 2000)[:, None].astype(np.float32)
    np.save(tmp_path / "t.npy", trace)
    module = f"{TwoContexts.__module__}:TwoContexts"
    (result,) = lcpo.train(
        "prescient-a2c", module, trace=str(tmp_path / "t.npy"), training_steps=24_000, seeds=1,
        config={"hidden": [16], "rollout_length": 40, "learning_rate": 0.01}, workers=0,
        progress=False, out=tmp_path / "o",
    )  # fmt: skip
    assert result.job.steps == 4000, "once along the trace"
    right = result.record["epoch_return"]
    assert right[:10].mean() > 0.9
    assert right[10:].mean() > 0.9


@pytest.mark.learn
def test_grid_world_trains_from_random_episodes(tmp_path: Path) -> None:
    (result,) = lcpo.train(
        "prescient-a2c", "grid-world", steps=4000, training_steps=4000, seeds=1, workers=0,
        config={"rollout_length": 200}, progress=False, out=tmp_path,
    )  # fmt: skip
    assert result.job.config["gamma"] == 0.95, "the environment's presets"
    assert {"tv_trap", "tv_no_trap"} <= result.record.keys()
    assert len(result.record["step"]) == 20


@pytest.mark.learn
def test_a_users_own_environment(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    monkeypatch.chdir(tmp_path)
    np.save("outside.npy", np.sin(np.arange(2000) / 100.0)[:, None])
    (result,) = lcpo.train(
        "prescient-a2c", "own_environment:Thermostat", trace="outside.npy", training_steps=4000,
        seeds=1, config=SMALL, workers=0, progress=False,
    )  # fmt: skip
    assert result.status == "finished"
    assert result.record["step"][-1] == 2000
    assert lcpo.load(result.folder).act(np.zeros(4)).shape == (1,)


def test_jobs_survive_json() -> None:
    import json

    (job,) = small_jobs()
    text = json.loads(json.dumps(job.to_json()))
    assert Job.from_json(text, "") == job
    assert Setup(Job.from_json(text, "")).statics() == Setup(job).statics()
    checkpoint.check_same(text, job.to_json(), "there")
    (other,) = small_jobs(training_steps=1000)
    with pytest.raises(ValueError, match=r"training\.steps: there 2000, now 1000"):
        checkpoint.check_same(job.to_json(), other.to_json(), "there")


@config
class OwnContext(Bandit):
    """Makes its own context: the only feature it has."""

    @property
    def spec(self) -> Spec:
        return Spec(1, ContextSlice(0, channels=1, lags=1), (self.num_actions,))

    @property
    def advance(self) -> Any:
        return "own"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "own context": ({"env": HERE + "OwnContext", "trace": None}, "makes its own context"),
    "no plan": ({"agent": "a2c"}, "learns while it is evaluated"),
    "too few": (
        {"training_steps": 10},
        "training steps = 10: needs at least one update, 20 steps of agent 'prescient-a2c'",
    ),
    "short": ({"steps": 100}, "steps = 100: needs at least one epoch, 200 steps"),
    "field": ({"agent": HERE + "misspelt", "overrides": {}}, "did you mean 'learning_rate'"),
}
misspelt = dataclasses.replace(probe, training=Training(1000, halve=("learning_rat",)))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    change, match = REFUSED[name]
    given = {
        "agent": "prescient-a2c", "env": "pendulum", "trace": "revisit", "steps": 4000,
        "training_steps": 2000, "overrides": SMALL, "seeds": [0], **change,
    }  # fmt: skip
    with pytest.raises(ValueError, match=match):
        plan(given.pop("agent"), given.pop("env"), **given)


def test_the_published_plans() -> None:
    plan_of = AGENTS["prescient-a2c"].training
    assert plan_of == Training(32_000_000, ("learning_rate",))
    (job,) = plan("prescient-a2c", "pendulum", trace="4", seeds=[0])
    training, evaluation = Setup(job).phases
    assert (training.num_updates, training.rollout_length) == (10_000, 3200)
    assert training.mode.halve_at == (5000, 6000, 7000, 8000, 9000)
    assert (evaluation.num_updates, evaluation.rollout_length) == (40_000, 200)
    assert job.total_steps == 40_000_000
