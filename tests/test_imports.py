"""Who may know whom, and what a bare machine needs."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

from each import for_each

import lcpo

ROOT = Path(lcpo.__file__).parent

# package -> the packages of ours that it may import
BASICS = {
    "archives", "defaults", "errors", "values", "names", "config", "types", "distributions",
    "history", "plain",
}  # fmt: skip
ALLOWED = {
    "errors": set(),
    "archives": set(),
    "defaults": set(),
    "values": {"errors"},
    "names": {"errors", "values"},
    "config": {"errors", "values", "names"},
    "distributions": set(),
    "plain": set(),
    "history": {"errors", "types", "values"},
    "acting": {"errors", "history", "plain", "run", "values"},
    "types": {"config", "distributions", "errors"},
    "core": {"core"} | BASICS,
    "agents": {"agents", "core"} | BASICS,
    "contexts": {"contexts"} | BASICS,
    "envs": {"envs", "contexts", "core"} | BASICS,
    "gym": {"gym", "envs", "contexts", "core"} | BASICS,
    "run": {"run", "agents", "envs", "gym", "contexts", "core", "lcpo"} | BASICS,
    "bench": {"run", "agents", "envs"} | BASICS,
    "straggler": {"straggler", "study", "run", "agents", "envs", "contexts", "core"} | BASICS,
    "study": {"study", "live", "policy", "run", "agents", "envs", "gym", "contexts", "core",
              "bench"} | BASICS,
    "policy": {"run", "agents", "envs"} | BASICS,
    "live": {"live", "acting", "policy", "run", "agents", "envs", "core"} | BASICS,
    "serve": {"serve", "live", "policy", "run"} | BASICS,
    "api": {"run", "gym", "agents", "envs", "cli"} | BASICS,
    "comparison": {"api", "study", "run", "contexts"} | BASICS,
    "tuning": {"api", "study", "run", "agents", "contexts"} | BASICS,
    "cli": {"cli", "api", "comparison", "tuning", "serve", "live", "policy", "study", "run",
            "agents", "envs", "gym",
            "contexts", "core", "bench", "lcpo"} | BASICS,
    "__init__": {"api", "comparison", "gym", "errors", "live", "moved", "policy", "tuning",
                 "types"},
    "moved": set(),
    "testing": {"testing", "study", "run", "envs", "core"} | BASICS,
}  # fmt: skip


def imported(path: Path) -> set[str]:
    """First parts below `lcpo` of all imports in a file, in functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            if parts[0] == "lcpo":
                found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "lcpo":
                    found.add(parts[1] if len(parts) > 1 else "lcpo")
    return found


@for_each("path", sorted(ROOT.rglob("*.py")))
def test_arrows_point_one_way(path: Path) -> None:
    relative = path.relative_to(ROOT)
    package = relative.parts[0].removesuffix(".py")
    wrong = imported(path) - ALLOWED[package] - {"__version__"}
    assert not wrong, f"{relative} must not import lcpo.{', lcpo.'.join(sorted(wrong))}"


def test_an_agent_that_imports_an_environment_is_caught(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text("def f():\n    from lcpo.envs.pendulum import Pendulum\n")
    assert imported(file) - ALLOWED["agents"] == {"envs"}


def test_former_names_of_modules_still_import() -> None:
    """Those that documents named. In a process of their own: nothing may have imported them."""
    code = """
from lcpo.envs.straggler.task import Straggler
from lcpo.contexts import workloads
from lcpo.contexts.workloads.base import Profile
import lcpo.study.hedging
import lcpo.straggler.task, lcpo.straggler.workloads.base, lcpo.straggler.timeouts
assert Straggler is lcpo.straggler.task.Straggler
assert workloads is lcpo.straggler.workloads and Profile is workloads.base.Profile
assert lcpo.study.hedging is lcpo.straggler.timeouts
assert lcpo.straggler.__spec__.name == "lcpo.straggler"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


BARE = """
import sys
import tomllib
for name in sys.argv[2].split(","):
    sys.modules[name] = None
import lcpo.run.worker, lcpo.bench, lcpo.run.engines.local, lcpo.run.store.results
from lcpo.run.plan.plan import plan
from lcpo.run.drive import execute
from pathlib import Path
trace = None if sys.argv[3] == "straggler" else "revisit"
short = {"rollout_length": 200}
jobs = plan("lcpo", sys.argv[3], trace=trace, steps=400, seeds=[0], overrides=short)
execute.run_jobs(jobs, Path(sys.argv[1]), print, 60.0)
"""
EXTRAS = "tyro,rich,polars,gymnasium,mujoco,scipy.stats,matplotlib"


@for_each(
    "env, missing",
    [("pendulum", f"{EXTRAS},numba"), ("straggler", EXTRAS), ("reacher", f"{EXTRAS},numba")],
)
def test_the_compute_path_runs_on_a_bare_machine(tmp_path: Path, env: str, missing: str) -> None:
    """Only jax, optax and numpy; the straggler task needs numba, too."""
    command = [sys.executable, "-c", BARE, str(tmp_path), missing, env]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Finished(" in done.stdout


def test_type_checkers_resolve_an_editable_install() -> None:
    """With this setting `pip install -e` writes a path; without it, a hook of Python's import."""
    settings = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert settings["package-dir"] == {"": "."}
    assert (ROOT / "py.typed").exists()
