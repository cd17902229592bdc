"""Results of other code: what becomes of them, and what is refused with the line that is wrong."""

from __future__ import annotations

import csv
import dataclasses
import errno
import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from each import for_each

from lcpo.errors import InputError
from lcpo.run.store.files import save_document
from lcpo.run.store.results import Result, load_results
from lcpo.study.measure import compare
from lcpo.study.report import html, imports, output, report
from lcpo.study.report.export import export
from lcpo.study.report.imports import import_file

ABOUT = "# format: lcpo-import 1\n# code: torch-ppo\n# command: python train.py\n"
HEADER = "agent,env,trace,seed,step,return\n"


def write(folder: Path, text: str, name: str = "theirs.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def read(folder: Path, text: str) -> list[Result]:
    import_file(write(folder, text), folder / "o")
    return load_results(folder / "o")


def test_episodes_become_epochs(tmp_path: Path) -> None:
    """Two episodes in the first epoch of 200 steps, none in the second, a block of 3 after it."""
    rows = [(120, "-10", 1), (200, "-20", 1), (450, "-30", 3), (600, "-50", 1), (610, "7", 1)]
    text = ABOUT + "# steps: 799\n" + HEADER.replace("\n", ",episodes,seconds\n")
    text += "".join(f"ppo,pendulum,3,5,{step},{r},{n},{step / 100}\n" for step, r, n in rows)
    (run,) = read(tmp_path, text)
    assert (run.job.agent, run.job.seed, run.job.steps) == ("imported:ppo", 5, 600)
    assert (run.job.scale, run.job.env_config["max_steps"]) == (1.0, 200)
    assert run.seconds == 6.1
    record = run.record
    np.testing.assert_array_equal(record["step"], [200, 400, 600])
    np.testing.assert_array_equal(record["episodes"], [2, 0, 4])
    np.testing.assert_allclose(record["epoch_return"], [-15.0, 0.0, -35.0])
    assert compare.run_return(record, 0, False) == pytest.approx(-25.0)


def test_rewards_and_metrics_are_means_of_epochs(tmp_path: Path) -> None:
    text = ABOUT + "# epoch: 10\n" + HEADER.replace("\n", ",reward,loss\n")
    text += "".join(f"ppo,mine,,0,{step},,{step},{2 * step}\n" for step in (4, 8, 20))
    (run,) = read(tmp_path, text)
    np.testing.assert_allclose(run.record["reward"], [6.0, 20.0])
    np.testing.assert_allclose(run.record["loss"], [12.0, 40.0])
    assert compare.summarise([run], warmup=0).rows[0].whole_run.mean == pytest.approx(13.0)


def test_they_stand_in_tables_and_are_marked(tmp_path: Path) -> None:
    text = ABOUT + "# device: gpu\n" + HEADER
    for agent, base in (("ppo", -300.0), ("sac", -400.0)):
        for seed in range(2):
            steps = range(200, 4001, 200)
            text += "".join(f"{agent},pendulum,3,{seed},{s},{base - seed}\n" for s in steps)
    results = read(tmp_path, text)
    out = tmp_path / "o"
    found = compare.summarise(results, reference="imported:sac")
    assert found.rows[0].difference is not None
    assert (found.rows[0].label, found.rows[0].difference.mean) == ("imported:ppo", 100.0)
    assert "imported:sac: not run here but imported, made by torch-ppo" in found.notes
    made = output.how_made(results)
    assert made["imported"] == {"imported:ppo": "torch-ppo", "imported:sac": "torch-ppo"}
    assert (made["commit"], made["device"]) == ([], ["gpu"])
    page = html.write_page(out).read_text()
    assert "finished, imported" in page
    assert "<code>python train.py</code>" in page
    assert math.isnan(results[0].seconds)


def test_the_example_of_the_page_is_right(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "import.md").read_text()
    (text,) = re.findall(r"```text\n(# format.*?)```", page, re.S)
    (run,) = read(tmp_path, text)
    assert (run.job.steps, run.record["episodes"].sum()) == (8_000_000, 2)


def test_a_folder_of_several_traces_has_a_table_for_each(tmp_path: Path) -> None:
    rows = "".join(f"ppo,pendulum,{trace},0,{step},-1\n" for trace in "34" for step in (200, 400))
    read(tmp_path, ABOUT + HEADER + rows)
    names = {path.name for path in report.write_tables(tmp_path / "o")}
    tables = {f"table-pendulum-{k}.{form}" for k in "34" for form in ("md", "tex", "csv")}
    assert names >= tables | {"seeds.csv", "curves-pendulum-3.svg", "curves-pendulum-4.png"}


GOOD = "ppo,pendulum,3,0,200,-1\n"
BAD = {
    "no format": (HEADER + GOOD, "must begin with '# format: lcpo-import 1', it has no such line"),
    "other format": ("# format: 2\n" + HEADER + GOOD, "it has '2'"),
    "no code": ("# format: lcpo-import 1\n" + HEADER + GOOD, "does not name the code"),
    "unknown name": (ABOUT + "# comit: 1\n" + HEADER + GOOD, "line 4: .*did you mean 'commit'"),
    "no value": (ABOUT + "# note\n" + HEADER + GOOD, "line 4: needs '# name: value'"),
    "twice": (ABOUT + "# code: x\n" + HEADER + GOOD, "code is given twice"),
    "no column": (ABOUT + "agent,env,seed,step,return\n", "line 4: the header has no trace"),
    "column twice": (ABOUT + HEADER.replace("\n", ",step\n") + GOOD, "names a column twice"),
    "reserved": (ABOUT + HEADER.replace("\n", ",epochs\n") + GOOD, "cannot be called 'epochs'"),
    "no rows": (ABOUT + HEADER, "has no rows"),
    "empty": ("", "must begin with"),
    "cells": (ABOUT + HEADER + GOOD + "ppo,pendulum\n", "line 6: 2 cells, the header has 6"),
    "step": (ABOUT + HEADER + "ppo,pendulum,3,0,1e3,-1\n", "line 5: step = '1e3'"),
    "seed": (ABOUT + HEADER + "ppo,pendulum,3,-1,200,-1\n", "line 5: seed = '-1'"),
    "order": (ABOUT + HEADER + GOOD + "ppo,pendulum,3,0,100,-1\n", "line 6: step = 100 after 200"),
    "return": (ABOUT + HEADER + "ppo,pendulum,3,0,200,x\n", "line 5: return = 'x'"),
    "not finite": (ABOUT + HEADER + "ppo,pendulum,3,0,200,nan\n", "line 5: return = nan"),
    "no number at all": (ABOUT + HEADER + "ppo,pendulum,3,0,200,\n", "no return and no reward"),
    "beyond": (ABOUT + "# steps: 100\n" + HEADER + GOOD, "line 6: step = 200 is beyond the 100"),
    "too short": (ABOUT + HEADER + "ppo,pendulum,3,0,100,-1\n", "0 epochs of 200 steps"),
    "gap": (ABOUT + HEADER.replace("\n", ",loss\n") + "ppo,pendulum,3,0,500,-1,2\n",
            "no row for loss in the epoch of 200 steps that ends at step 200"),
    "trace": (ABOUT + HEADER + "ppo,pendulum,revist,0,200,-1\n", "did you mean 'revisit'"),
    "no trace": (ABOUT + HEADER + "ppo,pendulum,,0,200,-1\n", "pendulum needs one as its trace"),
    "env config": (ABOUT + "# env_config: {\"max_step\": 1}\n" + HEADER + GOOD, "'max_steps'"),
    "no agent": (ABOUT + HEADER + ",pendulum,3,0,200,-1\n", "line 5: agent is empty"),
    "odd agent": (ABOUT + HEADER + "a\\b,pendulum,3,0,200,-1\n", "rename the agent"),
    "seconds": (ABOUT + HEADER.replace("\n", ",seconds\n") + "ppo,pendulum,3,0,200,-1,-5\n",
                "line 5: seconds = -5.0: needs a number from 0"),
    "no csv": (ABOUT + HEADER + "\"ppo\"x,pendulum\n", "line 5: not valid CSV"),
}  # fmt: skip


@for_each("name", BAD)
def test_bad_files_are_refused(name: str, tmp_path: Path) -> None:
    text, why = BAD[name]
    with pytest.raises(InputError, match=why):
        import_file(write(tmp_path, text), tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_folders_that_are_in_use_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path, ABOUT + HEADER + GOOD)
    import_file(file, tmp_path / "o")
    with pytest.raises(InputError, match=r"has a run imported\.ppo-pendulum-3-s0 already"):
        import_file(file, tmp_path / "o")
    both = GOOD.replace("ppo", "a/b") + GOOD.replace("ppo", "a_b")
    with pytest.raises(InputError, match=r"two runs would be called imported\.a_b-pendulum"):
        import_file(write(tmp_path, ABOUT + HEADER + both), tmp_path / "o")
    import_file(write(tmp_path, ABOUT + HEADER + GOOD.replace(",0,", ",1,")), tmp_path / "o")
    assert len(load_results(tmp_path / "o")) == 2
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "plan.json").write_text("{}")
    with pytest.raises(InputError, match="holds runs of lcpo"):
        import_file(file, tmp_path / "ours")


THREE = ABOUT + HEADER + "".join(GOOD.replace(",0,", f",{seed},") for seed in range(3))
STEPS = [("save_document", 0), *itertools.product(("save_arrays", "save_outcome"), (0, 1, 2))]


class Killed(BaseException):
    """Nothing is cleaned up after it."""


def breaking(monkeypatch: pytest.MonkeyPatch, what: str, after: int, error: BaseException) -> None:
    """Let a step of an import fail when it has been made so many times."""
    real, calls = getattr(imports, what), itertools.count()

    def fail(*arguments: Any) -> Any:
        if next(calls) == after:
            raise error
        return real(*arguments)

    monkeypatch.setattr(imports, what, fail)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(("what", "after"), STEPS)
def test_a_killed_import_is_not_taken_for_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, after: int, before: bool
) -> None:
    file, out = write(tmp_path, THREE), tmp_path / "o"
    if before:
        import_file(write(tmp_path, THREE.replace("ppo", "sac"), "earlier.csv"), out)
    with monkeypatch.context() as patch:
        breaking(patch, what, after, Killed())
        patch.setattr(imports, "_remove", lambda *arguments: None)
        with pytest.raises(Killed):
            import_file(file, out)
    if (what, after) != STEPS[0]:  # nothing was begun there
        for read_it in (load_results, html.write_page, report.write_tables):
            with pytest.raises(InputError, match=r"is unfinished|holds no"):
                read_it(out)
    import_file(file, out)
    assert len(load_results(out)) == (6 if before else 3)
    assert {path.name for path in out.iterdir()} == {"runs"}


@pytest.mark.parametrize(("what", "after"), STEPS)
def test_an_import_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, after: int
) -> None:
    file, out = write(tmp_path, THREE), tmp_path / "o"
    with monkeypatch.context() as patch:
        breaking(patch, what, after, OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(InputError, match=r"cannot write .*: No space left"):
            import_file(file, out)
    assert not out.exists()
    import_file(file, out)


def test_imports_go_into_a_folder_of_their_own(tmp_path: Path) -> None:
    file, theirs = write(tmp_path, THREE), tmp_path / "theirs"
    (theirs / "runs").mkdir(parents=True)
    with pytest.raises(InputError, match="was not written by lcpo import"):
        import_file(file, theirs)
    assert [path.name for path in theirs.rglob("*")] == ["runs"]
    forged = theirs / "importing.json"
    save_document(forged, imports.SCHEMA, {"runs": [".."]})
    with pytest.raises(InputError, match="was not written by `lcpo import`: delete it"):
        import_file(file, theirs)
    assert (theirs / "runs").is_dir()


def test_of_an_environment_that_is_not_ours_only_what_is_told_is_compared(tmp_path: Path) -> None:
    """Its other fields cannot be known here without running its author's code."""
    text = ABOUT + '# env_config: {"context": "key:load"}\n' + HEADER
    text += "ppo,mine:Env,,0,200,-1\nppo,mine:Env,,1,200,-1\n"
    theirs = read(tmp_path, text)
    job = dataclasses.replace(theirs[0].job, agent="a2c")
    ours = theirs[0]._replace(provenance={})
    told = {"context": "key:load", "bins": 15}
    fits = ours._replace(job=dataclasses.replace(job, env_config=told))
    assert len(compare.summarise([*theirs, fits], warmup=0).rows) == 2
    other = ours._replace(job=dataclasses.replace(job, env_config={**told, "context": "info"}))
    with pytest.raises(InputError, match=r"env_config.context \('key:load', 'info'\)"):
        compare.summarise([*theirs, other], warmup=0)


def test_what_others_wrote_is_no_formula_in_a_table(tmp_path: Path) -> None:
    text = ABOUT + "# device: =HYPERLINK(1)\n" + HEADER
    read(tmp_path, text + "ppo,=1+1,,0,200,-1\nppo,=1+1,,1,200,-2\n")
    export(tmp_path / "o", tmp_path / "all.csv")
    header, first, *_ = csv.reader((tmp_path / "all.csv").read_text().splitlines())
    row = dict(zip(header, first, strict=True))
    assert (row["env"], row["epoch_return"]) == ("'=1+1", "-1.0")
    report.write_tables(tmp_path / "o")
    _, first, *_ = csv.reader((tmp_path / "o" / "seeds.csv").read_text().splitlines())
    assert {"'=1+1", "'=HYPERLINK(1)", "-1.0"} <= set(first)
