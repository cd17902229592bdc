"""`lcpo serve --check`: what a configuration means, in words, and what is wrong with it."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from lcpo.live import folder as folders
from lcpo.live.folder import Options
from lcpo.live.guard import Guard
from lcpo.live.outcomes import check_action
from lcpo.live.settings import Settings
from lcpo.policy import find_policy
from lcpo.run.store.files import load_document
from lcpo.run.store.policy_file import spec_from_json
from lcpo.serve import config as configs
from lcpo.serve.config import ANY, FREE, KEEPS_DESIGN, Config
from lcpo.types import Spec

_NEEDED = {"settings": dict}
_SETTINGS = (
    "agent", "spec", "config", "seed", "steps", "advance", "normalise", "late", "late_seconds",
    "missing",
)  # fmt: skip


def explain(path: Path, trust: bool = False) -> list[str]:
    """Lines about a configuration; InputError if it cannot be served. Nothing is changed."""
    config = configs.load(path)
    is_new = not folders.is_begun(config.folder)
    arguments = config.open_arguments(is_new)
    Options(**{name: arguments[name] for name in _fields() if name in arguments})
    spec, about = _agent(config, is_new, arguments, trust)
    live, serve = config.file.live, config.file.serve
    for name in ("fallback", "incumbent"):
        check_action(spec, getattr(live, name), f"live.{name}")
    if config.guard is not None:
        Guard(config.guard, spec.actions)
    rollback, free = config.rollback, ", ".join(sorted(FREE))
    hosts = "any" if ANY in config.hosts else ", ".join(sorted(config.hosts))
    return [
        *about,
        f"actions: {spec.actions}; observations: {spec.obs_size} numbers, of which "
        f"{spec.context.size} are {spec.context.lags} values of {spec.context.channels} context "
        "channels",
        f"fallback: {_shown(live.fallback)}; incumbent: {_shown(live.incumbent)}",
        f"guard: {config.guard or 'none'}",
        f"rollback: {rollback or 'only when it is asked for'}",
        f"switchback: {config.switchback or 'none'}"
        f"{'' if is_new or config.switchback is None else f'; a folder {KEEPS_DESIGN}'}",
        f"rewards: may take {_shown(live.late, 'no')} further decisions"
        f"{'' if live.late_seconds is None else f' and {live.late_seconds:g} s'}; a missing one is "
        f"{'cut out' if live.missing == 'cut' else f'{live.missing:g}'}",
        f"durability: {live.durability}; learning: {live.learn}",
        f"address: {config.address} ({'this machine' if config.address.is_local else 'any host'})",
        f"token: {'needed' if config.token else 'not needed'}; Host: {hosts}",
        f"limits: {serve.max_body:,} bytes of body, {serve.max_connections:,} connections, "
        f"{serve.max_streams:,} streams; {serve.request_seconds:g} s for a request to arrive, "
        f"{serve.idle_seconds:g} s of idling; {serve.drain_seconds:g} s from SIGTERM to the last "
        "answer",
        f"SIGHUP reloads: {free}",
        *_cautions(config),
    ]


def _fields() -> list[str]:
    return list(Options.__dataclass_fields__)


def _agent(
    config: Config, is_new: bool, arguments: dict[str, Any], trust: bool
) -> tuple[Spec, list[str]]:  # fmt: skip
    """The spec, and lines about the folder."""
    agent, folder = config.file.agent, config.folder
    if not is_new:
        given = {name: arguments.get(name) for name in _SETTINGS}
        if agent.policy is None:
            folders.check_given(folder, given)
        about = load_document(folder / "live.json", folders.SCHEMA, _NEEDED)["settings"]
        spec = spec_from_json(about["spec"])
        return spec, [
            f"folder: {folder}, which holds an agent: {about['agent']} continues in its mode"
        ]
    begins = f"folder: {folder}, which is new: it begins in {agent.mode} mode"
    if agent.policy is not None:
        found = find_policy(config.path.parent / agent.policy, None, None, trust)[0]
        return found.spec, [begins, f"agent: {found.agent}, from the policy {agent.policy}"]
    settings = Settings.make(**{name: arguments[name] for name in _SETTINGS})
    return settings.spec, [begins, f"agent: {settings.agent_name}, {settings.config}"]


def _shown(value: Any, none: str = "none") -> str:
    return none if value is None else str(value)


def _cautions(config: Config) -> list[str]:
    """What is allowed, and seldom meant."""
    found, live = [], config.file.live
    if live.fallback is None:
        found.append("caution: without live.fallback, calls fail where the policy has no answer")
    if live.late is None:
        found.append("caution: without live.late, a stream must report each reward before it acts")
    if config.guard is None:
        found.append("caution: without [guard], the policy may take every action")
    name = config.file.serve.token_file
    if name is not None and (config.path.parent / name).stat().st_mode & stat.S_IROTH:
        found.append(f"caution: every user can read {name}: chmod 600")
    return found
