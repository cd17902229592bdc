"""Checkpoints: a folder with the state as .npz and a manifest that points at it.

The manifest is replaced last, atomically, so that a kill at any moment leaves the previous
checkpoint or the new one. It holds the digest of every file, which reveals any change. Rows of a
replay are in files of their own (`segments`), which later checkpoints share. No pickle. A resumed
run equals an undisturbed one, bit for bit, on the CPU.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.errors import InputError
from lcpo.run.store import segments
from lcpo.run.store.files import load_arrays, load_document, save_arrays, save_document
from lcpo.run.store.layout import CheckpointFiles, RunFiles
from lcpo.run.store.record import Record
from lcpo.run.store.segments import Segment
from lcpo.types import Tree

SCHEMA = 3
_NEEDED = {
    "job": dict, "update": int, "seconds": (int, float), "state": str, "record": str,
    "segments": list, "written": dict,
}  # fmt: skip
_OWN = re.compile(
    r"manifest\.json|(state|record)-\d+\.npz|segment-\d+-\d+-\d+\.npz|\.[0-9a-f]{16}\.part"
)
"""Names of the files of a checkpoint, finished or half-written."""
Identity = Mapping[str, Any]
"""The run of a checkpoint as plain values, such as a job's JSON. No other run may load it."""


class Checkpoint(NamedTuple):
    """A run in progress, after `update` updates in all its phases."""

    update: int
    state: Tree  # on disk: without the rows of replays
    record: Record
    """The record of the phase."""
    seconds: float
    rows: Sequence[list[Segment]] = ()  # files with those rows, replay by replay
    written: Mapping[str, str] = {}
    """Digests of the files that earlier phases have left in the run's folder, by name."""


class Saved(NamedTuple):
    """A checkpoint and its run."""

    run: RunFiles
    checkpoint: Checkpoint


def save(
    run: RunFiles, identity: Identity, checkpoint: Checkpoint, member: int | None = None
) -> None:
    """Write a checkpoint into the folder of a run, then delete the previous one.

    `member`: the run's place in a state that is stacked from several; None if it is of one run.
    """
    files = run.checkpoint
    known = _manifest(files)["segments"] if files.manifest.exists() else []
    rows = segments.write(files, checkpoint.state, member, known)
    state, record = files.state(checkpoint.update), files.record(checkpoint.update)
    slim = segments.without_rows(checkpoint.state, member is not None)
    manifest = {
        "job": identity,
        "update": checkpoint.update,
        "seconds": checkpoint.seconds,
        "state": save_arrays(state, flatten(member_of(slim, member))),
        "record": save_arrays(record, checkpoint.record),
        "segments": rows,
        "written": dict(checkpoint.written),
    }
    save_document(files.manifest, SCHEMA, manifest)
    needed = {files.manifest.name, state.name, record.name}
    needed |= {files.segment(i, s.first, s.last).name for i, mine in enumerate(rows) for s in mine}
    for file in _own_files(files):
        if file.name not in needed:
            file.unlink()


def load(run: RunFiles, identity: Identity, template: Callable[[int], Tree]) -> Checkpoint | None:
    """The checkpoint of a run, or None. Its state lacks the rows of replays: see `assemble`.

    `template(update)` has the tree, shapes and dtypes of the state after `update` updates.
    """
    files = run.checkpoint
    if not files.manifest.exists():
        return None
    with _deletable(files):
        found = _manifest(files)
    update, written = found["update"], found["written"]
    check_same(found["job"], identity, str(files.manifest))
    with _deletable(files):
        slim = segments.without_rows(template(update), False)
        state = unflatten(slim, load_arrays(files.state(update), found["state"]))
        record = load_arrays(files.record(update), found["record"])
        for name, digest in written.items():
            load_arrays(run.record_of(name), digest)
    return Checkpoint(update, state, record, found["seconds"], found["segments"], written)


def keep(run: RunFiles) -> None:
    """Keep the last checkpoint after the run, so that it can be extended."""
    drop(run, kept=True)
    if run.checkpoint.manifest.exists():
        run.checkpoint.folder.replace(run.kept.folder)


def take_up(run: RunFiles) -> None:
    """Resume from the kept checkpoint. A kill at any moment leaves one of the two, and no
    manifest."""
    run.manifest.unlink(missing_ok=True)
    if run.kept.manifest.exists() and not run.checkpoint.manifest.exists():
        drop(run)
        run.kept.folder.replace(run.checkpoint.folder)


def saved(run: RunFiles) -> tuple[Identity, int] | None:
    """The identity and the updates of the checkpoint that a run has, or has kept."""
    for files in (run.checkpoint, run.kept):
        if files.manifest.exists():
            with _deletable(files):
                found = _manifest(files)
            return found["job"], found["update"]
    return None


def assemble(saved: Sequence[Saved], template: Tree, many: bool) -> Tree:
    """The state of saved runs on the device; with `many`, stacked."""
    states = [checkpoint.state for _, checkpoint in saved]
    if many:
        state = jax.tree.map(lambda *leaves: jnp.array(np.stack(leaves)), *states)
    else:
        state = jax.tree.map(jnp.array, states[0])
    rows = [(run.checkpoint, checkpoint.rows) for run, checkpoint in saved]
    with _deletable(saved[0].run.checkpoint):
        return segments.restore(state, template, rows, many)


def member_of(state: Tree, member: int | None) -> Tree:
    """One run's part of a state, on the host."""
    return jax.tree.map(lambda x: np.asarray(x if member is None else x[member]), state)


def without_memory(agent_state: Tree) -> Tree:
    """What an agent needs to act: its state without the large buffers."""
    has_memory = "memory" in getattr(agent_state, "_fields", ())
    return agent_state._replace(memory=None) if has_memory else agent_state


def _manifest(files: CheckpointFiles) -> dict[str, Any]:
    found = load_document(files.manifest, SCHEMA, _NEEDED)
    try:
        found["segments"] = [[Segment(*entry) for entry in mine] for mine in found["segments"]]
    except TypeError as error:
        raise InputError(f"{files.manifest} has invalid segments ({error})") from error
    return found


@contextlib.contextmanager
def _deletable(files: CheckpointFiles) -> Iterator[None]:
    """Add to errors of an unusable checkpoint how to continue without it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{error}: delete {files.folder} to restart this run") from error


def drop(run: RunFiles, kept: bool = False) -> None:
    """Delete the checkpoint of a finished run, or the one that it has kept."""
    files = run.kept if kept else run.checkpoint
    with contextlib.suppress(OSError):
        files.manifest.unlink(missing_ok=True)  # first: without it, the rest is never read
        for file in _own_files(files):
            file.unlink()
        files.folder.rmdir()


def _own_files(files: CheckpointFiles) -> list[Path]:
    """Files of checkpoints in a folder; anything else in it belongs to the user."""
    found = files.folder.iterdir() if files.folder.is_dir() else ()
    return [path for path in found if _OWN.fullmatch(path.name)]


def goes_on(found: Identity, wanted: Identity) -> bool:
    """Whether `wanted` is the run `found`, extended by more steps."""
    if not isinstance(found, Mapping) or not isinstance(found.get("steps"), int):
        return False
    grown = {name: wanted[name] for name in ("steps", "sized_for", "trace_digest")}
    return {**found, **grown} == wanted and found["steps"] < wanted["steps"]


def check_same(found: Identity, wanted: Identity, where: str) -> None:
    """Raise InputError with the fields in which two runs differ.

    `sized_for` does not count: the sizes that were computed from it are compared.
    """
    differ = []
    if not isinstance(found, Mapping):
        raise InputError(f"{where} names no run")
    for key in sorted((found.keys() | wanted.keys()) - {"sized_for"}):
        old, new = found.get(key), wanted.get(key)
        pairs = [(key, old, new)]
        if isinstance(old, dict) and isinstance(new, dict):
            names = sorted(old.keys() | new.keys())
            pairs = [(f"{key}.{name}", old.get(name), new.get(name)) for name in names]
        if key == "trace_digest" and old != new:
            differ.append(f"the rows of trace {wanted.get('trace')!r} have changed since")
        else:
            differ += [f"{name}: there {a!r}, now {b!r}" for name, a, b in pairs if a != b]
    if differ:
        raise InputError(
            f"{where} belongs to another run ({'; '.join(differ)}): repeat its settings, or give "
            "another folder"
        )


def flatten(tree: Tree) -> dict[str, np.ndarray]:
    """Leaves of a state by their path."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def unflatten(template: Tree, arrays: dict[str, np.ndarray]) -> Tree:
    """The inverse of `flatten`; raises InputError if the arrays do not fit the template."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    expected = {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
    if expected.keys() != arrays.keys():
        odd = sorted(expected.keys() ^ arrays.keys())
        raise InputError(
            f"the saved state does not match this agent's, which differs in {', '.join(odd[:4])}"
        )
    for name, leaf in expected.items():
        found = arrays[name]
        if found.shape != leaf.shape or found.dtype != leaf.dtype:
            raise InputError(
                f"the saved state's {name} is {found.dtype}{list(found.shape)}, "
                f"this agent's is {leaf.dtype}{list(leaf.shape)}"
            )
    return jax.tree.unflatten(structure, [arrays[name] for name in expected])
