"""`python -m examples.hedging`."""

import sys

from examples.hedging.demo import entry

if __name__ == "__main__":
    sys.exit(entry())
