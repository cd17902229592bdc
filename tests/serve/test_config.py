"""Configuration files: what is refused, what they mean, and what may change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from commands import run
from each import for_each
from live_examples import opened
from served import Local, write

from lcpo import serve
from lcpo.errors import InputError, MissingPackage
from lcpo.live import Budget, Limits, Rule
from lcpo.serve import check
from lcpo.serve import config as configs
from lcpo.serve.server import hint

GUARD = """
[guard]
low = 1
change = 1
budget = {load = [0, 0, 1, 2], limit = 20, window = 60}
[rollback]
margin = 0.5
window = 500
"""


def changed(folder: Path, old: str, new: str, **how: Any) -> Path:
    path = write(folder, **how)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


@for_each(
    "old, new, message",
    [
        ("folder =", "foldr =", "unknown field `foldr`: there are folder, agent, spec"),
        ("max_body", "max_bdy", "[serve] it has the unknown field `max_bdy`: there are address"),
        ("obs_size = 5", "obs_size = 'x'", "[spec.obs_size] Expected `int`, got `str`"),
        ("[serve]", "[serve", "is not a TOML file"),
        ('name = "a2c"', "", "give agent.name and [spec], or agent.policy"),
        ('mode = "live"', 'mode = "switchback"', "needs [switchback] with length="),
        ('mode = "live"', 'mode = "loud"', "'loud': needs one of frozen, shadow, switchback"),
        ("missing = 'cut'", "missing = 'x'", "[live.missing] Invalid enum value 'x': needs one of"),
        ("127.0.0.1:8080", "8080", "serve.address = '8080': needs HOST:PORT or unix:PATH, as in"),
        ("127.0.0.1:8080", "127.0.0.1:99999", "serve.address"),
        ("127.0.0.1:8080", f"unix:{'x' * 120}", "a shorter path"),
        ("127.0.0.1:8080", "0.0.0.0:8080", "can be reached from other machines"),
        ("127.0.0.1:8080", "host.example:80", "can be reached from other machines"),
        ("max_body = 300", "max_body = 3", "serve.max_body = 3: needs a whole number from 256"),
        ("max_body = 300", "hosts = ['*']", "serve.hosts = ['*'] needs serve.token_file"),
        ("max_body = 300", "hosts = ['a:80']", "names or addresses without a port"),
        ("max_body = 300", "hosts = []", "serve.hosts = (): needs at least one name"),
        ("max_body = 300", f"max_body = {'[' * 3000}", "is not a TOML file"),
        ("max_body = 300", "token_file = 'none'", "token_file"),
        ("max_body = 300", "token_file = 'short'", "at least 16 characters without spaces"),
        ("max_body = 300", "token_file = 'spaces'", "at least 16 characters without spaces"),
        ("max_body = 300", "idle_seconds = 0", "serve.idle_seconds = 0.0: needs a number"),
        ("margin = 0.5", "margin = -1", "margin = -1.0: needs a number"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "short").write_text("x" * 15)
    (tmp_path / "spaces").write_text("x" * 10 + " " + "x" * 10)
    live = "late = 50\nmissing = 'cut'"
    path = changed(tmp_path, old, new, live=live, serve="max_body = 300", rest=GUARD)
    with pytest.raises(InputError) as error:
        configs.load(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    assert list(tmp_path.glob("agent*")) == []


def test_what_a_file_means(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef\n")
    config = configs.load(
        write(tmp_path, "0.0.0.0:80", serve='token_file = "token"', rest=GUARD, live="fallback = 2")
    )
    assert config.folder == tmp_path / "agent"
    assert config.token == b"0123456789abcdef"
    assert config.guard == Limits(low=1, change=1, budget=Budget([0, 0, 1, 2], 20.0, 60))
    assert config.rollback == Rule(0.5, 500)
    assert config.hosts == {"127.0.0.1", "localhost", "[::1]", "0.0.0.0"}
    for text, local in (
        ("127.0.0.1:1", True), ("[::1]:1", True), ("localhost:1", True), ("unix:x.sock", True),
        ("0.0.0.0:1", False), ("[::]:1", False), ("10.0.0.1:1", False), ("127.0.0.1.x:1", False),
    ):  # fmt: skip
        assert configs._address(text, tmp_path).is_local is local, text


def test_only_some_of_it_may_change(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef")
    old = configs.load(write(tmp_path))
    path = changed(
        tmp_path, "seed", "seed", live="late = 60\nfallback = 2", address="127.0.0.1:8081",
        serve='token_file = "token"\nmax_body = 1000', rest=GUARD + "# seed",
    )  # fmt: skip
    new = configs.load(path)
    free, fixed = configs.changes(old.file, new.file)
    assert free == ["live.fallback", "guard", "rollback", "serve.token_file", "serve.max_body"]
    assert fixed == ["live.late", "serve.address"]
    merged = configs.merged(old, new)
    assert merged.file.live.late == 50
    assert merged.file.live.fallback == 2
    assert (merged.address, merged.token) == (old.address, b"0123456789abcdef")
    assert merged.file.serve.max_body == 1000
    assert configs.changes(new.file, merged.file) == ([], ["live.late", "serve.address"])
    outside = configs.load(write(tmp_path, "0.0.0.0:80", serve='token_file = "token"'))
    kept = configs.merged(outside, configs.load(write(tmp_path)))
    assert kept.token == outside.token  # else the old address would be open to everybody


def test_a_reload_says_what_a_restart_does_not_change_either() -> None:
    assert hint(["folder"]) == "restart the server"
    assert hint(["agent.mode"]).startswith("a folder keeps its mode: change it with POST /v1/mode")
    both = hint(["agent.mode", "switchback", "live.late"])
    assert both.startswith("restart the server; a folder keeps its mode")
    assert both.endswith("a switchback design keeps it: give another one with POST /v1/mode")


def test_check_explains_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    rest = f"{GUARD}\n[switchback]\nlength = 60.0"
    path = write(tmp_path, live="fallback = 2\nlate = 50\nlate_seconds = 9", rest=rest)
    assert run("serve", str(path), "--check") == 0
    said = " ".join(capsys.readouterr().out.split())
    for part in (
        "which is new: it begins in live mode", "4 actions", "fallback: 2", "low=1.0",
        "margin=0.5", "127.0.0.1:8080 (this machine)", "token: not needed", "length=60.0",
        "50 further decisions and 9 s", "75 s of idling",
    ):  # fmt: skip
        assert part in said
    assert "keeps it" not in said
    assert not (tmp_path / "agent").exists()
    Local(path).open().close()
    before = sorted(tmp_path.rglob("*"))
    said = " ".join(check.explain(path))
    assert "which holds an agent: a2c continues in its mode" in said
    assert (
        "length=60.0, share=0.5, burn_in=0.0, seed=0); a folder that has had a switchback" in said
    )
    assert sorted(tmp_path.rglob("*")) == before
    for old, new, message in (
        ("fallback = 2", "fallback = 9", "live.fallback = 9: needs"),
        ("hidden = [8, 8]", "hidden = [9, 9]", "the agent in"),
        ("low = 1", "low = 7", "guard: low = 7.0"),
        ("late = 50", "late = 50\nversion_every = 0", "version_every = 0"),
    ):
        wrong = path.parent / "wrong.toml"
        wrong.write_text(path.read_text().replace(old, new))
        assert run("serve", str(wrong), "--check") == 2
        assert message in capsys.readouterr().err
    path = write(tmp_path, live="late = 50\nlate_seconds = 9")
    assert "caution: without live.fallback" in " ".join(check.explain(path))


def test_another_configuration_of_the_same_folder_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "agent").close()
    with pytest.raises(InputError, match="was made with late = None"):
        Local(write(tmp_path)).open()
    Local(write(tmp_path, live="")).open().close()


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "NEEDED", ("msgspec", "missing_package"))
    with pytest.raises(MissingPackage, match=r"needs missing_package.*pip install 'lcpo\[serve\]'"):
        serve.check_installed()
