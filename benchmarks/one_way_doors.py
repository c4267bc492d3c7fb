"""HRAC with directed, symmetric and no adjacency loss in two worlds with one-way doors: `python benchmarks/one_way_doors.py`.

In both, what the agent wants lies just behind doors that only lead the other way, and the way there is around the map. The
pairs come from the oracle. Without the loss, exploration is plain noise too: choosing among candidates would use the network.
"""

import argparse
from pathlib import Path

import numpy as np

import hrac
from hrac.folder import log

WORLDS = {
    "maze": """\
##########
#A.......#
#^^^^^^#.#
#......#.#
#......#.#
#........#
#G.....###
##########
""",
    "key-chest": """\
############
#C...A.....#
#^#^#^#^##.#
#.......##.#
#.......##.#
#K.........#
############
""",
}
STEPS = {"maze": 90_000, "key-chest": 100_000}
METHODS = {
    "directed": {"adjacency__directed": True},
    "symmetric": {},
    "eta = 0": {"manager__eta": 0.0, "manager__candidates": 1},
}
SETTINGS = {
    "k": 5,
    "env__time_limit": 100,
    "env__random_action_prob": 0.1,
    "manager__hidden": (64, 64),
    "manager__buffer_windows": 2_000,
    "manager__noise_sigma": 3.0,
    "manager__actor_learning_rate": 5e-4,
    "manager__soft_update_rate": 0.01,
    "controller__hidden": (64, 64),
    "controller__learning_rate": 1e-3,
    "controller__subgoals_shown_as": "displacement",
    "adjacency__source": "oracle",
    "adjacency__hidden": (64, 64),
    "adjacency__learning_rate": 1e-3,
    "adjacency__pretrain_epochs": 300,
    "adjacency__update_every_env_steps": 20_000,
    "adjacency__update_epochs": 100,
    "training__round_env_steps": 100,
    "training__envs_per_run": 5,
    "training__eval_every_env_steps": 5_000,
}
LAST = 20_000


def row(task: str, method: str, folder: Path) -> str:
    """A line of the table: means over the evaluations of the last steps, and when success first was above a half."""
    rows = log.read(folder)
    seeds = sorted({each.seed for each in rows})

    def last(name: str) -> list[float]:
        late = [each for each in rows if each.name == name and each.step > STEPS[task] - LAST]
        return [float(np.mean([each.value for each in late if each.seed == seed])) for seed in seeds]

    success = [each for each in rows if each.name == "eval/success" and each.value > 0.5]
    first = [min((each.step for each in success if each.seed == seed), default=STEPS[task]) for seed in seeds]
    accuracy = np.mean([each.value for each in rows if each.name == "adjacency/accuracy"])
    each = ", ".join(f"{value:.2f}" for value in last("eval/success"))
    within = np.mean(last("eval/subgoal_within_k"))
    return (
        f"| {task} | {method} | {np.mean(last('eval/success')):.2f} | {each} | {np.mean(first):,.0f} | "
        f"{100 * within:.0f} % | {accuracy:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/one-way-doors"))
    options = parser.parse_args()
    print("| task | adjacency | success | each seed | first above 0.5 at step | subgoals within k | accuracy |")
    print("|---|---|---|---|---|---|---|")
    for task, layout in WORLDS.items():
        for method, changes in METHODS.items():
            folder = options.out / f"{task}-{method.replace(' ', '')}"
            settings = SETTINGS | {"env__layout": layout} | changes
            hrac.train(task, steps=STEPS[task], seeds=options.seeds, out=folder, display=hrac.Silent(), **settings)
            print(row(task, method, folder), flush=True)


if __name__ == "__main__":
    main()
