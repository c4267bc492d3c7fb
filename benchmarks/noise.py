"""The tables of "Ant Maze with noise" in this folder's README: `python benchmarks/noise.py`."""

from report import RESULTS, by_step, how_it_went

LAST = 1_000_000
WITHOUT = {"`hrac`, no noise": RESULTS / "ant-maze"}
RUNS = {
    f"`{method}`, sigma {sigma}": RESULTS / "stochastic" / f"ant-maze-{method}-sigma-{sigma}"
    for method, sigma in (("hrac", 0.01), ("hrac", 0.05), ("hrac", 0.1), ("hiro", 0.1))
}
HOW = {
    "eval/failed_fallen": ".0%",
    "eval/failed_stuck": ".0%",
    "eval/failed_out_of_time": ".0%",
    "eval/subgoal_length": ".2f",
    "eval/window_displacement": ".2f",
    "eval/subgoal_in_wall": ".0%",
    "manager/value": ".0f",
    "train/fallen": ".1%",
    "adjacency/cells": ".0f",
}
SOON = {"eval/window_displacement": ".2f", "controller/saturation": ".0%", "adjacency/cells": ".0f"}


if __name__ == "__main__":
    by_step(WITHOUT | RUNS, wanted=lambda step: 0 < step <= LAST and step % 250_000 == 0)
    print()
    how_it_went({name: (folder, 250_000) for name, folder in RUNS.items()}, SOON)
    print()
    how_it_went({name: (folder, LAST) for name, folder in RUNS.items()}, HOW)
