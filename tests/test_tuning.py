"""`lcpo.tune` and `lcpo tune`: a small search from its request to its page, and its resume."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run
from each import for_each
from killing import kill

import lcpo
from lcpo import tuning
from lcpo.errors import InputError
from lcpo.run.events import Event, Finished
from lcpo.run.store.files import load_document, save_document
from lcpo.study.tune import history as histories
from lcpo.study.tune import judged, search
from lcpo.study.tune import report as reports
from lcpo.study.tune.history import Entry
from lcpo.study.tune.request import make_request, read_budget
from lcpo.study.tune.search import Limits

BANDIT = "lcpo.envs.probes:Bandit"
SMALL: dict[str, Any] = {
    "agents": "a2c[hidden=[8],rollout_length=20]",
    "env": BANDIT,
    "trace": "two-contexts",
    "search": "learning_rate=1e-4..0.1,entropy_coef=0.001|0.01,gamma=0.9,lam=0.9",
    "steps": 1000,
    "seeds": 2,
    "judge_seeds": 4,
    "beside": "constant:3",
    "trials": 6,
    "batch": 3,
    "workers": 0,
    "progress": False,
}
"""Five arms, of which one pays: the default learning rate is too small for 50 updates."""
COMMAND = [
    word
    for name in ("agents", "env", "trace", "search", "seeds", "judge_seeds", "beside", "batch")
    for word in (f"--{name.replace('_', '-')}", str(SMALL[name]))
] + ["--steps", "1000", "--workers", "0"]
"""The same on the command line, without its limits."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> lcpo.Tuning:
    return lcpo.tune(**SMALL, out=tmp_path_factory.mktemp("tune") / "o")


@pytest.fixture
def copy(found: lcpo.Tuning, tmp_path: Path) -> Path:
    """The folder of the search, to be changed."""
    shutil.copytree(found.out, tmp_path / "o")
    return tmp_path / "o"


def rounds(out: Path) -> list[Any]:
    """The history of a folder, but for times."""
    body = histories.to_json(search.load(out).history)["rounds"]
    return [{k: v for k, v in one.items() if k in ("new", "entries", "scores")} for one in body]


def test_it_finds_settings_that_are_better_than_the_defaults(found: lcpo.Tuning) -> None:
    assert found.config["learning_rate"] > 4e-4
    assert found.config["hidden"] == [8], "what the user has fixed"
    by_name = {one.other: one for one in found.beside}
    assert by_name["random"].verdict == "better"
    assert by_name["constant:3"].difference.mean < 0.0, "the best arm, always"
    default = by_name["a2c-hidden=[8]-rollout_length=20"]
    assert default.verdict == "better"
    assert default.difference.low > 0.0
    assert found.sentences[0].startswith("found settings are better than the defaults of a2c: +")
    assert len(found.sentences) == 1
    assert judged.best_constant(found.history) == "constant:3"
    assert found.history.baselines["constant:3"] == 1.0
    assert found.history.baselines["constant:0"] == 0.0


def test_the_judging_runs_are_new(found: lcpo.Tuning) -> None:
    seeds = {r.job.seed for r in found.results}
    assert seeds == {1000, 1001, 1002, 1003}
    assert seeds.isdisjoint(found.request.seeds)
    searched = {job.seed for job in search.trial_jobs(found.request, found.best, 1)}
    assert searched <= {0, 1}


def test_one_agent_with_two_fixed_settings_has_runs_of_its_own_for_each() -> None:
    agents = "a2c[hidden=[8]],a2c[hidden=[4]],ppo"
    request = make_request(
        agents, BANDIT, traces=["two-contexts"], judge_traces=None, steps=1000, seeds=1,
        judge_seeds=2, search="rollout_length=20", beside=(), warmup=None, seed=0, batch=3,
        scale=None, env_config=None, normalise=None,
    )  # fmt: skip
    tuned = [judged.label_of(request, histories.Trial(1, k, {"lam": 0.9})) for k in range(3)]
    assert tuned == ["a2c-hidden=[8]-tuned-1", "a2c-hidden=[4]-tuned-1", "ppo-tuned-1"]
    both = [Entry(0, 0), Entry(1, 0)]
    trials = tuple(histories.Trial(k, k, {"lam": 0.9}) for k in range(2))
    round_ = histories.Round(trials, tuple(both), ((1.0,), (2.0,)), 10, 1.0)
    names = [job.name for job in judged.jobs(request, histories.History((round_,)))]
    assert len(names) == len(set(names))


def test_trials_climb_from_short_runs_to_all_seeds(found: lcpo.Tuning) -> None:
    levels = found.request.levels
    assert [tuple(level) for level in levels] == [(500, 1), (1000, 1), (1000, 2)]
    assert len(found.history.trials) == 6
    assert found.history.reached(0) == 2, "the defaults"
    assert found.history.reached(found.best.number) == 2
    assert {found.history.reached(n) for n in range(6)} >= {0, 2}, "bad trials stay below"
    short = search.trial_jobs(found.request, found.best, 0)
    (whole,) = search.trial_jobs(found.request, found.best, 1)
    assert [(job.steps, job.sized_for) for job in short] == [(500, 1000)]
    assert whole.config == short[0].config, "sizes are those of the whole run"
    assert found.request.warmup_on(levels[0]) == 100
    assert found.request.warmup_on(levels[1]) == 100


def test_scores_are_the_returns_of_the_table(found: lcpo.Tuning) -> None:
    jobs = search.trial_jobs(found.request, found.best, 2)
    folder = search.search_folder(found.out)
    records = [r.record for r in lcpo.run.store.results.load_results(folder, jobs)]
    expected = [lcpo.run.store.record.mean_episode_return(x, 100) for x in records]
    entry = histories.Entry(found.best.number, 2)
    scores = {e: s for one in found.history.rounds for e, s in zip(*one[1:3], strict=True)}
    assert list(scores[entry]) == expected


def test_the_report(found: lcpo.Tuning) -> None:
    names = {path.name for path in found.files}
    tables = {f"{table}.csv" for table in ("table", "verdict", "settings", "trials")}
    assert {"report.json", "seeds.csv", "report.html", "search.png", "curves.png", *tables} <= names
    assert list(found.tables)[:4] == ["table", "verdict", "settings", "trials"]
    assert found.tables["table"].texts()[0][0] == f"a2c-tuned-{found.best.number}"
    assert "The search" in (found.out / "report.html").read_text()
    settings = {row[0]: row for row in found.tables["settings"].texts()}
    assert settings["learning_rate"][1:3] == ["0.0001..0.1", "0.0004"]
    assert str(found).endswith(found.sentences[-1])
    assert repr(found) == f"<Tuning of a2c: 6 trials in {found.out}>"


def test_the_printed_commands_run_the_found_settings(found: lcpo.Tuning, tmp_path: Path) -> None:
    import shlex

    for name in ("train", "compare"):
        words = shlex.split(found.commands[name])[1:]
        out = tmp_path / name
        more = ["--seeds", "1", "--plan-only"] if name == "train" else ["--workers", "0", "--quiet"]
        assert run(*words, "--out", str(out), *more) == 0
        jobs = lcpo.run.store.plans.planned_jobs(out)
        if name == "compare":
            seeds = {job.seed for job in jobs}
            assert seeds == set(found.request.judge_seeds), "the search chose on the others"
        wanted = search.trial_jobs(found.request, found.best, 1)[0]
        assert wanted.config in [job.config for job in jobs]
    assert eval(found.commands["config"]) == found.config


def test_the_printed_comparison_can_have_one_seed(found: lcpo.Tuning) -> None:
    """One number would be how many."""
    request = dataclasses.replace(found.request, judge_seeds=(1000,))
    assert reports.judged_on(request) == "1 seed"
    assert reports.commands(request, found.best)["compare"].endswith(" --seeds 1000,")


class Interrupted(Exception):
    """Of a test, in the middle of a round."""


def breaking(count: int) -> Any:
    ended: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, Finished):
            ended.append(event.job)
            if len(ended) == count:
                raise Interrupted

    return hear


def test_an_interrupted_search_has_the_same_history(found: lcpo.Tuning, tmp_path: Path) -> None:
    out = tmp_path / "o"
    for count, resume in ((2, False), (5, True), (4, True)):
        with pytest.raises(Interrupted):
            lcpo.tune(**SMALL, out=out, resume=resume, callbacks=[breaking(count)])
    assert 1 < len(rounds(out)) <= len(rounds(found.out))
    again = lcpo.tune(**SMALL, out=out, resume=True)
    assert rounds(out) == rounds(found.out)
    assert again.config == found.config
    assert again.tables["trials"] == found.tables["trials"]


def test_more_trials_continue_the_history(found: lcpo.Tuning, copy: Path) -> None:
    full = [one for one in rounds(copy) if len(one["new"]) == 3]
    assert run("tune", "--resume", "--out", str(copy), "--workers", "0", "--trials", "9") == 0
    later = rounds(copy)
    assert later[: len(full)] == full
    assert len(search.load(copy).history.trials) == 9
    assert search.load(copy).limits == Limits(9, None)


def test_a_longer_search_judges_what_it_finds_later(tmp_path: Path) -> None:
    """The runs that judged the first find stay, under the number of their trial."""
    first, later = (
        lcpo.tune(**{**SMALL, "trials": count}, out=tmp_path / "o", resume=count > 2)
        for count in (2, 6)
    )
    assert first.best.number == 1
    assert later.best.number > 1
    names = {path.name for path in (tmp_path / "o" / "runs").glob("*-tuned-*")}
    judged_ = {r.job.name for found in (first, later) for r in found.results}
    assert names == {name for name in judged_ if "-tuned-" in name}
    assert len(names) == 2 * SMALL["judge_seeds"]


def request_of(env: str, agents: Any = "a2c[hidden=[8]]", **more: Any) -> search.Request:
    given = {
        "traces": [None], "judge_traces": None, "steps": 1000, "seeds": 2, "judge_seeds": [0, 7],
        "search": "rollout_length=20", "beside": (), "warmup": None, "seed": 0, "batch": 3,
        "scale": None, "env_config": None, "normalise": None, **more,
    }  # fmt: skip
    return make_request(agents, env, **given)


def test_a_request_is_as_its_file_has_it(tmp_path: Path) -> None:
    """Tuples are lists there. Otherwise Python code could not resume what it began."""
    given = {"agents": [("a2c", {"hidden": (8, 8)})], "env_config": {"num_bins": 5}}
    request = request_of("pendulum", **given, normalise=(1.0,) * 3, judge_seeds=2)
    search.save(tmp_path, search.Search(request, Limits(1)))
    loaded = search.load(tmp_path).request
    tuning.check_same(loaded, request, tmp_path)
    assert loaded == request


def test_judging_data_are_new_however_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default trace by its name, and a file by another path."""
    monkeypatch.chdir(tmp_path)
    for name in ("wind.npy", "other.npy"):
        np.save(name, np.full((1000, 2), len(name), np.float32))
    for traces, again, new in (
        ([None], ["revisit"], ["family:drift:100"]),
        (["wind.npy"], [tmp_path / "wind.npy"], ["other.npy"]),
    ):
        with pytest.raises(InputError, match="the search uses seed 0 on trace"):
            request_of("pendulum", traces=traces, judge_traces=again)
        request_of("pendulum", traces=traces, judge_traces=new)


def test_a_resume_by_the_folder_alone_runs_nothing_twice(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in copy.glob("search/runs/*/manifest.json")}
    assert run("tune", "--resume", "--out", str(copy), "--workers", "0", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["agent"] == "a2c"
    assert shown["tables"]["verdict"][0]["verdict"] == "better"
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_budget_ends_the_search(found: lcpo.Tuning, tmp_path: Path) -> None:
    given = {**SMALL, "trials": None, "budget": 1e-3, "judge_seeds": 3}
    short = lcpo.tune(**given, out=tmp_path / "o")
    assert rounds(short.out) == rounds(found.out)[:1], "one round always runs: a prefix"
    assert short.request.judge_seeds == (1000, 1001, 1002)


def test_defaults_that_win_are_reported(found: lcpo.Tuning) -> None:
    history = found.history
    one = histories.Round((), (histories.Entry(0, 2),), ((9.0, 9.0),))
    best = judged.find(found.request, history._replace(rounds=(*history.rounds, one)))
    assert best.best == history.trials[0]
    assert tuning.reports.sentences(found.request, best, found.beside) == [
        "no settings were better than the defaults of a2c on the search data"
    ]


def worse(found: lcpo.Tuning, low: float, high: float) -> list[str]:
    default = found.beside[0]
    other = default._replace(difference=default.difference._replace(low=low, high=high))
    best = judged.find(found.request, found.history)
    return tuning.reports.sentences(found.request, best, [other])


def test_agents_that_are_better_are_reported(found: lcpo.Tuning) -> None:
    default, *others = found.beside
    below = [
        one._replace(difference=one.difference._replace(low=-0.2, high=-0.1)) for one in others
    ]
    best = judged.find(found.request, found.history)
    first, second = tuning.reports.sentences(found.request, best, [default, *below])
    assert first.startswith("found settings are better than the defaults")
    assert second.startswith(f"found settings are worse than {others[0].other} (")
    assert all(one.other in second for one in others)


def test_what_is_not_significant_is_reported(found: lcpo.Tuning) -> None:
    assert "not significantly better" in worse(found, -0.1, 0.5)[0]
    assert "keep the defaults" in worse(found, -0.1, 0.5)[1]
    assert "are worse than the defaults" in worse(found, -0.5, -0.1)[0]
    assert "too few seeds" in worse(found, float("nan"), float("nan"))[0]


@for_each("text, seconds", [("90s", 90.0), ("10min", 600.0), ("1.5h", 5400.0), (7, 7.0)])
def test_budgets(text: Any, seconds: float) -> None:
    assert read_budget(text) == seconds


BAD = [
    (["--budget", "10"], "budget = '10': needs a time such as 90s, 10min or 2h"),
    (["--budget", "0s"], "needs more than 0 seconds"),
    (["--trials", "0"], "trials = 0"),
    (["--batch", "0"], "batch = 0"),
    (["--agents", "prescient-a2c"], "trains first"),
    (["--agents", "a3c"], "unknown agent 'a3c'"),
    (["--search", "learning_rat=1..2"], "unknown setting to search 'learning_rat'"),
    (["--search", "gamma=2..3"], "at most 1"),
    (["--beside", "nobody"], "unknown agent 'nobody'"),
    (["--judge-seeds", "1,2"], "the search uses seed 1 on trace two-contexts, too"),
    (["--warmup", "1000"], "warm-up = 1,000 steps: needs 0 to 999"),
    (["--engine", "slurm"], "choose local or ray"),
    (["--engine", "moon"], "unknown engine 'moon'"),
    (["--steps", "10"], "at least one update"),
    (
        ["--agents", "ppo", "--search", "rollout_length=50|100,minibatches=10|20"],
        "the search includes rollout_length = 50 and minibatches = 20, which do not work together",
    ),
]


@for_each("more, message", BAD)
def test_bad_input_is_refused_before_any_work(
    more: list[str], message: str, tmp_path_factory: pytest.TempPathFactory, capsys: Any
) -> None:
    out = tmp_path_factory.mktemp("bad") / "o"
    at = [i for i in range(0, len(COMMAND), 2) if COMMAND[i] not in more]
    rest = [word for i in at for word in COMMAND[i : i + 2]]
    assert run("tune", *rest, *more, "--out", str(out)) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert not out.exists()


def test_folders_of_others_are_refused(found: lcpo.Tuning, copy: Path, capsys: Any) -> None:
    out = str(copy)
    assert run("tune", *COMMAND, "--trials", "6", "--out", out) == 2
    assert "already holds runs: resume them" in capsys.readouterr().err
    changed = [word.replace("gamma=0.9", "gamma=0.8") for word in COMMAND]
    assert run("tune", *changed, "--trials", "6", "--out", out, "--resume") == 2
    assert "holds another search (spaces: there" in capsys.readouterr().err
    (copy / "tune.json").unlink()
    assert run("tune", *COMMAND, "--trials", "6", "--out", out, "--resume") == 2
    assert "holds other runs" in capsys.readouterr().err
    assert run("tune", "--out", out, "--resume") == 2
    assert "holds no search to resume" in capsys.readouterr().err


def test_a_damaged_file_is_refused(copy: Path, capsys: Any) -> None:
    file = copy / "tune.json"
    file.write_text(file.read_text().replace('"seed": 0', '"seed": 1'))
    assert run("tune", "--out", str(copy), "--resume") == 2
    assert "is damaged" in capsys.readouterr().err


@for_each("field, name", [("env", "evil:Env"), ("agents", "evil:agent"), ("beside", "evil:rule")])
def test_code_that_only_the_search_names_is_not_imported(
    field: str, name: str, found: lcpo.Tuning, tmp_path_factory: pytest.TempPathFactory, capsys: Any
) -> None:
    out = tmp_path_factory.mktemp("evil") / "o"
    shutil.copytree(found.out, out)
    body = load_document(out / "tune.json", search.SCHEMA)
    body["request"][field] = name if field == "env" else [[name, {}]]
    if field == "agents":
        body["request"]["spaces"] = body["request"]["spaces"][:1]
    save_document(out / "tune.json", body.pop("schema"), body)
    assert run("tune", "--out", str(out), "--resume") == 2
    assert f"names '{name}', which its plan does not" in capsys.readouterr().err


def test_what_would_be_searched_is_listed(tmp_path: Path, capsys: Any) -> None:
    assert run("tune", *COMMAND, "--list", "--out", str(tmp_path / "o")) == 0
    shown = capsys.readouterr().out
    assert "a2c    learning_rate" in shown
    assert "level 2: 1,000 steps, 2 run(s) of each trial" in shown
    assert "3 new trials per round, 40 trials; judged on 4 seeds" in shown
    assert not (tmp_path / "o").exists()


def test_the_space_includes_what_the_environment_brings(tmp_path: Path, capsys: Any) -> None:
    """On the grid world LCPO+ has small limits, on the straggler task PPO has nine minibatches."""
    for env, agent, expected in (
        (
            "grid-world",
            "lcpo-plus",
            ("c_anchor             3e-07..0.01", "c_0                  1e-05"),
        ),
        ("straggler", "ppo", ("rollout_length       4608", "level 0: 50,000 steps")),
    ):
        words = ["--env", env, "--agents", agent, "--steps", "100000", "--out", str(tmp_path / "o")]
        assert run("tune", *words, "--list") == 0
        shown = capsys.readouterr().out
        assert [text for text in expected if text not in shown] == []


def test_short_runs_have_ten_updates_of_the_defaults(tmp_path: Path, capsys: Any) -> None:
    """Half of this run has four, so that trials start with whole runs."""
    words = ["--env", "straggler", "--agents", "a2c", "--steps", "40000", "--seeds", "2"]
    assert run("tune", *words, "--list", "--out", str(tmp_path / "o")) == 0
    shown = capsys.readouterr().out
    assert "rollout_length       25|50|100|200\n" in shown
    assert "level 0: 40,000 steps, 1 run(s) of each trial" in shown


def test_without_optuna_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"pip install 'lcpo\[tune\]'"):
        lcpo.tune(**SMALL, out=tmp_path / "o")


def test_runs_of_worlds_that_cannot_be_saved_begin_again(tmp_path: Path) -> None:
    """Their checkpoints would make the history depend on when the search was interrupted."""
    request = make_request(
        "a2c[hidden=[8],rollout_length=20]", "gym:CartPole-v1", traces=[None], judge_traces=None,
        steps=1000, seeds=1, judge_seeds=1, search=None, beside=(), warmup=None, seed=0, batch=3,
        scale=None, env_config=None, normalise=None,
    )  # fmt: skip
    jobs = search.trial_jobs(request, histories.Trial(0, 0, {}), 0)
    files = search.run_files(tmp_path, jobs[0].name)
    files.checkpoint.folder.mkdir(parents=True)
    files.checkpoint.manifest.write_text("{}")
    search.restart_inexact(request, jobs, tmp_path)
    assert not files.checkpoint.manifest.exists()


def killed(command: list[str], out: Path, moments: Iterator[Any]) -> int:
    """Run a command and kill it at each moment; how often it was."""
    count = 0
    for moment in moments:
        more = ["--resume"] if (out / "tune.json").exists() else []
        process = subprocess.Popen(
            [*command, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 120.0
        while not moment(out) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        if process.poll() is not None:
            return count
        kill(process.pid)
        process.wait()
        count += 1
    return count


@pytest.mark.learn
def test_two_kills_leave_the_history_as_it_is(found: lcpo.Tuning, tmp_path: Path) -> None:
    """With worker processes, which are killed with their driver or soon after."""
    out = tmp_path / "o"
    words = [*COMMAND[:-1], "2", "--trials", "6", "--out", str(out), "--checkpoint-seconds", "0"]
    command = [sys.executable, "-m", "lcpo.cli", "tune", *words]

    def runs(count: int) -> Any:
        return lambda out: len(list(out.glob("search/runs/*/manifest.json"))) >= count

    assert killed(command, out, iter([runs(3), runs(14)])) == 2
    subprocess.run([*command, "--resume"], check=True, capture_output=True, env={**os.environ})
    assert rounds(out) == rounds(found.out)
