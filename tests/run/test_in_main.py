"""Classes of a script or notebook: no other process can import them, so they run in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from host_examples import Drift

import lcpo
from lcpo.config import config
from lcpo.errors import InputError

SCRIPT = """
import lcpo
from lcpo.agents import a2c
from host_examples import Drift, config

@config
class Mine(Drift):
    "An environment of a script."

agent = a2c.agent
(result,) = lcpo.train("__main__:agent", Mine(moves="own"), steps=80, seeds=1, progress=False,
                       config={"hidden": [4], "rollout_length": 20}, out="o")
print(result.job.env, result.status)
"""


@pytest.mark.learn
def test_a_script_runs_in_its_own_process(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    support = str(Path(__file__).parents[1] / "support")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([support, *filter(None, sys.path)])}
    command = [sys.executable, "script.py"]
    told = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert told.stdout == "__main__:Mine finished\n"
    (note,) = [line for line in told.stderr.splitlines() if line.startswith("note:")]
    assert note == (
        "note: __main__:agent, __main__:Mine: worker processes cannot import what a script or "
        "notebook defines, so everything runs in this process (workers=0); to use every core, "
        "move the definition to a module"
    )


def test_a_class_inside_a_function_is_refused() -> None:
    @config
    class Hidden(Drift):
        pass

    with pytest.raises(InputError, match="is defined inside a function and cannot be imported"):
        lcpo.train("a2c", Hidden(moves="own"), steps=80, seeds=1)
