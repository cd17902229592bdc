"""The page of a report in a real browser: `make test-browser`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromium
import pytest

from lcpo.study.report import html, report
from lcpo.study.report.imports import import_file

RESULTS = Path(__file__).parents[2] / "results"
COMMITTED = ("pendulum-baselines", "straggler-workload-1", "grid-world")
LONG = "long-names"
PHONE, DESKTOP = 390, 1280


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Chromium]:
    with chromium.browse(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of committed results, whose figures are PNG, and of folders of runs with SVG figures."""
    folder = tmp_path_factory.mktemp("pages")
    found = {name: html.write_page(RESULTS / name, folder / f"{name}.html") for name in COMMITTED}
    few = [f"a{k}" for k in range(3)]
    long = [f"lcpo-c_anchor=0.001-value_steps={k}-rollout_length=50-sigma=0.5" for k in (5, 6)]
    for name, agents, traces in (("runs-of-others", few, "34"), (LONG, long, "3")):
        lines = ["# format: lcpo-import 1", "# code: <script>document.title = 'bad'</script>",
                 "# command: python train.py --long " + "x" * 300,
                 "agent,env,trace,seed,step,return"]  # fmt: skip
        lines += [f"{agent},pendulum,{trace},{seed},{step},{-step % 700 - seed - k}"
                  for k, agent in enumerate(agents) for trace in traces for seed in range(3)
                  for step in range(200, 20_001, 200)]  # fmt: skip
        (folder / "theirs.csv").write_text("\n".join(lines))
        import_file(folder / "theirs.csv", folder / name)
        report.write_tables(folder / name)
        found[name] = html.write_page(folder / name)
    return found


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("name", [*COMMITTED, "runs-of-others", LONG])
def test_opens_without_errors_and_fits(
    name: str, width: int, browser: chromium.Chromium, pages: dict[str, Path]
) -> None:
    browser.open(pages[name], width)
    _keep(browser, f"{name}-{width}")
    assert browser.evaluate("document.title") == name
    for picture in _pictures(browser):
        assert picture["natural"] > 0, "the picture was not decoded"
        assert picture["shown"] >= 560, "its letters can be read: on a phone it scrolls"
        assert picture["left"] >= 0
        assert picture["right"] <= max(width, 700)
    browser.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    _keep(browser, f"{name}-{width}-open")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("name", [*COMMITTED, LONG])
def test_every_number_can_be_read(
    name: str, width: int, browser: chromium.Chromium, pages: dict[str, Path]
) -> None:
    """A table scrolls, its first column stays, and neither this nor the edge hides a number."""
    browser.open(pages[name], width)
    covered = browser.evaluate("""Array.from(document.querySelectorAll("section td.r"))
      .filter((cell) => cell.textContent.trim()).filter((cell) => {
        const scroll = cell.closest(".scroll").getBoundingClientRect();
        const key = cell.parentElement.querySelector(".key").getBoundingClientRect();
        cell.scrollIntoView({block: "center", inline: "end"});
        const box = cell.getBoundingClientRect();
        const places = [box.left + 8, (box.left + box.right) / 2, box.right - 8];
        const shown = places.every((x) =>
          document.elementFromPoint(x, box.top + 12)?.closest("td") === cell);
        return !shown || key.width > 0.4 * innerWidth || box.right > scroll.right + 1;
      }).map((cell) => cell.textContent)""")
    assert covered == []
    assert browser.evaluate("document.querySelectorAll('section td.r').length") > 5


def test_the_first_screen_of_a_phone_has_results(
    browser: chromium.Chromium, pages: dict[str, Path]
) -> None:
    """Metadata is folded, and stands below them."""
    browser.open(pages[LONG], PHONE)
    top = "Math.round(document.querySelector('section td.r').getBoundingClientRect().top)"
    assert browser.evaluate(top) < 500
    made = "document.querySelector('dl.made')"
    assert browser.evaluate(f"{made}.closest('details').open") is False
    assert browser.evaluate(f"{made}.checkVisibility()") is False
    _keep(browser, "first-screen")


def test_all_figures_are_there(browser: chromium.Chromium, pages: dict[str, Path]) -> None:
    for name, count in {"straggler-workload-1": 1, "runs-of-others": 2, "grid-world": 0}.items():
        browser.open(pages[name], DESKTOP)
        assert len(_pictures(browser)) == count
    browser.open(pages["runs-of-others"], DESKTOP, dark=True)
    _keep(browser, "dark")
    assert (
        browser.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    )


def test_sorting(browser: chromium.Chromium, pages: dict[str, Path]) -> None:
    browser.open(pages["pendulum-baselines"], DESKTOP)
    before = _column(browser, "agent")
    _click(browser, "return after 6M")
    means = [float(cell.split(" ± ")[0]) for cell in _column(browser, "return after 6M")]
    assert means == sorted(means), "by number: as text, -1000 would come before -900"
    assert _column(browser, "agent") != before
    _click(browser, "return after 6M")
    means = [float(cell.split(" ± ")[0]) for cell in _column(browser, "return after 6M")]
    assert means == sorted(means, reverse=True)
    for _ in range(2):  # what has no number comes last, both ways
        _click(browser, "minus paper")
        cells = _column(browser, "minus paper")
        known = [cell for cell in cells if cell != "-"]
        assert cells == known + ["-"] * (len(cells) - len(known))
        assert len(known) == 12
    _click(browser, "agent")
    assert _column(browser, "agent") == sorted(before)
    assert browser.complaints() == []


def test_filter(browser: chromium.Chromium, pages: dict[str, Path]) -> None:
    browser.open(pages["pendulum-baselines"], PHONE)
    browser.evaluate("""{
      const field = document.querySelector("details.folded input");
      field.closest("details").open = true;
      field.value = "LCPO-P finished";
      field.dispatchEvent(new Event("input"));
    }""")
    rows = "document.querySelectorAll('details.folded tbody tr:not([hidden])')"
    assert browser.evaluate(f"{rows}.length") == 16
    assert browser.evaluate(f"{rows}[0].offsetHeight") > 0
    assert browser.evaluate("document.querySelector('output').textContent") == "16 of 160"
    hidden = "document.querySelector('details.folded tbody tr[hidden]').offsetHeight"
    assert browser.evaluate(hidden) == 0


def test_nothing_else_runs_or_loads(
    browser: chromium.Chromium, pages: dict[str, Path], tmp_path: Path
) -> None:
    """Were something foreign in a page after all, its policy would stop it."""
    text = pages["grid-world"].read_text()
    foreign = """<script>document.title = "bad"</script><style>body { color: rgb(1, 2, 3) }</style>
      <img src="theirs.png" onerror="document.title = 'bad'"><p style="color: rgb(1, 2, 3)">p</p>"""
    (tmp_path / "page.html").write_text(text.replace("<main>", f"<main>{foreign}"))
    browser.open(tmp_path / "page.html", DESKTOP)
    assert browser.evaluate("document.title") == "grid-world"
    assert browser.evaluate("getComputedStyle(document.querySelector('main > p')).color") != (
        "rgb(1, 2, 3)"
    )
    found = [text for text in browser.complaints() if "Content Security Policy" in text]
    for kind in ("inline script", "inline event handler", "inline style", "Loading the image"):
        assert any(kind in text for text in found), (kind, found)


def _pictures(browser: chromium.Chromium) -> list[dict[str, Any]]:
    return browser.evaluate("""Promise.all(Array.from(document.images, async (image) => {
      await image.decode();
      const box = image.getBoundingClientRect();
      return {natural: image.naturalWidth, shown: box.width, left: box.left, right: box.right};
    }))""")


def _column(browser: chromium.Chromium, title: str) -> list[str]:
    """The first words of a column of the first table."""
    return browser.evaluate(f"""{{
      const table = document.querySelector("table");
      const column = Array.from(table.tHead.rows[0].cells)
        .findIndex((cell) => cell.textContent === {json.dumps(title)});
      const text = (cell) => Array.from(cell.childNodes).filter((one) => one.nodeType === 3)
        .map((one) => one.textContent).join("").trim();
      Array.from(table.tBodies[0].rows, (row) => text(row.cells[column]));
    }}""")


def _click(browser: chromium.Chromium, title: str) -> None:
    """With the mouse, in the middle of a title of the first table."""
    place = browser.evaluate(f"""{{
      const button = Array.from(document.querySelectorAll("table th button"))
        .find((one) => one.textContent === {json.dumps(title)});
      button.scrollIntoView({{block: "center", inline: "center"}});
      const box = button.getBoundingClientRect();
      [box.left + box.width / 2, box.top + box.height / 2];
    }}""")
    for kind in ("mousePressed", "mouseReleased"):
        browser.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left",
                     clickCount=1)  # fmt: skip


def _keep(browser: chromium.Chromium, name: str) -> None:
    """A picture of the page in the folder SCREENSHOTS, for people to look at."""
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.screenshot(Path(folder) / f"{name}.png")
