"""`python -m lcpo.cli` is the command `lcpo`."""

from __future__ import annotations

import sys

from lcpo.cli.main import main

sys.exit(main())
