"""What is told of an exception: one line, and the line of the user's code."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from lcpo.agents import find_agent
from lcpo.errors import InputError, message, place, tell, trace_of


def caught(work: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as found:  # noqa: PT011 - any
        work()
    return found.value


def host(x: Any) -> Any:
    raise ValueError("bad file [/x]\nand more")


@jax.jit
def calls_back(x: Any) -> Any:
    return jax.pure_callback(host, jax.ShapeDtypeStruct((), jnp.float32), x)


@jax.jit
def branches(x: Any) -> Any:
    return x if x > 0 else -x


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def raises(error: Exception, cause: Exception | None = None) -> None:
    raise error from cause


def line_of(function: Any) -> str:
    code = getattr(function, "__wrapped__", function).__code__
    last = max(line for _, _, line in code.co_lines() if line)
    return f"test_errors.py:{last} in {code.co_name}"


# what raises -> the text, and the innermost frame of the user's
TOLD: dict[str, tuple[Callable[[], Any], str, Any]] = {
    "of a module of Python's": (
        lambda: raises(caught(lambda: json.loads("{"))), "JSONDecodeError: Expecting", None
    ),
    "in a compiled function": (
        lambda: branches(jnp.float32(1.0)), "TracerBoolConversionError: Attempted", branches
    ),
    "in a callback": (
        lambda: jax.block_until_ready(calls_back(jnp.float32(1.0))),
        "ValueError: bad file [/x]", host,
    ),
    "of several lines": (lambda: raises(ValueError("\n a\nb")), "ValueError: a", raises),
    "without a message": (lambda: raises(KeyError()), "KeyError", raises),
    "that cannot be shown": (lambda: raises(Broken()), "Broken: its message cannot", raises),
    "not of UTF-8": (lambda: raises(OSError("\udcff")), "OSError: \\udcff", raises),
    "for users": (lambda: raises(InputError("sigma = 5")), "sigma = 5", raises),
    "for users, of theirs": (
        lambda: raises(InputError("bad"), caught(lambda: host(1))), "bad", raises
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_an_exception_is_told_in_one_line(name: str) -> None:
    work, text, function = TOLD[name]
    error = caught(work)
    assert message(error).startswith(text)
    told = tell(error)
    assert "\n" not in told
    told.encode()
    trace_of(error).encode()
    where = place(error)
    assert where is not None
    assert where.split("/")[-1].startswith("test_errors.py:")
    if function is not None:
        assert where.endswith(line_of(function))
        assert told.endswith(f"({where})")


def test_a_long_message_is_cut() -> None:
    assert len(message(ValueError("x" * 10_000))) < 600


def test_the_innermost_line_of_the_user_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of a package which it calls; where there are only packages, theirs."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "simulator.py").write_text("def step():\n    raise OSError('gone')\n")
    (tmp_path / "mine.py").write_text("import simulator\ndef play():\n    simulator.step()\n")
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.syspath_prepend(str(tmp_path))
    error = caught(importlib.import_module("mine").play)
    assert place(error) == f"{tmp_path}/mine.py:3 in play"
    monkeypatch.chdir(tmp_path)
    assert place(error) == "mine.py:3 in play"
    packaged = caught(importlib.import_module("simulator").step)
    while packaged.__traceback__ and packaged.__traceback__.tb_frame.f_code.co_filename == __file__:
        packaged.__traceback__ = packaged.__traceback__.tb_next
    assert place(packaged) == "site-packages/simulator.py:2 in step"
    ours = caught(lambda: find_agent("lcop"))
    while ours.__traceback__ and ours.__traceback__.tb_frame.f_code.co_filename == __file__:
        ours.__traceback__ = ours.__traceback__.tb_next
    assert place(ours) is None
