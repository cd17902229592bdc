"""The page of a folder: what it shows, that it is whole and safe, and which folders are refused."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lcpo.cli import main
from lcpo.contexts import TraceRef
from lcpo.errors import InputError
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import plan
from lcpo.run.store.plans import planned_jobs, save_plan
from lcpo.study.commands import train_command
from lcpo.study.measure.stats import Estimate
from lcpo.study.report import earlier, html, html_folder, html_table, output
from lcpo.study.report.cells import Cell, Column, Count, Noted, Printed, columns, sort_number
from lcpo.study.report.tables import Table
from lcpo.study.study import Picture, Report

RESULTS = Path(__file__).parents[2] / "results"
EVIL = "<script>alert(1)</script>\"><img src=x onerror='alert(2)'>&amp;"


class Page(HTMLParser):
    """The elements and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        last = self.elements[-1][0] if self.elements else ""
        if last in ("script", "style") and data.strip():
            self.inside.setdefault(last, data)
        self.texts.append(data)


def check_safe(text: str) -> Page:
    """One script and one style, both of them allowed by digest; nothing from elsewhere."""
    page = Page(text)
    tags = [tag for tag, _ in page.elements]
    assert (tags.count("script"), tags.count("style")) == (1, 1)
    (policy,) = [a["content"] for _, a in page.elements if "http-equiv" in a]
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data:; ")
    assert "unsafe" not in policy
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.inside[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    for _, attributes in page.elements:
        assert not {"style", "href", "srcset", "action"} & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("src") or "data:").startswith("data:")
    return page


@pytest.mark.parametrize("folder", ["pendulum-baselines", "straggler-workload-1", "grid-world"])
def test_committed_results_become_pages(folder: str, tmp_path: Path) -> None:
    file = html.write_page(RESULTS / folder, tmp_path / "page.html")
    page = check_safe(file.read_text())
    assert folder in page.texts
    assert json.loads((RESULTS / folder / "made.json").read_text())["command"][0] in page.texts
    pictures = [a for tag, a in page.elements if tag == "img"]
    assert len(pictures) == len(list((RESULTS / folder).glob("*.png")))


def test_traces_that_count_on_are_told_in_short(tmp_path: Path) -> None:
    members = [f"family:{kind}:{n}" for kind in ("revisit", "drift") for n in (0, 1, 2)]
    made = {"traces": [*members, "family:drift:7", "4"], "files": ["table.md"]}
    (tmp_path / "made.json").write_text(json.dumps(made))
    (tmp_path / "table.csv").write_text("agent,return\nlcpo,-1\n")
    page = check_safe(html.write_page(tmp_path, tmp_path / "page.html").read_text())
    short = "family:revisit:0..2 · family:drift:0..2 · family:drift:7 · 4"
    assert short in page.texts
    assert "files" not in page.texts


def test_what_files_say_is_text(tmp_path: Path) -> None:
    """In every place that a page takes text from."""
    folder = tmp_path / "<b>folder"
    folder.mkdir()
    table = Table([Column(EVIL, key=EVIL), "agent"], [[EVIL, EVIL]], title=EVIL, notes=[EVIL])
    (folder / "a<i>.md").write_text(table.to_markdown())
    (folder / "seeds.csv").write_text(table.to_csv())
    (folder / "made.json").write_text(json.dumps({"command": [EVIL], EVIL: {EVIL: [EVIL]}}))
    (folder / '"><u>.svg').write_text(f"<svg>{EVIL}</svg>")
    config = {EVIL: EVIL, "list": [EVIL]}
    save_plan(folder, [Job(EVIL, EVIL, TraceRef(EVIL), 1.0, 1, 0, config, config)])
    text = html.write_page(folder).read_text()
    page = check_safe(text)
    assert not {"b", "i", "u", "s"} & {tag for tag, _ in page.elements}
    assert len([tag for tag, _ in page.elements if tag == "img"]) == 1
    assert text.count("&lt;script&gt;alert(1)") > 12
    assert "".join(page.texts).count(EVIL) > 12


def small_report(out: Path, *warnings: str) -> str:
    """The page of a table with its heading, caption and meanings, and of a figure with its own."""
    columns = ["agent", "env", Column("return", about="higher is better"), Column("seeds")]
    rows = [["lcpo-value_steps=5-sigma=2", "hopper", -1.5, 3], ["a2c", "hopper", -2.5, 3]]
    table = Table(columns, rows, title="trace 3; 95 % intervals", heading="Return of each agent")
    curves = Picture(b"\x89PNG", b"<svg/>", "Learning curves", "Bands are intervals.")
    report = Report(Table(["seed"], [["0"]]), {"table": table}, {"curves": curves})
    output.write_files(report, [], out, "lcpo compare", by="lcpo compare", warnings=warnings)
    return html.write_page(out, by="lcpo compare").read_text()


def test_results_come_first_and_say_what_they_are(tmp_path: Path) -> None:
    text = small_report(tmp_path)
    check_safe(text)
    order = [
        "<p class=\"by\">Written by lcpo compare on 20", "<h2>Return of each agent</h2>",
        'class="caption">env hopper; trace 3; 95 % intervals</p>', "<table>",
        "<dt>return</dt><dd>higher is better</dd>", "<figure><h2>Learning curves</h2>",
        "<figcaption>Bands are intervals.</figcaption>",
        '<details class="folded"><summary><h2>How this report was made</h2></summary>\n<dl',
        "<h2>Numbers of every run (1)</h2>",
    ]  # fmt: skip
    places = [text.find(part) for part in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)
    assert '<th scope="col" class="r" title="higher is better">' in text
    assert '<td class="l">hopper</td>' not in text, "it is the same in all rows"
    assert "lcpo-<wbr>value_<wbr>steps=<wbr>5-<wbr>sigma=<wbr>2" in text, "a long name is wrapped"
    assert 'class="warning"' not in text


def test_warnings_stand_at_the_top(tmp_path: Path) -> None:
    text = small_report(tmp_path, f"Smoke test: {EVIL}")
    page = check_safe(text)
    assert f"Smoke test: {EVIL}" in page.texts
    assert text.index('<div class="warning"') < text.index("<h2>")
    several = small_report(tmp_path, "one", "two")
    assert "<details><summary>2 warnings about the runs</summary><ul><li>one</li>" in several


def test_an_svg_comes_before_its_png(tmp_path: Path) -> None:
    (tmp_path / "made.json").write_text("{}")
    (tmp_path / "figure.png").write_bytes(b"\x89PNG")
    (figure,) = html_folder.read_folder(tmp_path).figures.values()
    assert figure.address.startswith("data:image/png")
    assert figure.heading == "Figure"
    (tmp_path / "figure.svg").write_text("<svg/>")
    (figure,) = html_folder.read_folder(tmp_path).figures.values()
    assert figure.address == f"data:image/svg+xml;base64,{base64.b64encode(b'<svg/>').decode()}"


def test_differences_to_the_paper() -> None:
    """Of the numbers as they are shown: a reader who subtracts them finds the same."""

    def row(agent: str, mean: float, half: float, paper: Printed | None) -> list[Cell]:
        ours = Estimate(mean, mean - half, mean + half, 8)
        return [agent, Estimate(-9, -10, -8, 8), ours, 8, paper, Estimate(-366, -373, -359, 8)]

    table = Table(
        ["agent", Column("end of training"), Column("return after 6M"), Column("seeds"),
         Column("paper"), Column("whole run")],
        [
            row("lcpo", -231.4, 8.3, Printed.of("-240", "4.41")),
            row("a2c", -242.0, 18.0, Printed.of("-307", "32.6")),
            row("ppo", 1.25, 0.25, Printed.of("1.75", "0.25")),
            row("one seed", -300.0, math.nan, Printed.of("-307", "32.6")),
            row("not printed", -242.0, 18.0, None),
            row("one number", -242.0, 18.0, Printed.of("-250")),
            row("touching", -230.6, 4.49, Printed.of("-240", "4.6")),
        ],
        compared=("return after 6M", "paper"),
    )  # fmt: skip
    shown_columns, arranged = html_table.beside_paper(table)
    rows: Any = arranged
    header = [column.name for column in shown_columns]
    assert header[2:6] == ["return after 6M", "paper", "minus paper", "seeds"]
    found = [(shown[4].text, shown[4].mark) for shown in rows]
    assert found == [
        ("+9", "overlap"),
        ("+65", "apart"),
        ("-0.50", "overlap"),
        ("+7", ""),
        ("-", ""),
        ("+8", ""),
        ("+9", "apart"),
    ]
    assert shown_columns[4].about.startswith("return after 6M less the paper's number")
    unnamed = dataclasses.replace(table, compared=None)
    assert [column.name for column in html_table.beside_paper(unnamed)[0]] == table.header


def test_cells_are_sorted_by_their_values() -> None:
    cells = [
        (Estimate(-373.2, -376, -370, 8), -373.2), (Printed.of("-240", "4.41"), -240.0),
        (Count(8, 9), 8.0), (Noted(1145.0, "3460"), 1145.0), (3, 3.0), (math.inf, None),
        (math.nan, None), (None, None), ("2026-11-16", None), ("3", None),
    ]  # fmt: skip
    assert [sort_number(cell) for cell, _ in cells] == [number for _, number in cells]


def test_old_cells_are_sorted_by_the_number_at_their_beginning() -> None:
    texts = {
        "-373 ± 3": -373.0, "+0.38 ± 8.56": 0.38, "1,145 (3460)": 1145.0, "> 990 (> 990)": 990.0,
        "40.9 %": 40.9, "3.0e-05": 3e-5, "0.50 [0.25, 0.75]": 0.5, "8 of 8": 8.0, "-": None,
        "2026-11-16": None, "lcpo": None, "3dqn": None, "": None, "1e999": None,
        "1" * 100_000 + "x": None,
    }  # fmt: skip
    assert {text: sort_number(earlier.read_cell(text)) for text in texts} == texts


def test_old_tables_are_read_as_they_were_written() -> None:
    rows = [["x|y", "-231 ± 8", "-240 ± 4.41"], ["", "-300 ± -", "-307"], ["a", "-", "-"]]
    table = Table(
        columns(["a|b", "return", "paper"], "lrr"), rows, title="A title", notes=["one", "two"]
    )
    found = earlier.read_markdown(table.to_markdown())
    assert found is not None
    assert found.to_markdown() == table.to_markdown()
    assert found.compared == ("return", "paper")
    assert found.rows[0][1:] == (Printed("-231 ± 8", -231, 8), Printed.of("-240", "4.41"))
    shown: Any = html_table.beside_paper(found)[1]
    gaps = [row[3].text for row in shown]
    assert gaps == ["+9", "+7", "-"]
    assert earlier.read_markdown("# Notes\n\nno table | here\n") is None
    other = Table(["agent", "p99", "paper"], [["a", "1 ± 1", "2 ± 1"]])
    read = earlier.read_markdown(other.to_markdown())
    assert read is not None
    assert read.compared is None, "nothing says which column is meant"


COMMANDS = {
    "changed": {"agent": "lcpo", "trace": "3", "steps": 8000, "scale": 0.5, "published": True,
                "overrides": {"sigma": 2.0, "hidden": [8], "dual": True},
                "env_overrides": {"num_bins": 5}},
    "trained before": {"agent": "prescient-a2c", "trace": "4", "steps": 8000,
                       "training_steps": 64000},
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_of_a_run_plans_it_again(name: str, tmp_path: Path) -> None:
    wanted = COMMANDS[name]
    jobs = plan(wanted["agent"], "pendulum", seeds=[7], variant="x",
                **{k: v for k, v in wanted.items() if k != "agent"})  # fmt: skip
    words = train_command(jobs[0]).split()
    assert words[:4] == ["lcpo", "train", "--agent", wanted["agent"]]
    assert main.main([*words[1:], "--plan-only", "--out", str(tmp_path / "o")]) == 0
    (found,) = planned_jobs(tmp_path / "o")
    assert dataclasses.replace(found, variant="x") == jobs[0]


def test_rows_have_the_commands_of_their_runs(tmp_path: Path) -> None:
    jobs = plan("a2c", "pendulum", trace="3", steps=8000, seeds=2)
    jobs += plan("a2c", "pendulum", trace="4", steps=8000, seeds=2)
    jobs[2:] = [dataclasses.replace(job, trace=TraceRef.parse("4@1/20")) for job in jobs[2:]]
    jobs += plan(
        "a2c",
        "pendulum",
        trace="3",
        steps=6000,
        seeds=1,
        variant="nb=25",
        published=True,
        name_setting=True,
    )
    save_plan(tmp_path, jobs)
    rows = [["4", "a2c", "-1 ± 1"], ["3", "x", "-"], ["3", "nb=25", "-"]]
    table = Table(["trace", "agent", "return"], rows)
    (tmp_path / "table.md").write_text(table.to_markdown())
    text = html.write_page(tmp_path).read_text()
    head, _, rest = text.partition("Settings (3)")
    assert "lcpo train --agent a2c --env pendulum --trace 4@1/20 --steps 8000 --seeds 0,1" in head
    assert head.count("--trace 3") == 1
    assert "lcpo train --agent a2c --env pendulum --trace 3 --steps 6000 --seeds 0," in head
    assert "Runs (5)" in rest
    assert rest.count('<td class="l">not ended</td>') == 5


def test_folders_that_are_refused(tmp_path: Path) -> None:
    def refused(folder: Path, why: str) -> None:
        with pytest.raises(InputError, match=why):
            html.write_page(folder, tmp_path / "page.html")
        assert not (tmp_path / "page.html").exists()

    refused(tmp_path / "nothing", "is not a folder")
    first = min(folder.name for folder in RESULTS.iterdir() if folder.is_dir())
    refused(RESULTS, rf"give one of the folders in it: {re.escape(first)}, .*\.\.\.")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.md").write_text("| a |\n|---|\n| b |\n")
    refused(foreign, "holds no results")
    for name, content, why in (
        ("made.json", b"[1]", "holds a list"),
        ("made.json", b"{", "damaged or not a JSON"),
        ("table.md", b"\xff", "not UTF-8"),
        ("figure.png", b"GIF89", "or not PNG"),
        ("figure.svg", b"<html>", "or not SVG"),
        ("seeds.csv", b'a,b\n"' + b"x" * 200_000, "not a CSV"),
        ("plan.json", b"{}", "has no schema"),
    ):
        broken = tmp_path / "broken"
        shutil.copytree(RESULTS / "grid-world", broken)
        (broken / name).write_bytes(content)
        refused(broken, why)
        shutil.rmtree(broken)
    shutil.copytree(RESULTS / "grid-world", tmp_path / "linked")
    (tmp_path / "linked" / "notes.md").symlink_to(__file__)
    refused(tmp_path / "linked", "leads out of")
