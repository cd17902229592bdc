"""What was compiled is kept: whole, bounded, and never in the way of a run."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from stopping import assert_same_results

from lcpo.run import compile_cache
from lcpo.run.compile_cache import CacheFolder

SMALL = """
import sys
import jax
from lcpo.run import compile_cache
from jax import monitoring
heard = []
monitoring.register_event_listener(lambda name, **_: heard.append(name.rsplit("/", 1)[-1]))
compile_cache.use()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
x = jax.jit(lambda x: jax.lax.fori_loop(0, 9, lambda i, x: jax.numpy.sin(x) * i, x))(0.5)
print(float(x).hex(), heard.count("cache_hits"), heard.count("cache_misses"))
"""
TRAIN = """
import sys
from jax import monitoring
import lcpo
heard = []
monitoring.register_event_listener(lambda name, **_: heard.append(name.rsplit("/", 1)[-1]))
lcpo.train("a2c", trace="revisit", steps=400, seeds=1, workers=0, progress=False, out=sys.argv[1],
           config={"hidden": [4], "rollout_length": 20})
print(heard.count("cache_hits"), heard.count("cache_misses"))
"""


def process(script: str, *words: str, **variables: str) -> list[str]:
    """What a process says that has no cache of the tests."""
    env = {k: v for k, v in os.environ.items() if "CACHE" not in k}
    command = [sys.executable, "-W", "error", "-c", script, *words]
    told = subprocess.run(command, env={**env, **variables}, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert "cache" not in told.stderr
    return told.stdout.split()


def train(out: Path, **variables: str) -> tuple[int, int]:
    """How many programs were found in the cache, and how many were put there."""
    hits, misses = process(TRAIN, str(out), **variables)[-2:]
    return int(hits), int(misses)


@pytest.mark.learn
def test_a_second_process_finds_a_program(tmp_path: Path) -> None:
    home = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    value, *counts = process(SMALL, **home)
    assert counts == ["0", "1"]
    assert process(SMALL, **home) == [value, "1", "0"]
    flags = f"{os.environ['XLA_FLAGS']} --xla_cpu_max_isa=SSE4_2"
    assert process(SMALL, **home, XLA_FLAGS=flags)[1:] == ["0", "1"], "other flags, other code"
    (tmp_path / "file").write_text("no folder")
    assert process(SMALL, XDG_CACHE_HOME=str(tmp_path / "file")) == [value, "0", "0"]


@pytest.mark.learn
def test_a_second_process_compiles_nothing_and_gives_the_same(tmp_path: Path) -> None:
    home = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert train(tmp_path / "without", **home, LCPO_COMPILE_CACHE="0") == (0, 0)
    assert not (tmp_path / "cache").exists()
    hits, misses = train(tmp_path / "cold", **home)
    assert misses > 1
    entries = sorted((tmp_path / "cache" / "lcpo" / "jax").glob("*/*"))
    assert len(entries) == misses
    assert {path.suffix for path in entries} == {".xla"}
    assert entries[0].parent.stat().st_mode & 0o777 == 0o700, "it holds code: nobody else's"
    entries[0].write_bytes(entries[0].read_bytes()[:-1])
    assert train(tmp_path / "warm", **home) == (hits + misses - 1, 1), "one was damaged"
    for other in ("cold", "warm"):
        assert_same_results(tmp_path / "without", tmp_path / other)


def test_entries_are_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = CacheFolder(tmp_path)
    cache.put("a/b", b"program")
    assert cache.get("a/b") == b"program"
    assert cache.get("b") is None
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes().replace(b"p", b"q"))
    assert cache.get("a/b") is None
    assert not list(tmp_path.iterdir()), "what is damaged is made anew"

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compile_cache.os, "replace", full)
    cache.put("c", b"program")
    assert not list(tmp_path.iterdir()), "nothing half-written stays"
    CacheFolder(tmp_path / "gone").put("c", b"program")
    assert CacheFolder(tmp_path / "gone").get("c") is None


def test_a_program_under_the_name_of_another_is_not_run(tmp_path: Path) -> None:
    """As it was found: two entries that were swapped fail the runs that find them."""
    cache = CacheFolder(tmp_path)
    cache.put("a", b"one program")
    cache.put("b", b"another")
    cache._file("a").replace(tmp_path / "c")
    cache._file("b").replace(cache._file("a"))
    (tmp_path / "c").replace(cache._file("b"))
    assert [cache.get(key) for key in "ab"] == [None, None]
    assert not list(tmp_path.iterdir())
    cache.put("a", b"one program")
    assert cache.get("a") == b"one program"


def test_what_is_no_file_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = CacheFolder(tmp_path / "cache")
    (tmp_path / "cache").mkdir()
    os.mkfifo(cache._file("pipe"))
    cache._file("folder").mkdir()
    cache.put("mine", b"program")
    cache._file("mine").replace(tmp_path / "elsewhere")
    cache._file("mine").symlink_to(tmp_path / "elsewhere")
    assert [cache.get(key) for key in ("pipe", "folder", "mine")] == [None] * 3
    cache.put("pipe", b"program")
    assert cache.get("pipe") == b"program"
    monkeypatch.setattr(compile_cache, "MAX_BYTES", 20)
    assert cache.get("pipe") is None, "larger than all entries may be together"


def test_what_was_not_used_for_long_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_cache, "MAX_BYTES", 300)
    cache = CacheFolder(tmp_path)
    for number, key in enumerate("abc"):
        cache.put(key, bytes(68))  # and 32 of its digest
        os.utime(cache._file(key), (number, number))
    assert cache.get("a") == bytes(68), "used again: the newest now"
    cache.put("d", bytes(68))
    assert [cache.get(key) is None for key in "abcd"] == [False, True, False, False]


def test_other_instructions_have_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(compile_cache.SWITCH, raising=False)
    found = {compile_cache.folder()}
    for flags in ("sse4_2", "sse4_2 avx2"):
        cpu = f"model name : the same\nflags : {flags}\n\n"
        monkeypatch.setattr(
            compile_cache, "open", lambda *_, cpu=cpu, **__: io.StringIO(cpu), raising=False
        )
        found.add(compile_cache.folder())
    assert len(found) == 3


def test_folders_of_others_and_the_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(compile_cache.SWITCH, raising=False)
    mine = compile_cache.folder()
    assert mine is not None
    assert mine.parent == tmp_path / "lcpo" / "jax"
    with monkeypatch.context() as patch:
        patch.setattr(compile_cache.os, "getuid", lambda: mine.stat().st_uid + 1)
        assert compile_cache.folder() is None
    mine.chmod(0o777)
    assert compile_cache.folder() is None, "anybody may put code there"
    mine.chmod(0o700)
    monkeypatch.setenv(compile_cache.SWITCH, "0")
    assert compile_cache.folder() is None
