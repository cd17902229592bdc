"""Did a change of the code change any result? Digests of short runs, to compare two checkouts.

    python benchmarks/digests.py write FILE [PART ...]    run the cases whose names hold a part
    python benchmarks/digests.py compare A B              exit code 1 if any common case differs

Every agent on a compiled environment, its published faults, the grid world's settings, host
environments, prescient training, a sweep, and a run that is killed and resumed. A digest covers
all arrays of the records and of the saved policy, bit for bit; arrays of a policy count in their
order, not by their names. Only `lcpo.train` is called, so that old checkouts can be asked, too:
`PYTHONPATH=OLD python benchmarks/digests.py write old.json`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import lcpo
from lcpo.agents import AGENTS

# Numba imports the package `coverage`, and must not find the module of this folder.
sys.path = [folder for folder in sys.path if Path(folder) != Path(__file__).parent]

FLIPS = "flips.npy"
"""A wind that turns round at every update, so that LCPO's constraint acts: written by `main`."""
SMALL: dict[str, dict[str, Any]] = {
    "ddqn": {"random_steps": 1000, "epsilon_steps": 3000, "updates_per_rollout": 3},
    "sac": {"random_steps": 1000, "updates_per_rollout": 3},
    "pt-dqn": {"random_steps": 1000, "permanent_period": 2000},
    "mbcd": {"random_steps": 1000, "min_steps": 1000},
    **{
        name: {"random_steps": 1000}
        for name in ("bfdqn", "online-ewc", "sliding-ogd", "mbpo", "ideal-mbpo")
    },
}
"""Settings in which a short run does more than explore."""


def cases() -> dict[str, dict[str, Any]]:
    """Arguments of `lcpo.train` by the name of the case."""
    found: dict[str, dict[str, Any]] = {}
    for name, agent in AGENTS.items():
        if agent.root.name == "constant" or name.startswith("hedge-"):
            continue  # rules, which learn nothing
        base = name.removeprefix("prescient-")
        env = "grid-world" if base.startswith("tabular") else "pendulum"
        trace = None if env == "grid-world" else FLIPS
        case: dict[str, Any] = {"agent": name, "env": env, "trace": trace, "steps": 6400}
        if name != base:
            rollout = 10_000 if base == "trpo" else 3200
            case |= {"training_steps": 2 * rollout, "steps": 2000}
        found[f"{name} {env}"] = {**case, "config": SMALL.get(base.removesuffix("-sgd"), {})}
    for name in ("a2c", "a2c-entropy", "lcpo", "lcpo-noent", "lcpo-mhd", "lcpo-p", "ppo", "sac"):
        case = {"agent": name, "env": "grid-world", "trace": None, "steps": 4000}
        found[f"{name} grid-world"] = {**case, "config": SMALL.get(name, {})}
    for name, more in (
        ("a2c", {}), ("trpo", {}), ("lcpo", {"dual": True}), ("lcpo-p", {}), ("sac", SMALL["sac"]),
    ):  # fmt: skip
        field = next(f for f in _fields(AGENTS[name].Config) if f.name == "faults")
        config = {"faults": list(field.metadata["choices"]), **more}
        case = {"agent": name, "env": "pendulum", "trace": FLIPS, "steps": 6400}
        found[f"{name} faults"] = {**case, "config": config}
    for name, env in (
        ("lcpo", "hopper"), ("a2c", "reacher"), ("ddqn", "inverted-pendulum"),
        ("prescient-a2c", "inverted-pendulum"),
    ):  # fmt: skip
        case = {"agent": name, "env": env, "trace": FLIPS, "steps": 2000, "seeds": 2}
        if name.startswith("prescient"):
            case |= {"training_steps": 6400}
        found[f"{name} {env}"] = {**case, "config": SMALL.get(name, {})}
    for name, env_config in (
        ("lcpo", {"workload": "workload-1", "shorten": 20.0}),
        ("hedge-p95", {"cancel": True, "rate": 40.0}), ("hedge-table", {"slow_ms": 900.0}),
        ("hedge-cap", {"faults": ["future-sizes", "late-windows", "idle-terminal"]}),
        ("hedge-30ms", {"workload": "workload-2", "shorten": 50.0}),
    ):  # fmt: skip
        case = {"agent": name, "env": "straggler", "steps": 9300, "env_config": env_config}
        found[f"{name} straggler"] = case
    gym = {"agent": "lcpo", "env": "gym:CartPole-v1", "steps": 2000}
    found["lcpo gym"] = {**gym, "config": {"detector": "mahalanobis-full"}}
    plain = {"agent": "ppo", "env": "pendulum-v1", "steps": 4000}
    found["ppo sweep"] = {**plain, "sweep": {"learning_rate": [1e-4, 1e-3]}, "seeds": 1}
    for name in ("lcpo", "ddqn"):
        case = {"agent": name, "env": "pendulum", "trace": FLIPS, "steps": 300_000, "seeds": 1}
        found[f"{name} resumed"] = {**case, "config": SMALL.get(name, {}), "resumed": True}
    return found


def _fields(cls: Any) -> Any:
    return cls.__dataclass_fields__.values()


def digest(folder: Path) -> dict[str, str]:
    """By run and file."""
    out = {}
    for path in sorted(folder.glob("runs/*/*.npz")):
        total = hashlib.sha256()
        with np.load(path) as file:
            names = file.files if path.stem == "policy" else sorted(file.files)
            names = [name for name in names if name != "about"]  # text, beside a policy's arrays
            for name in names:
                array = file[name]
                total.update(b"" if path.stem == "policy" else name.encode())
                total.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
        out[f"{path.parent.name}/{path.name}"] = total.hexdigest()[:16]
    return out


def run_case(item: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, str]]:
    """Train as the case says, in a folder of its own."""
    name, case = item
    case = {"seeds": 1, "workers": 0, "progress": False, **case}
    resumed = case.pop("resumed", False)
    with tempfile.TemporaryDirectory() as out:
        if resumed:
            _kill_at_first_checkpoint({**case, "workers": 1, "checkpoint_seconds": 0.0}, out)
        lcpo.train(**case, out=out, resume=resumed)
        return name, digest(Path(out))


def _kill_at_first_checkpoint(case: dict[str, Any], out: str) -> None:
    program = f"import json, sys, lcpo; lcpo.train(**json.loads(sys.argv[1]), out={out!r})"
    process = subprocess.Popen([sys.executable, "-c", program, json.dumps(case)])
    while not list(Path(out).glob("runs/*/checkpoint/manifest.json")):
        if process.poll() is not None:
            raise RuntimeError("the run ended before it could be killed")
        time.sleep(0.02)
    process.kill()
    process.wait()
    time.sleep(1.0)  # its worker hears of it


def write(path: Path, parts: list[str]) -> None:
    path = path.resolve()
    items = [(k, v) for k, v in cases().items() if not parts or any(part in k for part in parts)]
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        flips = np.where(np.arange(2000) % 2, 2.0, -2.0)
        np.save(FLIPS, np.repeat(flips, 200)[:, None].astype("f4") * np.ones((1, 2), "f4"))
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            for name, digests in pool.imap_unordered(run_case, items, chunksize=1):
                found[name] = digests
                print(f"{len(found):3} of {len(items)}  {name}", file=sys.stderr, flush=True)
    path.write_text(json.dumps(dict(sorted(found.items())), indent=1))


def compare(first: Path, second: Path) -> int:
    a, b = (json.loads(path.read_text()) for path in (first, second))
    common = sorted(a.keys() & b.keys())
    different = [name for name in common if a[name] != b[name]]
    for name in different:
        files = sorted(
            k for k in a[name].keys() | b[name].keys() if a[name].get(k) != b[name].get(k)
        )
        print(f"differs: {name}: {', '.join(files)}")
    for name in sorted(a.keys() ^ b.keys()):
        print(f"only in one of the two: {name}")
    runs = sum(len({file.split("/")[0] for file in a[name]}) for name in common)
    print(f"{len(common) - len(different)} of {len(common)} cases ({runs} runs) are equal")
    return int(bool(different))


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]), sys.argv[3:])
    elif sys.argv[1:2] == ["compare"]:
        sys.exit(compare(Path(sys.argv[2]), Path(sys.argv[3])))
    else:
        sys.exit(__doc__)
