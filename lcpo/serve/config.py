"""The configuration of a server: one TOML file, checked before anything is opened.

Relative paths are relative to the file. `Config.open_arguments` has what `lcpo.live.open` is given,
and `changes` compares two versions of a file when the server reloads it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import ipaddress
import re
import tomllib
import typing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lcpo import values
from lcpo.errors import InputError, MissingFile
from lcpo.live import Budget, Limits, Rule, Switchback
from lcpo.serve.tables import (
    AgentTable,
    BudgetTable,
    ContextTable,
    File,
    GuardTable,
    LiveTable,
    RollbackTable,
    ServeTable,
    SpecTable,
    SwitchbackTable,
)
from lcpo.types import ContextSlice, Spec

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
SHORTEST_TOKEN = 16
ANY = "*"
KEEPS_DESIGN = "that has had a switchback design keeps it: give another one with POST /v1/mode"


class Address(NamedTuple):
    """Where to listen: a host and a port, or the path of a unix socket."""

    host: str
    port: int
    path: Path | None = None

    @property
    def is_local(self) -> bool:
        """Whether only processes on this machine can connect."""
        if self.path is not None or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclasses.dataclass(frozen=True)
class Config:
    """A checked file."""

    path: Path
    file: File
    digest: str
    """The first digits of the SHA-256 of the file's content."""
    folder: Path
    address: Address
    token: bytes | None
    hosts: frozenset[str]
    spec: Spec | None
    guard: Limits | None
    rollback: Rule | None
    switchback: Switchback | None

    def open_arguments(self, is_new: bool) -> dict[str, Any]:
        """Arguments for `lcpo.live.open`, besides the folder. Of an old folder: what is checked."""
        agent, live = self.file.agent, self.file.live
        found: dict[str, Any] = {
            name: getattr(live, name)
            for name in (
                "durability", "learn", "checkpoint_every", "version_every", "keep_versions",
                "keep_log", "max_drops", "fallback",
            )
        }  # fmt: skip
        constant = live.incumbent
        incumbent = None if constant is None else lambda _: constant
        found |= {"guard": self.guard, "rollback": self.rollback, "incumbent": incumbent}
        if is_new:
            found |= {"mode": agent.mode, "switchback": self.switchback}
        late = {name: getattr(live, name) for name in ("late", "late_seconds", "missing")}
        made = {"config": agent.config, "seed": agent.seed, **late}
        if agent.policy is None:
            named = {"agent": agent.name, "spec": self.spec, "steps": agent.steps}
            found |= {**named, **made, "advance": agent.advance, "normalise": agent.normalise}
        elif is_new:
            policy = self.path.parent / agent.policy
            found |= {"policy": policy, "agent": agent.name, "spec": self.spec, **made}
        return found


def load(path: Path) -> Config:
    """The configuration of a file; InputError for anything that cannot be used."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise MissingFile(f"{path} does not exist: give the path of a TOML file") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    try:
        found = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not a TOML file: {error}") from error
    try:
        file = msgspec.convert(found, File)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {_explained(str(error))}") from error
    try:
        return _checked(path, file, hashlib.sha256(content).hexdigest()[:12])
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _explained(problem: str) -> str:
    """An error of msgspec, with the place first and the names that there are."""
    text, _, place = problem.partition(" - at `$")
    table = re.sub(r"^\.", "", place.rstrip("`"))
    tables = {
        "": File, "agent": AgentTable, "spec": SpecTable, "spec.context": ContextTable,
        "live": LiveTable, "guard": GuardTable, "guard.budget": BudgetTable,
        "rollback": RollbackTable, "switchback": SwitchbackTable, "serve": ServeTable,
    }  # fmt: skip
    if "unknown field" in text:
        names = tables[table].__struct_fields__
        text = f"{text.replace('Object contains', 'it has the')}: there are {', '.join(names)}"
    elif "Invalid enum value" in text:
        owner, _, field = table.rpartition(".")
        parts = typing.get_args(typing.get_type_hints(tables[owner])[field])
        known = [name for part in parts for name in typing.get_args(part) or (part,)]
        words = ["a number" if name is float else name for name in known]
        text = f"{text}: needs one of {', '.join(words)}"
    return f"[{table}] {text}" if table else text


def _checked(path: Path, file: File, digest: str) -> Config:
    base, serve = path.parent, file.serve
    folder = base / values.path("folder", file.folder)
    _check_agent(file)
    address = _address(serve.address, base)
    token = None if serve.token_file is None else read_token(base / serve.token_file)
    if token is None and not address.is_local:
        raise InputError(
            f"serve.address = {str(address)!r} can be reached from other machines: give "
            "serve.token_file, or use 127.0.0.1 or a unix socket"
        )
    for name, low, high in (
        ("max_body", 256, 2**26), ("max_connections", 1, 10**6), ("max_streams", 1, 10**6)
    ):  # fmt: skip
        values.whole(f"serve.{name}", getattr(serve, name), low, high)
    for name in ("request_seconds", "idle_seconds"):
        values.number(f"serve.{name}", getattr(serve, name), 0.1, 3600.0)
    values.number("serve.drain_seconds", serve.drain_seconds, 0.0, 3600.0)
    guard, rollback = file.guard, file.rollback
    limits = guard and Limits(
        guard.low,
        guard.high,
        guard.change,
        guard.budget and Budget(guard.budget.load, guard.budget.limit, guard.budget.window),
    )
    spec = file.spec and Spec(
        file.spec.obs_size,
        ContextSlice(*msgspec.structs.astuple(file.spec.context)),
        file.spec.num_actions,
        file.spec.obs_levels,
        file.spec.elements,
        readings=file.spec.readings,
    )
    design = file.switchback and file.switchback.design()
    if file.agent.mode == "switchback" and design is None:
        raise InputError("agent.mode = 'switchback' needs [switchback] with length=")
    rule = rollback and Rule(rollback.margin, rollback.window)
    hosts = _hosts(serve.hosts, address, token)
    return Config(
        path, file, digest, folder, address, token, hosts, spec, limits, rule, design
    )  # fmt: skip


def _check_agent(file: File) -> None:
    agent = file.agent
    if agent.policy is None:
        if agent.name is None or file.spec is None:
            raise InputError(
                "give agent.name and [spec], or agent.policy, the folder of a finished run"
            )
        return
    for name, default in (("steps", None), ("advance", "step"), ("normalise", None)):
        if getattr(agent, name) != default:
            raise InputError(f"agent.{name} comes with agent.policy: omit it")


def _address(text: str, base: Path) -> Address:
    need = "HOST:PORT or unix:PATH, as in 127.0.0.1:8080, [::1]:8080 or unix:agent.sock"
    if text.startswith("unix:"):
        path = base / values.path("serve.address", text[5:])
        if len(str(path).encode()) > 100:
            values.refuse("serve.address", text, "a shorter path: a socket's has 100 bytes at most")
        return Address("", 0, path)
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})", text)
    if found is None or int(found[3]) > 65535:
        values.refuse("serve.address", text, need)
    return Address(found[1] or found[2], int(found[3]))


def read_token(path: Path) -> bytes:
    """The token in a file; InputError if it is not one."""
    try:
        token = path.read_bytes().strip()
    except OSError as error:
        raise InputError(f"serve.token_file {path} cannot be read: {error.strerror}") from error
    if len(token) < SHORTEST_TOKEN or not re.fullmatch(rb"[!-~]+", token):
        raise InputError(
            f"serve.token_file {path} must hold at least {SHORTEST_TOKEN} characters without "
            "spaces: `openssl rand -hex 32` makes a token"
        )
    return token


def _hosts(given: tuple[str, ...] | None, address: Address, token: bytes | None) -> frozenset[str]:
    if given is None:
        own = f"[{address.host}]" if ":" in address.host else address.host
        return frozenset(name for name in (*LOOPBACK, own) if name)
    if not given:
        values.refuse("serve.hosts", given, "at least one name: else every call is refused")
    for name in given:
        if name == ANY and token is None:
            raise InputError("serve.hosts = ['*'] needs serve.token_file: any web page could call")
        if name != ANY and not re.fullmatch(r"\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+", name):
            values.refuse("serve.hosts", name, "names or addresses without a port")
    return frozenset(name.lower() for name in given)


FREE = {
    "guard", "rollback", "live.fallback", "serve.token_file", "serve.hosts", "serve.max_body",
    "serve.max_connections", "serve.max_streams", "serve.request_seconds", "serve.idle_seconds",
    "serve.drain_seconds",
}  # fmt: skip
"""What may change while the server runs."""


def changes(old: File, new: File) -> tuple[list[str], list[str]]:
    """Names of what differs: what may change, and what needs a restart."""
    names = []
    for table in File.__struct_fields__:
        before, after = getattr(old, table), getattr(new, table)
        if before == after:
            continue
        if table in ("agent", "live", "serve"):
            fields = type(after).__struct_fields__
            names += [f"{table}.{x}" for x in fields if getattr(before, x) != getattr(after, x)]
        else:
            names.append(table)
    return [name for name in names if name in FREE], [name for name in names if name not in FREE]


def merged(old: Config, new: Config) -> Config:
    """The running configuration with what may change of a new one."""
    serve = {name[6:]: getattr(new.file.serve, name[6:]) for name in FREE if "serve." in name}
    file = msgspec.structs.replace(
        old.file,
        guard=new.file.guard,
        rollback=new.file.rollback,
        live=msgspec.structs.replace(old.file.live, fallback=new.file.live.fallback),
        serve=msgspec.structs.replace(old.file.serve, **serve),
    )
    token = new.token if new.token or old.address.is_local else old.token
    return dataclasses.replace(
        old, file=file, digest=new.digest, token=token, guard=new.guard, rollback=new.rollback,
        hosts=_hosts(new.file.serve.hosts, old.address, token),
    )  # fmt: skip
