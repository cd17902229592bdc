"""What README and docs say of results is what the files in results/ say: see `quoted_pages`."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
from pathlib import Path

import pytest
import quoted
import quoted_cells as cells
import quoted_checks as checks
import quoted_pages as pages
import quoted_words as words
from markdown_it import MarkdownIt

ROOT = cells.ROOT
NAMES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))]
TO_COME = {"docs/envs/straggler.md", "docs/agents/hedging.md"}
"""Whose numbers have no comments yet: they need only stand in a table of the straggler task."""


def page_of(name: str) -> pages.Page:
    return pages.parse((ROOT / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in TO_COME])
def test_every_result_names_its_cells(name: str) -> None:
    problems = checks.check(name, (ROOT / name).read_text(encoding="utf-8"))
    hint = f"""results/README.md says how to quote a result. python tests/support/quoted.py {name}
    proposes cells and seals claims; `NUMBER = no result: WHY` is for examples."""
    assert not problems, "\n".join([*problems, hint])


@pytest.mark.parametrize("name", sorted(TO_COME))
def test_results_without_a_comment_stand_in_some_table(name: str) -> None:
    files = [str(path.relative_to(cells.RESULTS)) for path in cells.RESULTS.glob("straggler*/*.md")]
    shown = {cell for file in files for row in cells.read(file).rows for cell in row}
    shown |= {cells.flipped(cell) for cell in shown if cell}
    text = "\n".join((cells.RESULTS / file).read_text() for file in files)
    page = page_of(name)
    assert [problem for copy in page.copies for problem in checks.check_copy(copy)] == []
    for block in page.blocks:
        for number in checks.results_in(block.text):
            assert {number, f"+{number}"} & shown or number in text, f"{block.section}: {number}"


def test_every_source_says_how_it_was_made() -> None:
    files = set()
    for name in NAMES:
        page = page_of(name)
        files |= {copy.source.removeprefix("results/") for copy in page.copies}
        notes = [block.note for block in page.blocks if block.note is not None]
        quoted = " ".join(" ".join(entry) for note in notes for entry in note.entries)
        files |= {term[3] for term in cells.TERM.finditer(quoted)} - {"quotes.csv"}
    files = {file for file in files if not file.startswith("paper/")}
    assert len(files) > 40
    for file in files:
        made = json.loads((cells.RESULTS / file).parent.joinpath("made.json").read_text())
        assert made["command"], file
        assert made["commit"], file


def test_few_numbers_are_said_to_be_no_results() -> None:
    notes = [block.note for name in NAMES for block in page_of(name).blocks]
    told = [e for note in notes if note for e in note.entries if e[1].startswith(checks.NO_RESULT)]
    assert len(told) <= 12


def test_quotes_are_what_the_script_computes() -> None:
    path = ROOT / "benchmarks" / "quotes.py"
    spec = importlib.util.spec_from_file_location("quotes", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    with (cells.RESULTS / "quotes.csv").open(encoding="utf-8") as file:
        assert list(csv.reader(file)) == [script.HEADER, *script.lines()]


PAGE = """
## Results

- After 6M steps of trace 4 LCPO is ahead of A2C by 15.1 ± 9.7.
  <!-- cells {seal}
  15.1 ± 9.7 = -pendulum-trace4/table.md[a2c | minus lcpo]
  -->
"""


def problems_of(text: str) -> list[str]:
    (block,) = pages.parse(text).blocks
    return checks.check_block(block, verdicts=True)


def sealed(page: str) -> str:
    (block,) = pages.parse(page.format(seal="000000")).blocks
    return page.format(seal=words.seal(words.plain(block.text)))


def test_a_right_sentence_has_no_problem() -> None:
    assert problems_of(sealed(PAGE)) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("by 15.1", "by 15.2", "'15.1 ± 9.7' is not in the text"),
        ("= -pend", "= pend", "is -15.1 ± 9.7"),
        ("[a2c |", "[a2c-entropy |", "is +12.2 ± 5.7"),
        ("[a2c |", "[sac |", "has no row with"),
        ("minus lcpo]", "minus a2c]", "has no column"),
        ("trace 4", "trace 3", "trace '3' is named"),
        ("A2C", "SAC", "agent 'sac' is named"),
        ("After 6M steps", "Over the whole run", "window 'whole run' is named"),
        ("  <!-- cells", "  <!-- no cells", "no comment names the cells of 15.1 ± 9.7"),
    ],
)
def test_what_the_cells_do_not_say_is_found_without_the_seal(
    old: str, new: str, problem: str
) -> None:
    assert PAGE.count(old) == 1
    found = problems_of(sealed(PAGE.replace(old, new)))
    assert any(problem in text for text in found), found


@pytest.mark.parametrize(
    ("old", "new"), [("LCPO is ahead of A2C", "A2C is ahead of LCPO"), ("ahead of", "behind")]
)
def test_a_claim_that_is_turned_round_breaks_its_seal(old: str, new: str) -> None:
    (problem,) = problems_of(sealed(PAGE).replace(old, new))
    assert problem.startswith("the claim has changed since it was sealed")


@pytest.mark.parametrize(
    ("see", "holds"),
    [
        ("pendulum-trace4/table.md[a2c | minus lcpo] < 0", True),
        ("pendulum-trace4/table.md[a2c | minus lcpo] > 0", False),
        ("pendulum-trace4/table.md[lcpo-noent | minus lcpo] ~ 0", True),
        ("pendulum-trace4/table.md[a2c | minus lcpo] ~ 0", False),
        ("windy-pendulum/table.md[lcpo | return after 6M] near paper", True),
        ("windy-pendulum-4/table.md[1; trpo | return after 6M] near paper", False),
        ("windy-pendulum-4/table.md[1; trpo | return after 6M] far from paper", True),
        ("anchors/table.md[all; whole past | better on] all", True),
        ("anchors/table.md[all; none | better on] none", False),
    ],
)
def test_evidence_is_looked_at(see: str, holds: bool) -> None:
    relation = pages.RELATION.search(see)
    assert relation is not None
    _, problems = checks.check_evidence(see.removesuffix(relation[0]).strip(), relation[0])
    assert (problems == []) is holds


@pytest.mark.parametrize(
    ("quoted", "shown", "same"),
    [
        ("34.1 ± 5.8", "+34.1 ± 5.8", True),
        ("34.1 ± 5.8", "-34.1 ± 5.8", False),
        ("-34.1 ± 5.8", "+34.1 ± 5.8", False),
        ("82 of the 90", "82 of 90", True),
        ("28 of 90", "82 of 90", False),
        ("82", "82 of 90", True),
        ("84 %", "84.1 %", True),
        ("85 %", "84.1 %", False),
        ("-354", "-354 (seed 1)", True),
        ("354", "-354 (seed 1)", False),
    ],
)
def test_sign_and_digits_count(quoted: str, shown: str, same: bool) -> None:
    assert cells.agrees(quoted, shown) is same


def test_cells_can_be_turned_round_added_and_subtracted() -> None:
    drift, burst = (f"anchors/table.md[{kind}; none; trpo; 0.0001 | better on]"
                    for kind in ("drift", "burst"))  # fmt: skip
    assert cells.evaluate(drift).shown == "10 of 30"
    assert cells.evaluate(f"-{drift}").shown == "20 of 30"
    assert cells.evaluate(f"-{drift} + -{burst}").shown == "49 of 60"
    cost = "rivals/table.md[all; ppo; value steps {} | microseconds]"
    assert cells.evaluate(f"{cost.format(5)} - {cost.format(1)}").shown == "1.7"
    with pytest.raises(ValueError, match="2 rows fit"):
        cells.evaluate("rivals/table.md[all; ppo | microseconds]")


def test_cells_are_proposed_and_claims_sealed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "## Results\n\n- After 6M steps of trace 4 LCPO is ahead of A2C by 15.1 ± 9.7.\n"
    )
    assert quoted.annotate(page) == []
    assert "15.1 ± 9.7 = -pendulum-trace4/table.md[a2c | minus lcpo]" in page.read_text()
    assert checks.check("page.md", page.read_text()) == []
    page.write_text(page.read_text().replace("LCPO is ahead of A2C", "A2C is behind LCPO"))
    assert "sealed" in checks.check("page.md", page.read_text())[0]
    assert quoted.annotate(page) == []
    assert checks.check("page.md", page.read_text()) == []
    page.write_text(page.read_text().replace("by 15.1 ± 9.7", "by 25.1 ± 9.7"))
    assert "'15.1 ± 9.7' is not in the text" in quoted.annotate(page)[0]
    assert "sealed" in checks.check("page.md", page.read_text())[-1]


def test_readers_see_no_comment_and_whole_lists() -> None:
    """In a renderer of CommonMark, as GitHub's and MyST's are."""
    markdown = MarkdownIt("commonmark").enable("table")
    for name in NAMES:
        text = (ROOT / name).read_text(encoding="utf-8")
        without = re.sub(r"^ *<!-- cells.*?-->\n", "", text, flags=re.S | re.M)
        shown = re.sub(r"<!--.*?-->\n?", "", markdown.render(text), flags=re.S)
        assert ".md[" not in re.sub(r"<code.*?</code>", "", shown, flags=re.S)
        for tag in ("<ul>", "<li>", "<p>", "<table>"):
            assert shown.count(tag) == markdown.render(without).count(tag), f"{name}: {tag}"
