"""Checkpoints: a folder with the state as .npz and a manifest that points at it.

The manifest is replaced last, atomically, so a kill at any moment leaves the checkpoint before or
the new one. Rows of a replay stand in files of their own (`segments`), which later checkpoints
share. No pickle. A resumed run equals an undisturbed one, bit for bit, on the CPU.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.errors import InputError
from lcpo.run.plan.job import Job
from lcpo.run.store import record as records
from lcpo.run.store import segments

SCHEMA = 2
FOLDER = "checkpoint"
MANIFEST = "manifest.json"


class Checkpoint(NamedTuple):
    """A run in the middle: `update` updates are behind it, in all its phases."""

    update: int
    state: Any  # on disk: without the rows of replays
    record: records.Record
    """Of the phase."""
    seconds: float
    rows: Sequence[list[segments.Segment]] = ()  # files with those rows, replay by replay


def save(run: Path, job: Job, checkpoint: Checkpoint, member: int | None = None) -> None:
    """Write a checkpoint into the folder of a run, then drop the one before.

    `member`: the run's place in a state that is stacked from several; None where it stands alone.
    """
    folder, path = run / FOLDER, run / FOLDER / MANIFEST
    known = _segments(records.load_json(path)) if path.exists() else []
    rows = segments.write(folder, checkpoint.state, member, known)
    state, record = f"state-{checkpoint.update}.npz", f"record-{checkpoint.update}.npz"
    slim = segments.without_rows(checkpoint.state, member is not None)
    records.save_arrays(folder / state, flatten(member_of(slim, member)))
    records.save_arrays(folder / record, checkpoint.record)
    manifest = {
        "schema": SCHEMA,
        "job": job.to_json(),
        "update": checkpoint.update,
        "seconds": checkpoint.seconds,
        "state": state,
        "record": record,
        "segments": rows,
    }
    records.save_json(path, manifest)
    needed = {MANIFEST, state, record, *(segment.file for mine in rows for segment in mine)}
    for file in folder.iterdir():
        if file.name not in needed:
            file.unlink()


def load(run: Path, job: Job, template: Callable[[int], Any]) -> Checkpoint | None:
    """The checkpoint of a run, or None. Its state lacks the rows of replays: see `assemble`.

    `template(update)` has the tree, shapes and dtypes of the state after so many updates.
    """
    path = run / FOLDER / MANIFEST
    if not path.exists():
        return None
    manifest = records.load_json(path)
    if manifest.get("schema") != SCHEMA:
        raise InputError(
            f"{path} has schema {manifest.get('schema')}, this version reads {SCHEMA}: "
            "finish the run with the version that began it, or start anew"
        )
    same_job(Job(**manifest["job"]), job, str(path))
    try:
        slim = segments.without_rows(template(manifest["update"]), False)
        state = unflatten(slim, records.load_arrays(path.parent / manifest["state"]))
        record = records.load_arrays(path.parent / manifest["record"])
    except ValueError as error:
        raise _hopeless(error, path.parent) from error
    return Checkpoint(manifest["update"], state, record, manifest["seconds"], _segments(manifest))


def assemble(saved: list[tuple[Path, Checkpoint]], template: Any, many: bool) -> Any:
    """The state of runs (folder, checkpoint) on the device; with `many`, stacked."""
    states = [checkpoint.state for _, checkpoint in saved]
    if many:
        state = jax.tree.map(lambda *leaves: jnp.array(np.stack(leaves)), *states)
    else:
        state = jax.tree.map(jnp.array, states[0])
    rows = [(run / FOLDER, checkpoint.rows) for run, checkpoint in saved]
    try:
        return segments.restore(state, template, rows, many)
    except ValueError as error:
        raise _hopeless(error, saved[0][0] / FOLDER) from error


def member_of(state: Any, member: int | None) -> Any:
    """One run's part of a state, on the host."""
    return jax.tree.map(lambda x: np.asarray(x if member is None else x[member]), state)


def without_memory(agent_state: Any) -> Any:
    """What an agent needs to act: its state without the large buffers."""
    has_memory = "memory" in getattr(agent_state, "_fields", ())
    return agent_state._replace(memory=None) if has_memory else agent_state


def _segments(manifest: dict[str, Any]) -> list[list[segments.Segment]]:
    return [[segments.Segment(*entry) for entry in mine] for mine in manifest["segments"]]


def _hopeless(error: ValueError, folder: Path) -> ValueError:
    return ValueError(f"{error}: delete {folder} to start this run anew")


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
        raise InputError(f"{where} belongs to another run ({'; '.join(differ)})")


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
        raise InputError(f"the saved state has other parts than this agent's: {', '.join(odd[:4])}")
    for name, leaf in expected.items():
        found = arrays[name]
        if found.shape != leaf.shape or found.dtype != leaf.dtype:
            raise InputError(
                f"the saved state's {name} is {found.dtype}{list(found.shape)}, "
                f"this agent's is {leaf.dtype}{list(leaf.shape)}"
            )
    return jax.tree.unflatten(structure, [arrays[name] for name in expected])
