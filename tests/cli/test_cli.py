"""The command line: what users type, what they are told, and that bad input does no work."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from commands import QUICK, run
from each import for_each

from lcpo.run.store.results import load_results


def test_list_names_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"agents", "envs", "detectors", "traces", "experiments"}
    assert {"lcpo", "a2c", "a2c-entropy", "lcpo-noent", "lcpo-uniform", "lcpo-mhd"} <= set(
        found["agents"]
    )
    assert {"pendulum", "grid-world"} <= set(found["envs"])
    assert {"1", "2", "3", "4"} <= set(found["traces"])
    assert run("list") == 0
    assert "grid-world" in capsys.readouterr().out


def test_the_probe_needs_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its trace and length are known."""
    probe = ("train", "--agent", "a2c", "--env", "probe-two-contexts", "--plan-only")
    assert run(*probe, "--out", str(tmp_path)) == 0
    assert "4 jobs planned" in capsys.readouterr().out


def test_help_shows_the_fields_of_the_chosen_agent(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "--agent", "lcpo", "--help") == 0
    shown = capsys.readouterr().out
    assert "--sigma" in shown
    assert "--env.num-bins" in shown
    assert run("train", "--agent", "a2c", "--help") == 0
    assert "--sigma" not in capsys.readouterr().out


def test_train_sweeps_reports_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "--agent", "lcpo", "--trace", "revisit", "--steps", "2000", "--seeds", "2",
               "--sweep", "sigma=1,50", "--out", str(tmp_path / "o"), *QUICK]  # fmt: skip
    assert run(*command) == 0
    shown = capsys.readouterr().out
    assert "lcpo-sigma=1" in shown
    assert "active in 0.0 % of updates" in " ".join(shown.split())
    assert run(*command) == 2
    assert "--resume" in capsys.readouterr().err
    assert run(*command, "--resume") == 0
    assert run(*command[: -len(QUICK)], *QUICK, "--resume", "--gamma", "0.5") == 2
    assert "config.gamma: there 0.99, now 0.5" in " ".join(capsys.readouterr().err.split())


@pytest.mark.learn
def test_a_run_too_short_to_say_which_sigma_would_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "--agent", "lcpo", "--trace", "revisit", "--steps", "40", "--seeds", "1"]
    assert run(*command, "--out", str(tmp_path / "o"), *QUICK) == 0
    assert "active in 0.0 % of updates" in capsys.readouterr().out


def test_compare_writes_tables_and_curves(tmp_path: Path) -> None:
    out, theirs = tmp_path / "o", tmp_path / "theirs"
    rows = "".join(f"ppo,pendulum,revisit,1,{step},-7\n" for step in range(200, 4001, 200))
    head = "# format: lcpo-import 1\n# code: torch\nagent,env,trace,seed,step,return\n"
    (tmp_path / "theirs.csv").write_text(head + rows)
    assert run("import", str(tmp_path / "theirs.csv"), "--out", str(theirs)) == 0
    assert run("compare", "--agents", "a2c,a2c-entropy", "--trace", "revisit", "--steps", "4000",
               "--seeds", "2", "--out", str(out), "--workers", "0", "--published",
               "--imported", str(theirs)) == 0  # fmt: skip
    assert {tuple(r.job.config["faults"]) for r in load_results(out)} == {("truncation-leaks",)}
    for name in ("table.txt", "table.md", "table.tex", "table.csv", "curves.png", "report.html"):
        assert (out / name).stat().st_size > 0
    row = "| imported:ppo | -7.00 ± - |"
    (line,) = [line for line in (out / "table.md").read_text().splitlines() if row in line]
    assert "| 1 of 2, 1 missing | -7.00 ± - |" in line
    for seed in (1, 2):  # tables of runs alone are made anew, when there are more
        (tmp_path / "theirs.csv").write_text(head + rows.replace(",1,", f",{seed + 1},"))
        assert run("report", str(theirs)) == 0
        assert f"| imported:ppo | -7.00 ± - | {seed} |" in (theirs / "table.md").read_text()
        assert run("import", str(tmp_path / "theirs.csv"), "--out", str(theirs)) == 0
    assert run("report", str(out), "--out", str(tmp_path / "page.html")) == 0
    page = (tmp_path / "page.html").read_text()
    assert page.replace("lcpo report", "lcpo compare", 1) == (out / "report.html").read_text()
    table = tmp_path / "all.csv"
    assert run("export", str(out), str(table)) == 0
    assert "a2c-entropy" in table.read_text()


def test_trace_and_calibrate_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("trace", "revisit", "--rows", "50000", "--out", str(tmp_path / "t.png")) == 0
    assert (
        run("calibrate", "--trace", "revisit", "--rows", "300000", "--out", str(tmp_path / "c.png"))
        == 0
    )
    assert (tmp_path / "t.png").exists()
    assert (tmp_path / "c.png").exists()
    assert "sigma" in capsys.readouterr().out


@pytest.mark.learn
def test_plan_only_writes_what_a_bare_machine_runs(tmp_path: Path) -> None:
    from lcpo.run import worker

    out = tmp_path / "o"
    assert run("train", "--agent", "a2c", "--trace", "revisit", "--steps", "400", "--seeds", "1",
               "--out", str(out), "--plan-only", *QUICK) == 0  # fmt: skip
    assert not (out / "runs").exists()
    assert worker.main([str(out / "plan.json")]) == 0
    assert (out / "runs" / "a2c-pendulum-revisit-s0" / "record.npz").exists()


BAD = {
    "unknown agent": (["train", "--agent", "lcop"], "did you mean 'lcpo'"),
    "unknown env": (["train", "--env", "pendulm"], "did you mean 'pendulum'"),
    "unknown trace": (["train", "--trace", "revist"], "did you mean 'revisit'"),
    "unknown field": (["train", "--trace", "3", "--sigm", "1"], "sigma"),
    "unknown sweep field": (
        ["train", "--trace", "3", "--sweep", "sigm=1,2"],
        "did you mean 'sigma'",
    ),
    "unknown command": (["trian"], "did you mean 'train'"),
    "unknown detector": (["train", "--trace", "3", "--detector", "l3"], "unknown detector"),
    "unknown fault": (["train", "--trace", "3", "--faults", "leaks"], "truncation-leaks"),
    "trace too short": (["train", "--trace", "3", "--steps", "9000000"], "has 8,000,000 rows"),
    "negative rate": (["train", "--trace", "3", "--learning-rate", "-1"], "at least 0"),
    "impossible size": (["train", "--trace", "3", "--hidden", "200000", "200000"], "GiB"),
    "no steps": (["train", "--trace", "revisit"], "number of steps"),
    "no trace": (["train", "--env", "inverted-pendulum"], "choose one"),
    "no seeds": (["train", "--trace", "3", "--seeds", "0"], "at least one"),
    "odd seeds": (["train", "--trace", "3", "--seeds", "x"], "3,7"),
    "tabular on pendulum": (["train", "--agent", "tabular-a2c", "--trace", "3"], "finite"),
    "too few steps": (["train", "--trace", "3", "--steps", "10"], "at least one update"),
    "missing module": (["train", "--agent", "no.such:agent"], "cannot import"),
    "warm-up too long": (
        ["compare", "--trace", "revisit", "--steps", "400", "--warmup", "400"],
        "warm-up = 400 steps: needs 0 to 399",
    ),
    "seed too large": (["train", "--trace", "3", "--seeds", "2147483648,"], "2,147,483,647"),
    "too many seeds": (["train", "--trace", "3", "--seeds", "100000000"], "at most 100,000"),
    "scale too large": (["train", "--trace", "3", "--scale", "1e39"], "scale = 1e+39"),
    "negative workers": (["train", "--trace", "3", "--workers", "-1"], "from 0 to 1,000"),
    "endless checkpoints": (["train", "--trace", "3", "--checkpoint-seconds", "nan"], "= nan"),
    "option twice": (["train", "--trace", "3", "--steps", "5", "--steps", "6"], "given twice"),
    "value twice": (["train", "--trace", "3", "--sweep", "sigma=1,1.0"], "without duplicates"),
    "field twice": (["train", "--trace", "3", "--sweep", "sigma=1", "sigma=2"], "swept twice"),
    "agent twice": (["compare", "--agents", "a2c,a2c", "--trace", "3"], "each once"),
    "option without value": (["train", "--trace", "3", "--agent"], "--agent needs a value"),
    "abbreviated option": (["train", "--trace", "3", "--ste", "5"], "did you mean --steps"),
    "value of a switch": (["train", "--trace", "3", "--resume=yes"], "takes no value"),
    "word too many": (["train", "3"], "does not belong to any option"),
    "odd number": (["train", "--trace", "3", "--steps", "1.5e0"], "needs a whole number"),
    "huge rollout": (
        ["train", "--agent", "a2c", "--env", "pendulum-v1", "--steps", "2000000000",
         "--rollout-length", "2000000000"],
        "GiB are free: make the sizes in its config smaller",
    ),
    "no experiment": (["reproduce", "grid-wrld"], "did you mean 'grid-world'"),
}  # fmt: skip


@for_each("name", BAD)
def test_bad_input_is_refused_before_any_work(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, expected = BAD[name]
    assert run(*arguments) == 2
    shown = capsys.readouterr()
    assert expected in " ".join((shown.out + shown.err).replace("│", " ").split())
    assert list(tmp_path.iterdir()) == [], "nothing may be written"


def test_a_bad_trace_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.zeros((5000, 2), np.float32)
    values[77, 1] = np.nan
    np.save(tmp_path / "nan.npy", values)
    np.save(tmp_path / "wide.npy", np.zeros((5000, 3), np.float32))
    for file, expected in {"nan.npy": "row 78", "wide.npy": "3 columns"}.items():
        out = tmp_path / "o"
        assert (
            run("train", "--trace", str(tmp_path / file), "--steps", "4000", "--out", str(out)) == 2
        )
        assert expected in " ".join(capsys.readouterr().err.split())
        assert not out.exists()


def test_a_folder_with_other_things_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    assert run("train", "--trace", "3", "--steps", "4000", "--out", str(tmp_path)) == 2
    assert "not empty" in capsys.readouterr().err
    assert [f.name for f in tmp_path.iterdir()] == ["thesis.tex"]
