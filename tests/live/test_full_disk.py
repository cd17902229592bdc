"""Any one write of a live agent fails: calls are repeated, and nothing differs in the end."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_examples import Clock, World, crash, opened

from lcpo.live import NotWritten, replay
from lcpo.live import log as logs
from lcpo.run.store import files


class Fault:
    """The n-th write fails, after some of its bytes; later ones do not."""

    def __init__(self, number: int, patch: pytest.MonkeyPatch) -> None:
        self.number, self.count = number, 0
        self.write, self.whole = os.write, files.write_whole
        patch.setattr(logs.os, "write", self.fake_write)
        patch.setattr(files, "write_whole", self.fake_file)

    def fail(self) -> bool:
        self.count += 1
        return self.count == self.number

    def fake_write(self, file: int, content: bytes) -> int:
        if not self.fail():
            return self.write(file, content)
        self.write(file, content[:7])
        raise OSError(errno.ENOSPC, "No space left on device")

    def fake_file(self, *arguments: Any) -> str:
        if self.fail():
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.whole(*arguments)


def repeated(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except NotWritten:
        return call()


def session(folder: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> tuple[str, int]:
    """The learner's digest, and the number of writes."""
    clock, world = Clock(), World()
    sizes = {"checkpoint_every": 30, "segment_bytes": 3000, "version_every": 2}
    agent = opened(folder, clock, **sizes)
    with monkeypatch.context() as patch:
        fault = Fault(number, patch)
        for _ in range(28):
            clock.now += 60.0
            made = repeated(lambda: agent.act(*world.seen))
            reward = world.play(int(made.action[0]))
            answer = repeated(lambda r=reward, m=made: agent.observe(r, id=m.id))
            assert answer in ("ok", "duplicate")
        repeated(agent.checkpoint)
    digest = agent.digest()
    crash(agent)
    agent = opened(folder, clock)
    assert agent.digest() == digest
    agent.close()
    assert replay(folder).state.digest() == digest
    return digest, fault.count


@pytest.mark.learn
@pytest.mark.filterwarnings("ignore:.*No space left on device:RuntimeWarning")
def test_any_one_write_may_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, count = session(tmp_path / "undisturbed", 0, monkeypatch)
    assert count > 70
    for number in range(1, count + 1):
        assert session(tmp_path / str(number), number, monkeypatch)[0] == expected, number
