"""`act` with a key can be repeated, also after a crash, and traces are logged."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_examples import World, crash, opened

from lcpo.errors import Conflict, InputError
from lcpo.live import Decide, Observe, keys, replay
from lcpo.live.journal import decode
from lcpo.live.log import read

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_repeated_call_gets_the_same_decision(tmp_path: Path) -> None:
    world, folder = World(), tmp_path / "live"
    agent = opened(folder, mode="live", late=5)
    first = agent.act(*world.seen, key="a", trace=TRACE)
    assert agent.act(*world.seen, stream="other", key="a").id == 1  # keys belong to streams
    before = agent.stats().sequence
    for again in (agent.act(*world.seen, key="a"), agent.act(*world.seen, key="a")):
        assert again.action.tolist() == first.action.tolist()
        assert again.action.dtype == first.action.dtype
        assert again[0] == first.id
        assert again[2:] == first[2:]
    assert agent.stats().sequence == before
    assert (agent.made_with("a"), agent.made_with("b")) == (0, None)
    obs, context = world.seen
    with pytest.raises(Conflict, match="key 'a' was used before, with another observation"):
        agent.act([obs[0] + 1.0, *obs[1:]], context, key="a")
    for wrong in ("", "x" * 129, "a\n", 7):
        with pytest.raises(InputError, match="key = "):
            agent.act(*world.seen, key=wrong)  # pyright: ignore[reportArgumentType]
    agent.observe(1.0, id=first.id, trace=TRACE)
    assert agent.stats().sequence == before + 1
    digest = agent.digest()
    crash(agent)
    for _ in range(2):  # recovered from the log, then from a checkpoint
        agent = opened(folder, late=5)
        assert agent.act(*world.seen, key="a")[0] == first.id
        assert agent.digest() == digest
        agent.close()
    entries = [decode(record) for record in read(folder / "log")]
    assert [e.key for e in entries if isinstance(e, Decide)] == ["a", "a"]
    assert [e.trace for e in entries if isinstance(e, Decide | Observe)] == [TRACE, None, TRACE]
    assert replay(folder).state.digest() == digest


def test_the_newest_keys_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "KEPT", 2)
    world = World()
    agent = opened(tmp_path / "live", mode="live", late=9)
    made = [agent.act(*world.seen, key=name).id for name in ("a", "b", "c", "a", "c")]
    assert made == [0, 1, 2, 3, 2]
    agent.close()
