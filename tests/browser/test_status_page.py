"""The status page of `lcpo serve` in a real browser: `make test-browser`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import chromium
import pytest
from status_server import PAGE, Scene, empty, example, opening, serve

PHONE, DESKTOP = 390, 1280
FOREIGN = '<img src=x onerror="document.title=1"><b>bold</b>'
TOKEN = "correct horse"
MINUS, NONE = "\N{MINUS SIGN}", "\N{EN DASH}"
PATIENCE = 20.0
"""Seconds until the page must show something."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Chromium]:
    with chromium.browse(tmp_path_factory.mktemp("profile")) as opened:
        yield opened
        opened.send("Page.navigate", url="about:blank")


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def url(scene: Scene) -> Iterator[str]:
    with serve(scene) as address:
        yield address


def _shadow() -> dict[str, Any]:
    """In shadow mode, with rewards of the incumbent."""
    found = example()
    found["mode"] = found["stats"]["mode"] = "shadow"
    found["stats"]["switchback"] = found["switchback_design"] = None
    found["series"]["policy"] = [None] * 120
    return found


def _young() -> dict[str, Any]:
    """An experiment with too few groups for an interval."""
    found = example()
    found["stats"]["switchback"] |= {"difference": 0.2, "low": None, "high": None, "groups": 2}
    return found


def _sparse() -> dict[str, Any]:
    """Intervals without decisions are left out, as the server does."""
    found = example(bins=40)
    series = found["series"]
    series["start"] = [t + 3600 * (k > 20) + 60 * k for k, t in enumerate(series["start"])]
    series["context"] = [means or [] for means in series["context"]]
    return found


def _many() -> dict[str, Any]:
    """Long texts, many channels, large numbers, and a single interval of time."""
    found = example(bins=1, channels=24)
    found["problems"] = [{"time": 1.79e9, "text": "x" * 400}] * 20
    found["config_hash"] = "f" * 64
    found["stats"]["decisions"] = dict.fromkeys(found["stats"]["decisions"], 10**12)
    found["series"]["context"] = [[float(-(10**k)) for k in range(24)]]
    found["series"]["policy"], found["series"]["incumbent"] = [-1.234567e9], [-9.87654e-9]
    return found


SCENES = {
    "switchback": example, "shadow": _shadow, "few-groups": _young, "many": _many,
    "sparse": _sparse, "empty-shadow": empty, "empty-live": lambda: empty("live"),
    "empty-switchback": lambda: empty("switchback"),
}  # fmt: skip


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("name", SCENES)
def test_fits_and_can_be_read(
    name: str, width: int, dark: bool, browser: chromium.Chromium, scene: Scene, url: str
) -> None:
    scene.status = SCENES[name]()
    _open(browser, url, width, dark=dark)
    _keep(browser, f"status-{name}-{width}-{'dark' if dark else 'light'}")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(CONTRASTS) == []
    assert browser.evaluate(NAMELESS) == []
    assert browser.evaluate(CUT) == []
    words = browser.evaluate("document.body.innerText")
    for wrong in ("NaN", "undefined", "null", "Infinity", "[object"):
        assert wrong not in words
    browser.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("switchback", "The policy is better: +0.177 reward per decision, 95 % interval"),
        ("few-groups", "No interval yet: 2 complete groups of blocks, and at least 3 are needed."),
        ("shadow", "No comparison in shadow mode"),
        ("empty-shadow", "No reward has arrived yet."),
        ("empty-shadow", "No version yet."),
        ("empty-shadow", "None since the server started"),
        ("empty-live", "No comparison outside switchback mode."),
    ],
)
def test_says_where_the_agent_stands(
    name: str, words: str, browser: chromium.Chromium, scene: Scene, url: str
) -> None:
    scene.status = SCENES[name]()
    _open(browser, url, DESKTOP)
    assert words in browser.evaluate("document.body.innerText")


def test_says_what_the_server_waits_for(browser: chromium.Chromium, scene: Scene, url: str) -> None:
    scene.status = opening()
    _open(browser, url, PHONE)
    _keep(browser, "status-opening-390")
    assert _text(browser, "#alert") == "The server is not ready. agent: replaying the log"
    assert _text(browser, "#ready") == "not ready"
    assert browser.evaluate("document.querySelector('#now').checkVisibility()") is False
    scene.status = example()
    _wait(browser, "document.querySelector('#now').checkVisibility()")
    assert browser.evaluate("document.querySelector('#alert').hidden") is True


def test_a_resize_does_not_show_half_of_what_was_asked(
    browser: chromium.Chromium, scene: Scene, url: str
) -> None:
    """The status is shown with the reasons, not before them."""
    scene.status = opening()
    scene.waits.set()
    browser.open(url, PHONE)
    _until(lambda: scene.asked_ready > 0, "the page asks what the server waits for")
    browser.evaluate("window.dispatchEvent(new Event('resize'))")
    assert browser.evaluate("document.querySelector('#content').hidden") is True
    scene.waits.clear()
    _wait(browser, "!document.querySelector('#content').hidden")
    assert _text(browser, "#alert") == "The server is not ready. agent: replaying the log"


def test_a_worse_policy_and_no_difference(
    browser: chromium.Chromium, scene: Scene, url: str
) -> None:
    difference = scene.status["stats"]["switchback"]
    difference |= {"difference": -0.2, "low": -0.3, "high": -0.1}
    _open(browser, url, DESKTOP)
    assert f"The policy is worse: {MINUS}0.2" in _text(browser, "#verdict")
    difference |= {"high": 0.1}
    _wait(browser, "document.querySelector('#verdict').textContent.includes('No significant')")
    assert browser.complaints() == []


def test_charts_show_what_the_server_counts(
    browser: chromium.Chromium, scene: Scene, url: str
) -> None:
    """Lines break where there is no value; a value alone is a dot; the slider reads all charts."""
    series = scene.status["series"]
    series["policy"] = [-1.0, -2.0, None, -3.0, None, *[-1.5] * 115]
    _open(browser, url, DESKTOP)
    line = "document.querySelector('#reward svg path.trace.policy[d^=\"M5\"]')"
    assert browser.evaluate(f"{line}.getAttribute('d').match(/M/g).length") == 3
    assert browser.evaluate("document.querySelectorAll('#reward circle.policy').length") == 2
    assert browser.evaluate("document.querySelectorAll('#context svg').length") == 3
    assert _legend(browser, "reward") == [
        f"policy {MINUS}1.5",
        f"incumbent {_last(series['incumbent'])}",
    ]
    _focus(browser, "#cursor")
    _key(browser, "Home", 36)
    assert _legend(browser, "reward")[0] == f"policy {MINUS}1"
    assert _legend(browser, "share") == ["fallback 3 %", "guard 2 %"]
    for _ in range(2):
        _key(browser, "ArrowRight", 39)
    assert _legend(browser, "reward")[0] == f"policy {NONE}"
    chosen = _text(browser, "#cursor-time")
    before = scene.asked
    _until(lambda: scene.asked >= before + 2)
    assert _text(browser, "#cursor-time") == chosen, "an update leaves the chosen time alone"
    browser.evaluate("document.querySelector('#numbers').open = true")
    _wait(browser, "document.querySelectorAll('#numbers tbody tr').length === 120")
    row = "Array.from(document.querySelector('#numbers tbody tr:last-child').cells).slice(1, 7)"
    assert browser.evaluate(f"{row}.map((cell) => cell.textContent)") == [
        f"{MINUS}1", f"{MINUS}1.3", "100", "3 %", "2 %", NONE,
    ]  # fmt: skip
    assert browser.complaints() == []


def test_updates_itself(browser: chromium.Chromium, scene: Scene, url: str) -> None:
    """A focused button keeps the focus: only what changed is drawn again."""
    _open(browser, url, DESKTOP)
    _focus(browser, "#versions button")
    scene.status["stats"]["updates"] = 4_711
    scene.status["mode"] = scene.status["stats"]["mode"] = "live"
    _wait(browser, "document.querySelector('#now').textContent.includes('4,711')")
    assert _text(browser, "#mode") == "live"
    assert browser.evaluate("document.title") == "live · lcpo serve"
    focused = "document.activeElement.getAttribute('aria-label')"
    assert browser.evaluate(focused) == "Roll back to version 40"
    assert "Last heard" in _text(browser, "#heard")


def test_says_that_the_server_is_gone_and_back(browser: chromium.Chromium, scene: Scene) -> None:
    with serve(scene) as url:
        _open(browser, url, PHONE)
        port = urlsplit(url).port
        assert port is not None
    _wait(browser, "!document.querySelector('#alert').hidden")
    assert "The server does not answer." in _text(browser, "#alert")
    assert "What you see below is old." in _text(browser, "#alert")
    assert browser.evaluate("document.title") == "no answer · lcpo serve"
    assert browser.evaluate("document.body.classList.contains('stale')") is True
    assert browser.evaluate("document.querySelector('#alert').getAttribute('role')") == "alert"
    assert browser.evaluate(CONTRASTS) == []
    _keep(browser, "status-gone-390")
    with serve(scene, port):
        _wait(browser, "document.querySelector('#alert').hidden")
        assert browser.evaluate("document.body.classList.contains('stale')") is False
        assert _text(browser, "#said") == "The server answers again."


def test_says_that_the_server_hangs_or_refuses(
    browser: chromium.Chromium, scene: Scene, url: str
) -> None:
    scene.answer = (503, {"error": f"replaying the log {FOREIGN}"})
    browser.open(url, DESKTOP)
    _wait(browser, "!document.querySelector('#alert').hidden")
    assert f"error 503: replaying the log {FOREIGN}" in _text(browser, "#alert")
    assert browser.evaluate("document.querySelector('#content').hidden") is True
    scene.hangs.set()
    _wait(browser, "document.querySelector('#alert').textContent.includes('did not answer')")
    scene.hangs.clear()
    scene.answer = None
    _wait(browser, "!document.querySelector('#content').hidden")
    assert browser.evaluate("document.querySelector('#alert').hidden") is True


def test_texts_of_the_server_are_never_html(
    browser: chromium.Chromium, scene: Scene, url: str
) -> None:
    status = scene.status
    status["problems"] = [{"time": 1.79e9, "text": FOREIGN}]
    status["version"] = status["config_hash"] = FOREIGN
    status["stats"]["decisions"] = {FOREIGN: 3}
    _open(browser, url, DESKTOP)
    assert _text(browser, "#problems li").endswith(FOREIGN)
    assert FOREIGN in _text(browser, "#sources")
    assert FOREIGN in _text(browser, "#server")
    assert browser.evaluate("document.querySelectorAll('img, #problems b, script').length") == 1
    assert browser.complaints() == []


def test_the_page_obeys_its_policy() -> None:
    """No inline code, style or address of others; the source never makes HTML out of text."""
    page, code = (PAGE / "index.html").read_text(), (PAGE / "page.js").read_text()
    for inline in ("<style", "style=", " onclick", "javascript:", "//"):
        assert inline not in page, inline
    for maker in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                  "localStorage", "sessionStorage", "document.cookie"):  # fmt: skip
        assert maker not in code, maker


def test_rolls_back_with_a_reason(browser: chromium.Chromium, scene: Scene, url: str) -> None:
    _open(browser, url, DESKTOP)
    _focus(browser, "#versions button")
    _key(browser, "Enter", 13)
    assert browser.evaluate("document.querySelector('#ask').open") is True
    assert _text(browser, "#ask-title") == "Roll back to version 40?"
    assert browser.evaluate("document.activeElement.id") == "why"
    _keep(browser, "status-ask-1280")
    _type(browser, "  ")
    _key(browser, "Enter", 13)
    _wait(browser, "!document.querySelector('#ask-problem').hidden")
    assert "Give a reason" in _text(browser, "#ask-problem")
    assert scene.posts == []
    _key(browser, "Escape", 27)
    assert browser.evaluate("document.querySelector('#ask').open") is False
    assert browser.evaluate("document.activeElement.textContent") == "Roll back"
    _key(browser, "Enter", 13)
    _type(browser, "worse since noon")
    _key(browser, "Enter", 13)
    _wait(browser, "!document.querySelector('#ask').open")
    wanted = {"version": 40, "why": "worse since noon"}
    assert scene.posts == [("/v1/rollback", wanted, None)]
    _wait(browser, "document.querySelector('#now').textContent.includes('49')")
    assert _text(browser, "#said") == "Version 40 is in use again, as version 49."
    assert browser.complaints() == []


def test_asks_for_the_token_and_forgets_it(
    browser: chromium.Chromium, scene: Scene, url: str
) -> None:
    scene.token = TOKEN
    browser.open(url, PHONE)
    _wait(browser, "!document.querySelector('#access').hidden")
    _keep(browser, "status-token-390")
    assert browser.evaluate("document.activeElement.id") == "token"
    asked = scene.asked
    _type(browser, "wrong")
    _key(browser, "Enter", 13)
    _wait(browser, "document.querySelector('#alert').textContent.includes('was refused')")
    time.sleep(4.0)  # longer than between two questions
    assert scene.asked == asked + 1, "without a token it does not ask again"
    _type(browser, TOKEN)
    _key(browser, "Enter", 13)
    _wait(browser, "!document.querySelector('#content').hidden")
    assert browser.evaluate("document.querySelector('#access').hidden") is True
    kept = "[localStorage.length, sessionStorage.length, document.cookie, location.href]"
    assert browser.evaluate(kept) == [0, 0, "", f"{url}?"]
    assert TOKEN not in browser.evaluate("document.documentElement.outerHTML")
    _focus(browser, "#versions button")
    _key(browser, "Enter", 13)
    _type(browser, "test")
    scene.token = "another"
    _key(browser, "Enter", 13)
    _wait(browser, "!document.querySelector('#ask-access').hidden")
    _type(browser, "another")
    _key(browser, "Enter", 13)
    _wait(browser, "!document.querySelector('#ask').open")
    sent = [authorization for _, _, authorization in scene.posts]
    assert sent == [f"Bearer {TOKEN}", "Bearer another"]


CONTRASTS = """{
  const lights = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map((x) => {
    const c = x / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  const light = (colour) => {
    const [r, g, b] = lights(colour);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!colour.startsWith("rgba")) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const one of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(one);
    const own = Array.from(one.childNodes).some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!one.checkVisibility()) continue;
    const colour = one.namespaceURI.endsWith("svg") ? style.fill : style.color;
    const apart = (own) => ratio(light(own), light(behind(one)));
    if (own && apart(colour) < 4.5) found.push(one.textContent);
    if (one.matches(".trace, .bar, .dot") && apart(style.stroke) < 3) found.push(one.outerHTML);
  }
  found;
}"""
"""Texts with less than 4.5 : 1, lines with less than 3 : 1 (WCAG 2.2, level AA)."""
CUT = """Array.from(document.querySelectorAll("svg text, .tiles dd, .legend li"))
  .filter((one) => {
    const box = one.getBoundingClientRect();
    return box.left < 0 || box.right > innerWidth || one.scrollWidth > one.clientWidth + 1;
  }).map((one) => one.textContent)"""
"""Texts of charts and tiles that reach over an edge."""
NAMELESS = """Array.from(document.querySelectorAll("button, input, svg[role], section, table"))
  .filter((one) => one.checkVisibility()).filter((one) => {
    const by = one.getAttribute("aria-labelledby");
    const name = one.getAttribute("aria-label") || one.labels?.length || one.caption
      || (by && document.getElementById(by).textContent)
      || (one.tagName === "BUTTON" && one.textContent);
    return !name;
  }).map((one) => one.outerHTML)"""
"""What a screen reader has no name for."""


def _open(browser: chromium.Chromium, url: str, width: int, *, dark: bool = False) -> None:
    browser.open(url, width, dark=dark)
    _wait(browser, "!document.querySelector('#content').hidden")


def _wait(browser: chromium.Chromium, condition: str) -> None:
    _until(lambda: browser.evaluate(condition), condition)


def _until(holds: Any, what: str = "") -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"it did not happen: {what}"
        time.sleep(0.05)


def _text(browser: chromium.Chromium, selector: str) -> str:
    return browser.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")


def _legend(browser: chromium.Chromium, name: str) -> list[str]:
    return browser.evaluate(f"""Array.from(document.querySelectorAll("#{name} .legend li"),
      (one) => one.innerText.replace(/\\s+/g, " ").trim())""")


def _last(values: list[float]) -> str:
    return f"{values[-1]:.4g}".replace("-", MINUS)


def _focus(browser: chromium.Chromium, selector: str) -> None:
    browser.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")


def _key(browser: chromium.Chromium, key: str, code: int) -> None:
    text = {"text": "\r"} if key == "Enter" else {}
    for kind in ("keyDown", "keyUp"):
        browser.send("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                     windowsVirtualKeyCode=code, **text)  # fmt: skip


def _type(browser: chromium.Chromium, text: str) -> None:
    browser.send("Input.insertText", text=text)


def _keep(browser: chromium.Chromium, name: str) -> None:
    """A picture of the page in the folder SCREENSHOTS, for people to look at."""
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.screenshot(Path(folder) / f"{name}.png")
