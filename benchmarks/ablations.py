"""The tables of "HRAC-plus less each of its parts" in this folder's README: `python benchmarks/ablations.py`."""

from pathlib import Path

from noise import HOW
from report import RESULTS, by_step, how_it_went

from hrac.experiments.sweep import MAZES
from hrac.view.curves import title_of

LAST = 500_000
"""The step that all runs have."""
PARTS = {
    "whole": "",
    "eta 2": "-eta-2",
    "weight decay 1e-4": "-critic-weight-decay-0.0001",
    "1 update": "-updates-per-window-1",
    "torque of 30": "-action-share-1",
    "no hindsight": "-hindsight-0",
    "plain values, eta 20": "-value-scale-plain-eta-20",
}
FOLDER = RESULTS / "plus-ablations"


def runs(task: str) -> dict[str, Path]:
    """The cells of a task that were run. The whole method on Ant Maze Sparse is the run of "HRAC-plus"."""
    folders = {part: FOLDER / f"{task}-hrac-plus{suffix}" for part, suffix in PARTS.items()}
    if task == "ant-maze-sparse":
        folders["whole"] = RESULTS / "plus" / task
    return {part: folder for part, folder in folders.items() if folder.exists()}


def table() -> None:
    """Per task: success by step, then how the last evaluation that all have went."""
    for task in MAZES:
        cells = runs(task)
        print(f"{title_of(task)}\n")
        by_step(cells, wanted=lambda step: step % 250_000 == 0 and step > 0)
        print()
        values = HOW | {"manager/value": ".0f" if task == "ant-maze" else ".2f"}
        how_it_went({part: (folder, LAST) for part, folder in cells.items()}, values)
        print()


if __name__ == "__main__":
    table()
