"""Checkpoints: a folder with the state as .npz and a manifest that points at it.

The manifest is replaced last, atomically, so a kill at any moment leaves the checkpoint before or
the new one. No pickle. A resumed run equals an undisturbed one, bit for bit, on the CPU.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from lcpo.run import record as records
from lcpo.run.job import Job

SCHEMA = 1
FOLDER = "checkpoint"


class Checkpoint(NamedTuple):
    """A run in the middle: `update` updates are behind it, in all its phases."""

    update: int
    state: Any
    record: records.Record
    """Of the phase."""
    seconds: float


def save(run: Path, job: Job, checkpoint: Checkpoint) -> None:
    """Write a checkpoint into the folder of a run, then drop the one before."""
    folder = run / FOLDER
    state, record = f"state-{checkpoint.update}.npz", f"record-{checkpoint.update}.npz"
    records.save_arrays(folder / state, flatten(checkpoint.state))
    records.save_arrays(folder / record, checkpoint.record)
    manifest = {
        "schema": SCHEMA,
        "job": job.to_json(),
        "update": checkpoint.update,
        "seconds": checkpoint.seconds,
        "state": state,
        "record": record,
    }
    records.save_json(folder / "manifest.json", manifest)
    for file in folder.iterdir():
        if file.name not in ("manifest.json", state, record):
            file.unlink()


def load(run: Path, job: Job, template: Callable[[int], Any]) -> Checkpoint | None:
    """The checkpoint of a run, or None.

    `template(update)` has the tree, shapes and dtypes of the state after so many updates.
    """
    path = run / FOLDER / "manifest.json"
    if not path.exists():
        return None
    manifest = records.load_json(path)
    if manifest.get("schema") != SCHEMA:
        raise ValueError(
            f"{path} has schema {manifest.get('schema')}, this version reads {SCHEMA}: "
            "finish the run with the version that began it, or start anew"
        )
    same_job(Job(**manifest["job"]), job, str(path))
    try:
        shapes = template(manifest["update"])
        state = unflatten(shapes, records.load_arrays(path.parent / manifest["state"]))
        record = records.load_arrays(path.parent / manifest["record"])
    except ValueError as error:
        raise ValueError(f"{error}: delete {path.parent} to start this run anew") from error
    return Checkpoint(manifest["update"], state, record, manifest["seconds"])


def drop(run: Path) -> None:
    """Delete the checkpoint of a finished run."""
    shutil.rmtree(run / FOLDER, ignore_errors=True)


def same_job(found: Job, wanted: Job, where: str) -> None:
    """Raise ValueError with the fields that differ."""
    old, new = found.to_json(), wanted.to_json()
    differ = []
    for key in new:
        if isinstance(new[key], dict) and isinstance(old[key], dict):
            names = old[key].keys() | new[key].keys()
            pairs = [(f"{key}.{k}", old[key].get(k), new[key].get(k)) for k in sorted(names)]
        else:
            pairs = [(key, old[key], new[key])]
        differ += [f"{k}: there {a!r}, now {b!r}" for k, a, b in pairs if a != b]
    if differ:
        raise ValueError(f"{where} belongs to another run ({'; '.join(differ)})")


def without_memory(agent_state: Any) -> Any:
    """What an agent needs to act: its state without the large buffers."""
    has_memory = "memory" in getattr(agent_state, "_fields", ())
    return agent_state._replace(memory=None) if has_memory else agent_state


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """Leaves of a state by their path."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def unflatten(template: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The inverse of `flatten`; raises ValueError where the arrays do not fit the template."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    expected = {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
    if expected.keys() != arrays.keys():
        odd = sorted(expected.keys() ^ arrays.keys())
        raise ValueError(f"the saved state has other parts than this agent's: {', '.join(odd[:4])}")
    for name, leaf in expected.items():
        found = arrays[name]
        if found.shape != leaf.shape or found.dtype != leaf.dtype:
            raise ValueError(
                f"the saved state's {name} is {found.dtype}{list(found.shape)}, "
                f"this agent's is {leaf.dtype}{list(leaf.shape)}"
            )
    return jax.tree.unflatten(structure, [arrays[name] for name in expected])
