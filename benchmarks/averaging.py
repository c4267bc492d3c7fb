"""Actors averaged over time: `python benchmarks/averaging.py` prints the tables, with a task it trains that one.

`training.averaging_env_steps` changes nothing of what is learned, only who is evaluated. So one training shows averages over
several lengths beside the newest actors, in the same evaluation episodes.
"""

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
import slow_point
from report import CHOICES, by_step, percent, read

from hrac import config as configs
from hrac.agents.agent import Averaged
from hrac.config import Config
from hrac.experiments import tasks
from hrac.experiments.sweep import parse_vary
from hrac.folder.log import Row, RunLog
from hrac.training import loop
from hrac.training.state import Training

LENGTHS = (5_000, 10_000, 20_000, 50_000)
"""Environment steps."""
NEWEST = "newest"
TASKS = {"slow-point": (tuple(range(100, 105)), 300_000), "maze": (tuple(range(100, 104)), 500_000)}
"""The seeds and steps of the committed runs."""
FIRST = 50_000
"""On the slow point averages are evaluated from here on."""


including = jax.jit(Averaged.including, static_argnames="share")


class Averages:
    """Averages of all actors over each of the lengths, evaluated whenever the newest actors are."""

    def __init__(self, training: Training, out: Path, lengths: Sequence[int]) -> None:
        self._training = training
        first = [Averaged.of(actors) for actors in training.actors()]
        self._averages = dict.fromkeys(lengths, first)
        self._was_ready = False
        """Whether the last round was learned from."""
        self._logs = {}
        for name in (NEWEST, *map(str, lengths)):
            (out / name).mkdir(parents=True)
            self._logs[name] = RunLog(out / name)

    def rows(self, rows: list[Row]) -> None:
        """Keep how the newest actors did."""
        self._logs[NEWEST].write([row for row in rows if row.name in ("eval/return", "eval/success")])

    def round(self) -> None:
        """Average, and evaluate if it is due."""
        training, limits = self._training, self._training.config.training
        for length, averages in self._averages.items():
            both = zip(averages, training.actors(), strict=True)
            if self._was_ready:
                self._averages[length] = [
                    including(average, actors, limits.round_env_steps / length) for average, actors in both
                ]
            if training.due(limits.eval_every_env_steps):
                self._evaluate(length)
        self._was_ready = bool(training.ready().any())

    def _evaluate(self, length: int) -> None:
        training = self._training
        both = zip(self._averages[length], training.actors(), strict=True)
        actors = [average.actors._replace(embedding=newest.embedding) for average, newest in both]
        played = training.world.evaluate(actors, training.config.training.eval_episodes, training.env_steps)
        for name in ("eval/return", "eval/success"):
            if name in played:
                total, weight = played[name].sum(axis=-1)
                each = zip(training.config.seeds, (total / weight).tolist(), strict=True)
                self._logs[str(length)].write([Row(seed, training.env_steps, name, value) for seed, value in each])

    def save(self) -> None:
        """Nothing is saved: a training that was ended early is made again."""

    def close(self) -> None:
        """Close all logs."""
        for log in self._logs.values():
            log.close()


class ToTheEnd:
    """Never stops."""

    def __call__(self) -> bool:
        return False

    def poll(self) -> None:
        """Go on."""


def train(config: Config, out: Path, lengths: Sequence[int] = LENGTHS) -> None:
    """Train a configuration. Each average has a folder of its own below `out`, with its evaluations."""
    config = tasks.resolve(config)
    if out.exists():
        raise SystemExit(f"{out} exists. Choose another folder with --out")
    training = Training(config, tasks.make_env(config))
    with contextlib.ExitStack() as stack:
        stack.callback(getattr(training.world, "close", lambda: None))
        averages = stack.enter_context(contextlib.closing(Averages(training, out, lengths)))
        loop.train(training, averages, ToTheEnd(), fresh=True)


def config_of(task: str, seeds: Sequence[int], steps: int) -> Config:
    """`hrac-plus` on a task, or on the slow point."""
    name = tasks.name_of(slow_point.TASK) if task == "slow-point" else task
    return configs.replace(tasks.config_for(name, "hrac-plus"), {"seeds": list(seeds), "training.total_env_steps": steps})


def table() -> None:
    """The committed runs: each evaluation on the slow point, and how Maze goes on after it is first solved."""
    columns = {NEWEST: NEWEST} | {f"{length:,} steps": str(length) for length in LENGTHS}
    folders = {title: CHOICES / "averaging-slow-point" / name for title, name in columns.items()}
    by_step(folders, wanted=lambda step: step >= FIRST)
    series = [read(folder, "eval/success") for folder in folders.values()]
    shares = (percent(each.values[:, each.steps >= FIRST].mean(axis=1)) for each in series)
    print("| mean of these | " + " | ".join(shares) + " |\n")
    print("| Maze | first mean return > 5.0 | from 50,000 steps later: lowest mean return | evaluations below 5.0 |")
    print("|---|---|---|---|")
    for title, name in columns.items():
        series = read(CHOICES / "averaging-maze" / name, "eval/return")
        first = series.steps[series.mean > 5.0][0]
        later = series.values[:, series.steps >= first + 50_000]
        print(f"| {title} | {first:,} | {later.mean(axis=0).min():.2f} | {np.sum(later < 5.0)} of {later.size} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", help="slow-point, or a name from hrac list")
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--set", nargs="+", default=[], metavar="FIELD=VALUE", help="settings, as in hrac sweep")
    options = parser.parse_args()
    if options.task is None:
        table()
    else:
        seeds, steps = TASKS.get(options.task, (tuple(range(100, 105)), 1_000_000))
        config = config_of(options.task, options.seeds or seeds, options.steps or steps)
        changes = parse_vary(options.set)
        if several := [name for name, values in changes.items() if len(values) > 1]:
            parser.error(f"--set {several[0]}: one value is wanted")
        train(
            configs.replace(config, {name: values[0] for name, values in changes.items()}),
            options.out or Path("runs") / f"averaging-{options.task}",
        )
