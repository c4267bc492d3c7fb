"""A process for one cell: an order comes in, a report goes out, each one line of JSON."""

import json
import os
import signal
import sys
import threading

from hrac.compiled import keep_compiled
from hrac.sweeps import work


def main() -> None:
    """Obey the order on standard input, and stop when that is closed: then the sweep has ended."""
    given = json.loads(sys.stdin.readline())
    threading.Thread(target=_stop_with_the_sweep, daemon=True).start()
    keep_compiled()
    print(json.dumps(work.obey(given)), flush=True)


def _stop_with_the_sweep() -> None:
    while os.read(0, 1024):
        pass
    signal.raise_signal(signal.SIGTERM)  # os.kill would not be gentle on Windows


if __name__ == "__main__":
    main()
