"""NS-Gym's CartPole through our commands, and its own DQN in our table: `make test-peers`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcpo.cli import main

pytest.importorskip("ns_gym")
EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))
torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # small networks: more threads only wait for each other
STEPS = 1200
ENV = ["--env.context", "key:force"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_their_environment_is_sound(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check-env", "ns_gym_cartpole:make", *ENV]) == 0
    shown = capsys.readouterr().out
    assert "5 observation entries, of which 1 context" in shown


def flat(obs: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([obs["state"], obs["force"]])


def play_their_dqn(seed: int) -> list[tuple[int, float]]:
    """(step, return) of every episode of NS-Gym's own DQN, which learns as it goes."""
    import ns_gym_cartpole
    from ns_gym.benchmark_algorithms.DDQN.DDQN import DQNAgent

    torch.manual_seed(seed)
    env, agent = ns_gym_cartpole.make(), DQNAgent(5, 2, seed=seed)
    obs, total, episodes = flat(env.reset(seed=seed)[0]), 0.0, []
    for step in range(1, STEPS + 1):
        action = int(agent.act(obs, eps=max(0.05, 1.0 - step / 600)))
        answer, reward, terminated, truncated, _ = env.step(action)
        after: Any = flat(answer)
        agent.step(obs, action, float(reward), after, terminated)
        obs, total = after, total + float(reward)
        if terminated or truncated:
            episodes.append((step, total))
            obs, total = flat(env.reset()[0]), 0.0
    return episodes


def test_their_dqn_stands_in_our_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    lines = [
        "# format: lcpo-import 1", "# code: https://github.com/scope-lab-vu/ns_gym",
        "# versions: ns_gym 1.0.12", f"# steps: {STEPS}",
        '# env_config: {"context": "key:force"}', "agent,env,trace,seed,step,return",
    ]  # fmt: skip
    for seed in (0, 1):
        lines += [
            f"ns-gym-dqn,ns_gym_cartpole:make,,{seed},{step},{total}"
            for step, total in play_their_dqn(seed)
        ]
    Path("theirs.csv").write_text("\n".join(lines) + "\n")
    assert main.main(["import", "theirs.csv", "--out", "theirs"]) == 0
    compare = ["compare", "--agents", "lcpo,a2c", "--env", "ns_gym_cartpole:make", *ENV]
    more = ["--steps", str(STEPS), "--seeds", "2", "--out", "ours", "--workers", "0"]
    assert main.main([*compare, *more, "--imported", "theirs"]) == 0
    shown = capsys.readouterr().out
    rows = [line.split() for line in shown.splitlines()]
    for agent in ("lcpo", "a2c", "imported:ns-gym-dqn"):
        (row,) = [row for row in rows if row[:1] == [agent]]
        assert 9.0 <= float(row[1]) <= 500.0, "nobody falls at once, or never"
