"""Do the tests see a wrong line? Each mutant of `mutants.py`, with the tests that must fail.

    python tests/mutants/run.py               all of them: what `make mutants` does
    python tests/mutants/run.py NAME ...      some
    python tests/mutants/run.py 1/2           every second one, from the first; 2/2: from the second

A mutant is a copy of the package with one change. Its tests must fail there, with pytest's exit
code 1: an error before the tests, or no test at all, does not count. First the same tests must pass
with a copy that is unchanged. Exit code 1 if a mutant survives.

Tests run in processes that are forked from one which has imported JAX and pytest. What was compiled
for the unchanged package, small programs included, is read from disk.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import inside
from mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
PRELOADED = ("jax.numpy", "optax", "pytest", "scipy.special", "numba")
"""Imported once. None of them starts a thread: a process that has some cannot be forked."""
LIMIT = 300.0
"""Seconds for the tests of one mutant."""
UNCHANGED = 1200.0
"""Seconds for all tests, with the package as it is."""


def main(names: Sequence[str]) -> int:
    part = re.fullmatch(r"([1-9])/([1-9])", names[0]) if len(names) == 1 else None
    if part:
        names = [m.name for m in MUTANTS[int(part[1]) - 1 :: int(part[2])]]
    chosen = [m for m in MUTANTS if not names or m.name in names]
    unknown = set(names) - {m.name for m in MUTANTS}
    if unknown:
        print(f"no mutant called {', '.join(sorted(unknown))}: see tests/mutants/mutants.py")
        return 2
    began, cores = time.monotonic(), min(2, os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="lcpo-mutants-") as folder:
        judge = Judge(Path(folder))
        os.environ.update(inside.SETTINGS, JAX_COMPILATION_CACHE_DIR=str(Path(folder, "compiled")))
        with ThreadPoolExecutor(cores) as pool:
            tests = sorted({test for mutant in chosen for test in mutant.tests})
            wrong = [w for w in pool.map(judge.unchanged, halves(tests)) if w]
            if wrong:
                print("the tests must pass with the package as it is:", *wrong, sep="\n")
                return 1
            print(f"{len(tests)} tests pass with the package as it is", flush=True)
            faults = []
            for number, (mutant, fault) in enumerate(pool.map(judge.mutant, chosen), start=1):
                print(
                    f"{number:3} of {len(chosen)}  {mutant.name}: {fault or 'killed'}", flush=True
                )
                faults += [f"{mutant.name} ({mutant.breaks}): {fault}"] if fault else []
    print(f"{len(chosen) - len(faults)} of {len(chosen)} killed, {time.monotonic() - began:.0f} s")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def halves(tests: Sequence[str]) -> list[list[str]]:
    """For two processes; the tests of a file stay together."""
    files = sorted({test.partition("::")[0] for test in tests})
    parts = [[t for t in tests if t.partition("::")[0] in files[i::2]] for i in range(2)]
    return [part for part in parts if part]


class Judge:
    """Runs tests with copies of the package, which share what is compiled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes = multiprocessing.get_context("forkserver")
        self.processes.set_forkserver_preload([*PRELOADED])

    def unchanged(self, tests: Sequence[str]) -> str | None:
        """None if the tests pass with a plain copy."""
        copy = self._copy()
        code, output = self._pytest(copy, tests, UNCHANGED)
        return None if code == 0 else f"exit code {code}\n{output}"

    def mutant(self, mutant: Mutant) -> tuple[Mutant, str | None]:
        """The mutant, and None if its tests fail."""
        copy = self._copy()
        path = copy / mutant.file
        path.write_text(mutant.apply(path.read_text()))
        code, output = self._pytest(copy, ["-x", *mutant.tests], LIMIT)
        shutil.rmtree(copy)
        if code == 0:
            return mutant, "SURVIVES"
        return mutant, None if code == 1 else f"NOT TESTED: exit code {code}\n{output}"

    def _copy(self) -> Path:
        copy = Path(tempfile.mkdtemp(dir=self.folder))
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "lcpo", copy / "lcpo", ignore=ignored)
        return copy

    def _pytest(self, copy: Path, arguments: Sequence[str], limit: float) -> tuple[int, str]:
        """(exit code, the end of what it says); the copy, and no other package, was imported."""
        said_by, imported = copy / "output", copy / "imported"
        command = ["-q", "-p", "no:cacheprovider"]
        command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
        command += [a if a.startswith("-") else str(ROOT / a) for a in arguments]
        process = self.processes.Process(target=inside.run_pytest, args=(copy, command, said_by))
        process.start()
        process.join(limit)
        if process.exitcode is None:
            process.kill()
            process.join()
        code = process.exitcode if process.exitcode is not None else -1
        said = said_by.read_text()[-2000:]
        if code in (0, 1):
            assert imported.exists(), f"the tests did not run:\n{said}"
            assert Path(imported.read_text()).is_relative_to(copy), imported.read_text()
        return code, said


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
