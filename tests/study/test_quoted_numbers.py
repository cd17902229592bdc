"""What README and docs say of results is what the files in results/ say: see `quoted_pages`."""

from __future__ import annotations

import csv
import importlib.util
import json

import prose
import pytest
import quoted
import quoted_cells as cells
import quoted_checks as checks
import quoted_pages as pages
from each import for_each

ROOT = cells.ROOT
NAMES = [str(path.relative_to(prose.ROOT)) for path in prose.PAGES]


def text_of(name: str) -> str:
    return prose.read(ROOT / name)


def page_of(name: str) -> pages.Page:
    return pages.parse(text_of(name), pages.notes_of(name))


@for_each("name", NAMES)
def test_every_result_names_its_cells(name: str) -> None:
    problems = checks.check(name, text_of(name), pages.notes_of(name))
    hint = f"""results/README.md says how to quote a result. python tests/support/quoted.py {name}
    proposes entries and seals claims; `NUMBER = no result: WHY` is for examples."""
    assert not problems, "\n".join([*problems, hint])


def test_every_source_says_how_it_was_made() -> None:
    files = set()
    for name in NAMES:
        page = page_of(name)
        files |= {copy.source.removeprefix("results/") for copy in page.copies}
        notes = [block.note for block in page.blocks if block.note is not None]
        quoted = " ".join(expression for note in notes for _, expression in note.numbers)
        files |= {term[3] for term in cells.TERM.finditer(quoted)} - {"quotes.csv"}
    files = {file for file in files if not file.startswith("paper/")}
    assert len(files) > 40
    for file in files:
        made = json.loads((cells.RESULTS / file).parent.joinpath("made.json").read_text())
        assert made["command"], file
        assert made["commit"], file


def test_every_file_of_entries_has_its_page() -> None:
    files = {path for path in pages.file_of("").parent.rglob("*") if path.is_file()}
    assert files <= {pages.file_of(name) for name in NAMES}


def test_no_page_has_its_entries_in_comments() -> None:
    assert [name for name in NAMES if "<!-- cells" in text_of(name)] == []


def test_few_numbers_are_said_to_be_no_results() -> None:
    notes = [block.note for name in NAMES for block in page_of(name).blocks]
    told = [e for note in notes if note for e in note.numbers if e[1].startswith(checks.NO_RESULT)]
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
"""
ENTRY = """[{seal}] After 6M steps of trace 4
15.1 ± 9.7 = -pendulum-trace4/table.md[a2c | minus lcpo]
"""


def sealed(page: str, entry: str = ENTRY) -> str:
    (block,) = pages.parse(page, "").blocks
    return entry.format(seal=block.seal)


def test_a_right_sentence_has_no_problem() -> None:
    assert checks.check("page.md", PAGE, sealed(PAGE)) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("by 15.1", "by 15.2", "'15.1 ± 9.7' is not in the text"),
        ("= -pend", "= pend", "is -15.1 ± 9.7"),
        ("[a2c |", "[a2c-entropy |", "is +12.2 ± 5.7"),
        ("[a2c |", "[sac |", "has no row with"),
        ("minus lcpo]", "minus a2c]", "has no column"),
        ("trace 4 LCPO", "trace 3 LCPO", "trace '3' is named"),
        ("A2C", "SAC", "agent 'sac' is named"),
        (
            "After 6M steps of trace 4 LCPO",
            "Over the whole run LCPO",
            "window 'whole run' is named",
        ),
    ],
)
def test_what_the_cells_do_not_say_is_found_without_the_seal(
    old: str, new: str, problem: str
) -> None:
    assert (PAGE + ENTRY).count(old) == 1
    page = PAGE.replace(old, new)
    found = checks.check("page.md", page, sealed(page, ENTRY.replace(old, new)))
    assert any(problem in text for text in found), found


@pytest.mark.parametrize(
    ("old", "new"), [("LCPO is ahead of A2C", "A2C is ahead of LCPO"), ("ahead of", "behind")]
)
def test_a_claim_that_is_turned_round_has_no_entry(old: str, new: str) -> None:
    missing, unused = checks.check("page.md", PAGE.replace(old, new), sealed(PAGE))
    assert "page.md:4: no entry with the seal" in missing
    assert "15.1 ± 9.7" in missing
    assert "page.md.txt:1: the claim was edited or removed" in unused
    assert "After 6M steps of trace 4" in unused


def test_an_entry_of_a_claim_that_is_gone_is_reported() -> None:
    (problem,) = checks.check("page.md", "## Results\n", sealed(PAGE))
    assert "page.md.txt:1: the claim was edited or removed" in problem


def test_blocks_with_one_seal_take_entries_in_order_and_share_the_last() -> None:
    text = "- LCPO is ahead.\n- So LCPO is ahead.\n- LCPO is ahead, too.\n"
    seal = pages.parse(text, "").blocks[0].seal
    page = pages.parse(text, f"[{seal}] LCPO\nsee one\n\n[{seal}] So\nsee two\n")
    taken = [block.note and block.note.lines for block in page.blocks]
    assert taken == [("see one",), ("see two",), ("see two",)]
    assert page.unused == []


def test_a_shared_entry_is_written_once() -> None:
    again = "- So after 6M steps of trace 4 LCPO is ahead of A2C by 15.1 ± 9.7.\n"
    entries, left = quoted.annotate("page.md", PAGE + again, sealed(PAGE))
    assert left == []
    assert entries == sealed(PAGE).replace("trace 4", "trace 4 LCPO is ahead of A2C by 15.1 ± 9.7.")


def test_a_link_without_a_claim_has_no_entry() -> None:
    text = "- By seed: [pairs.md](../results/straggler-servegen/pairs.md).\n"
    assert checks.check("page.md", text, "") == []
    assert checks.check("page.md", text.replace("By seed", "LCPO is ahead"), "")


def test_a_heading_that_compares_has_an_entry() -> None:
    text = "## On trace 4 LCPO is ahead of A2C\n"
    assert "no entry with the seal" in checks.check("docs/results.md", text, "")[0]
    assert checks.check("docs/results.md", "## Trace files\n", "") == []
    see = "see pendulum-trace4/table.md[a2c | minus lcpo] < 0"
    entry = f"[{pages.parse(text, '').blocks[0].seal}] On trace 4\n{see}\n"
    assert checks.check("docs/results.md", text, entry) == []
    assert checks.check("docs/results.md", text.replace("ahead of", "behind"), entry)


def test_an_entry_without_a_seal_is_refused() -> None:
    with pytest.raises(ValueError, match="line 3 is not"):
        pages.read_notes("[da79f8] LCPO\n\nsee one\n")


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
    ((name, relation),) = pages.Note(1, "da79f8", "LCPO", (f"see {see}",)).evidence
    assert relation
    _, problems = checks.check_evidence(name, relation)
    assert (problems == []) is holds


@for_each(
    "quoted, shown, same",
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


def test_entries_are_proposed_and_claims_sealed() -> None:
    entries, left = quoted.annotate("page.md", PAGE, "")
    assert left == []
    assert "\n15.1 ± 9.7 = -pendulum-trace4/table.md[a2c | minus lcpo]\n" in entries
    assert checks.check("page.md", PAGE, entries) == []

    turned = PAGE.replace("LCPO is ahead of A2C", "A2C is behind LCPO")
    again, left = quoted.annotate("page.md", turned, entries)
    assert left == []
    assert again == entries.replace("LCPO is ahead of A2C", "A2C is behind LCPO").replace(
        sealed(PAGE, "{seal}"), sealed(turned, "{seal}")
    )

    wrong = PAGE.replace("by 15.1 ± 9.7", "by 25.1 ± 9.7")
    kept, left = quoted.annotate("page.md", wrong, entries)
    assert kept == entries
    assert "page.md:4: '15.1 ± 9.7' is not in the text" in left[0]

    kept, left = quoted.annotate("page.md", "## Results\n", entries)
    assert kept == entries
    assert left[0].startswith("no claim is similar to the entry [")
