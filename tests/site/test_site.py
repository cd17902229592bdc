"""The documentation site: it builds without a warning, its links lead somewhere, and its pages can
be read in a real browser. `make test-docs`; SCREENSHOTS=folder keeps pictures."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import chromium
import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("index", "agents/lcpo", "running", "generated/api/lcpo", "generated/cli")
PHONE, DESKTOP = 390, 1280


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built from nothing; a warning is an error."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    built = subprocess.run(
        [*command, str(ROOT / "docs"), str(out)], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr[-4000:]
    return out


class Links(HTMLParser):
    """What a page links to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name, tag) in (("href", "a"), ("src", "img")):
                self.links.append(value)
            if value and name == "id":
                self.anchors.add(value)


def test_every_internal_link_leads_somewhere(site: Path) -> None:
    pages = {path: Links(path.read_text()) for path in site.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        if "_modules" in path.parts:  # source code: Sphinx links back by the module of a definition
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                broken.append(f"{path.relative_to(site)} -> {link}")
            elif parts.fragment and target in pages:
                anchors = pages[target].anchors
                if unquote(parts.fragment) not in anchors and parts.fragment not in anchors:
                    broken.append(f"{path.relative_to(site)} -> {link}")
    assert broken == []


def test_every_page_of_docs_is_in_the_navigation(site: Path) -> None:
    """A toctree leads to each page, or Sphinx would warn; the front page lists the sections."""
    text = (site / "index.html").read_text()
    for caption in ("Get started", "Guides", "Agents", "Environments", "Reference",
                    "Reproduction", "Design"):  # fmt: skip
        assert f'<span class="caption-text">{caption}</span>' in text


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Chromium]:
    with chromium.browse(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_the_window(
    name: str, width: int, browser: chromium.Chromium, site: Path
) -> None:
    browser.open(site / f"{name}.html", width)
    _keep(browser, f"{name}-{width}")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    size = browser.evaluate(
        "parseFloat(getComputedStyle(document.querySelector('article p')).fontSize)"
    )
    assert size >= 14
    assert browser.complaints() == []


def test_dark_mode(browser: chromium.Chromium, site: Path) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    browser.open(site / "index.html", DESKTOP)
    light = browser.evaluate(colour)
    browser.open(site / "index.html", DESKTOP, dark=True)
    _keep(browser, "index-dark")
    assert browser.evaluate(colour) != light
    assert sum(browser.evaluate(f"{colour}.match(/[0-9]+/g).slice(0, 3).map(Number)")) < 200


def test_search_finds_an_agent(browser: chromium.Chromium, site: Path) -> None:
    browser.open(site / "search.html", DESKTOP, query="q=sliding-ogd")
    found = browser.evaluate("""new Promise((resolve) => {
      let tries = 100;  // results come one by one
      const look = () => {
        const links = Array.from(document.querySelectorAll('#search-results li a'), (a) => a.href);
        if (links.some((link) => link.includes('agents/sliding-ogd')) || !tries--) resolve(links);
        else setTimeout(look, 100);
      };
      look();
    })""")
    _keep(browser, "search")
    assert any("agents/sliding-ogd" in link for link in found)


def _keep(browser: chromium.Chromium, name: str) -> None:
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.screenshot(Path(folder) / f"{name.replace('/', '-')}.png")
