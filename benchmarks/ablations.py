"""The tables of "HRAC-plus less each of its parts" in this folder's README: `python benchmarks/ablations.py`."""

from noise import HOW
from report import RESULTS, by_step, how_it_went

LAST = 500_000
"""The step that all runs have."""
PARTS = {
    "whole": "",
    "weight decay 1e-4": "-critic-weight-decay-0.0001",
    "1 update": "-updates-per-window-1",
    "torque of 30": "-action-share-1",
    "no hindsight": "-hindsight-0",
    "plain values, eta 20": "-value-scale-plain-eta-20",
}
RUNS = {part: RESULTS / "plus-ablations" / f"ant-maze-hrac-plus{suffix}" for part, suffix in PARTS.items()}


def table() -> None:
    """Success by step, then how the last evaluation that all have went."""
    by_step(RUNS, wanted=lambda step: step % 250_000 == 0 and step > 0)
    print()
    how_it_went({part: (folder, LAST) for part, folder in RUNS.items()}, HOW)


if __name__ == "__main__":
    table()
