"""The process of a server: from its configuration to a clean exit.

It answers `/livez` at once, opens the agent in a thread, compiles, and is then ready. SIGTERM: it
becomes unready, finishes what is under way, saves a checkpoint, and exits with 0. SIGHUP: it reads
its configuration again.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
import stat
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn

from lcpo.errors import InputError
from lcpo.live import LiveAgent
from lcpo.live import folder as folders
from lcpo.live import open as open_live
from lcpo.live.outcomes import check_action
from lcpo.serve import config as configs
from lcpo.serve.app import App
from lcpo.serve.config import Address, Config
from lcpo.serve.events import Events, notify
from lcpo.serve.protocol import Lines, protocol_of
from lcpo.serve.state import State

SWITCH_SECONDS = 0.0005
"""How long the thread that learns may keep the interpreter from the event loop."""
FINISH_SECONDS = 10.0
"""How long requests that are under way may take when the server stops."""
SPARE_FILES = 200
"""Descriptors that the process needs besides connections."""
KEPT = {
    "agent.mode": "a folder keeps its mode: change it with POST /v1/mode",
    "switchback": f"a folder {configs.KEEPS_DESIGN}",
}
"""Of what a folder has kept since it began: a restart does not change it either."""


def run(path: Path, trust: bool = False, events: Events | None = None) -> None:
    """Serve until SIGTERM or SIGINT. InputError if the server cannot start."""
    config = configs.load(path)
    _raise_limit(config.file.serve.max_connections + SPARE_FILES)
    with listening(config.address) as listener:
        server = Server(config, listener, trust, events or Events())
        try:
            import uvloop

            factory: Any = uvloop.new_event_loop
        except ImportError:  # not on this platform: slower, and otherwise the same
            factory = None
        sys.setswitchinterval(SWITCH_SECONDS)
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(server.main())
    if server.error is not None:
        raise server.error


def _raise_limit(files: int) -> None:
    """Allow the process so many descriptors; InputError if the system does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= files:
        return
    if hard != resource.RLIM_INFINITY and hard < files:
        raise InputError(
            f"serve.max_connections needs {files:,} open files, and the system allows {hard:,}: "
            f"give at most {max(hard - SPARE_FILES, 1):,}, or raise the limit (ulimit -n)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))


def open_agent(config: Config, trust: bool) -> LiveAgent:
    """The agent of a configuration; InputError if it does not fit."""
    is_new = not folders.is_begun(config.folder)
    agent = open_live(config.folder, trust=trust, **config.open_arguments(is_new))
    try:
        check_action(agent.settings.spec, config.file.live.incumbent, "live.incumbent")
    except InputError:
        agent.close()
        raise
    return agent


@contextlib.contextmanager
def listening(address: Address) -> Iterator[socket.socket]:
    """A socket that listens. A unix socket is only for this user, and is removed in the end."""
    path = address.path
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    found = socket.socket(family if path is None else socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path is None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind((address.host, address.port))
        else:
            _remove_dead(path)
            before = os.umask(0o077)
            try:
                found.bind(str(path))
            finally:
                os.umask(before)
        found.listen(1024)
    except OSError as error:
        found.close()
        why = error.strerror or str(error)
        raise InputError(f"serve.address {address} cannot be used: {why}") from error
    try:
        yield found
    finally:
        found.close()
        if path is not None:  # another server may listen there by now
            with contextlib.suppress(OSError):
                _remove_dead(path)


def _remove_dead(path: Path) -> None:
    """Remove the socket of a server that was killed."""
    if not path.exists() or not stat.S_ISSOCK(path.stat().st_mode):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)


def hint(fixed: list[str]) -> str:
    """What to do about changes that a reload does not take."""
    restart = [] if fixed == ["agent.mode"] else ["restart the server"]
    return "; ".join([*restart, *(text for name, text in KEPT.items() if name in fixed)])


class _Uvicorn(uvicorn.Server):
    """Without signal handlers: the process has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Server:
    """One process: configuration, agent, and HTTP."""

    def __init__(
        self, config: Config, listener: socket.socket, trust: bool, events: Events
    ) -> None:  # fmt: skip
        self.state = State(config, events)
        self.error: InputError | None = None
        self._listener, self._trust = listener, trust
        self._stop = asyncio.Event()

    async def main(self) -> None:
        """Serve until told to stop."""
        state, loop = self.state, asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        http = self._http()
        serving = asyncio.create_task(http.serve([self._listener]))
        where = self._listener.getsockname()
        where = f"{where[0]}:{where[1]}" if isinstance(where, tuple) else str(state.config.address)
        state.events.write("started", address=where, config=str(state.config.path), pid=os.getpid())
        with self._warnings_told():
            opening = loop.run_in_executor(state.tasks, self._open)
            stopping = asyncio.create_task(self._stop.wait())
            await asyncio.wait({opening, stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
            agent: LiveAgent | None = None
            try:
                agent = await opening  # it cannot be interrupted
            except InputError as error:
                self.error = error
            if agent is not None and not self._stop.is_set():
                state.serve(agent)
                notify("READY=1")
                state.events.write("ready", mode=agent.mode, config_hash=state.config.digest)
                ticking = asyncio.create_task(self._tick())
                await asyncio.wait({stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
                ticking.cancel()
            await self._drain(http, serving)
            stopping.cancel()
            if agent is not None:
                await loop.run_in_executor(state.tasks, self._close, agent)
            state.close()
        if self.error is None:
            state.events.write("stopped")

    def reload(self) -> None:
        """Read the configuration again, and use what may change."""
        state = self.state
        notify("RELOADING=1")
        try:
            new = configs.load(state.config.path)
            free, fixed = configs.changes(state.config.file, new.file)
            merged = configs.merged(state.config, new)
            _raise_limit(merged.file.serve.max_connections + SPARE_FILES)
            if state.agent is not None:
                fallback = merged.file.live.fallback
                state.agent.serve_with(merged.guard, fallback, merged.rollback)
            elif {"guard", "rollback", "live.fallback"} & set(free):
                raise InputError("the agent is being opened: try again when the server is ready")
        except InputError as error:
            state.events.write("reload", error=str(error))
        else:
            token = ["token"] if merged.token != state.config.token else []
            state.config = merged
            rest = {"refused": fixed, "hint": hint(fixed)} if fixed else {}
            state.events.write("reload", changed=[*free, *token], **rest)
        notify("READY=1")

    def _http(self) -> uvicorn.Server:
        state = self.state
        for name in ("uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [Lines(state.events)], False
            logger.setLevel(logging.WARNING)
        logging.getLogger("uvicorn.access").handlers = []
        settings = uvicorn.Config(
            App(state),
            http=protocol_of(state),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=1024,
            timeout_graceful_shutdown=round(FINISH_SECONDS),
        )  # fmt: skip
        return _Uvicorn(settings)

    def _open(self) -> LiveAgent:
        state = self.state
        state.step = "replaying the log, compiling acting and learning"
        agent = open_agent(state.config, self._trust)
        try:
            agent.warm_up()
            state.rebuild(agent)
        except BaseException:
            agent.close()
            raise
        gc.collect()
        gc.freeze()  # what was imported and compiled stays: collections need not look at it
        return agent

    async def _tick(self) -> None:
        """Every second: notice what learning in the background has done."""
        while True:
            self.state.look()
            await asyncio.sleep(1.0)

    async def _drain(self, http: uvicorn.Server, serving: asyncio.Task[None]) -> None:
        state = self.state
        notify("STOPPING=1")
        if self.error is None and not serving.done():
            state.events.write("draining", seconds=state.config.file.serve.drain_seconds)
            state.draining = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(state.config.file.serve.drain_seconds):
                    await asyncio.shield(serving)
        state.refuses = True
        http.should_exit = True
        await serving

    def _close(self, agent: LiveAgent) -> None:
        agent.defer = None
        agent.close()
        self.state.events.write("saved", sequence=agent.stats().checkpoint)

    @contextlib.contextmanager
    def _warnings_told(self) -> Iterator[None]:
        """Warnings of the agent become problems."""

        def show(message: Any, category: Any, *_: Any, **__: Any) -> None:
            self.state.problem(" ".join(str(message).split()))

        with warnings.catch_warnings():
            warnings.simplefilter("always", RuntimeWarning)
            warnings.showwarning = show
            yield
