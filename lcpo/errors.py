"""What can go wrong, by who can mend it.

`InputError`: the user, who is told what was given, what is needed, and what to do. `RunError`: a
run could not go on, because its environment or a worker broke; its checkpoint stays. Any other
exception is a bug of this library: it keeps its traceback, and is told as such.
"""

from __future__ import annotations


class InputError(ValueError):
    """Something that the user gave cannot be used; the text says what to do."""


class MissingFile(InputError, FileNotFoundError):
    """A file that the user named does not exist."""


class MissingPackage(InputError, ImportError):
    """What was asked for needs a package that is not installed; the text says which."""


class RunError(RuntimeError):
    """Runs that could not go on; the text says why, and `--resume` goes on from the checkpoints."""
