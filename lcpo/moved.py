"""Modules that have moved: their former names still import."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "lcpo.agents.steps": "lcpo.agents.presets",
    "lcpo.contexts.workloads": "lcpo.straggler.workloads",
    "lcpo.core.dists": "lcpo.distributions",
    "lcpo.core.fisher": "lcpo.agents.online_ewc",
    "lcpo.envs.history": "lcpo.history",
    "lcpo.envs.straggler": "lcpo.straggler",
    "lcpo.straggler.workloads.public": "lcpo.straggler.workloads.formats",
    "lcpo.study.evaluate": "lcpo.study.play.evaluate",
    "lcpo.study.hedging": "lcpo.straggler.timeouts",
    "lcpo.study.html": "lcpo.study.report.html",
    "lcpo.study.memory": "lcpo.study.measure.memory",
    "lcpo.study.regret": "lcpo.study.measure.regret",
    "lcpo.study.stats": "lcpo.study.measure.stats",
    "lcpo.study.video": "lcpo.study.play.video",
}
"""Former names that the documentation used, with their submodules."""


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The new name of a module by its former name; None: it has not moved."""
        for old, new in MOVED.items():
            if fullname == old or fullname.startswith(f"{old}."):
                return ModuleSpec(fullname, self, origin=new + fullname.removeprefix(old))
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module itself: its classes are the same by either name."""
        module = importlib.import_module(str(spec.origin))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module has run already: put back the spec that the importer replaced."""
        module.__spec__ = module.__spec__.loader_state if module.__spec__ else None


def install() -> None:
    """Look up former names first, or a second copy of a module could be found below its package."""
    sys.meta_path.insert(0, _Finder())
