"""Actors averaged over time: `python benchmarks/averaging.py` prints the tables, with a task it trains that one.

`training.averaging_env_steps` changes nothing of what is learned, only who is evaluated. So one training shows averages over
several lengths beside the newest actors, in the same evaluation episodes.
"""

import argparse
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import slow_point
from improvements import TRAININGS
from report import CHOICES, by_step, percent, read

from hrac import config as configs
from hrac.agents.agent import Averaged
from hrac.agents.decide import Actors
from hrac.api import write_config
from hrac.config import Config, ConfigError
from hrac.experiments import tasks
from hrac.experiments.sweep import parse_settings
from hrac.folder.files import POLICIES
from hrac.folder.log import Row, RunLog
from hrac.runs import join
from hrac.training import loop, policies
from hrac.training.best import CHOSEN_BY
from hrac.training.session import by_seed
from hrac.training.state import Training

LENGTHS = (5_000, 10_000, 20_000, 50_000)
"""Environment steps."""
NEWEST = "newest"
TASKS = {"slow-point": (tuple(range(100, 105)), 300_000), "maze": (tuple(range(100, 104)), 500_000)}
"""The seeds and steps of the committed runs."""
FIRST = 50_000
"""On the slow point averages are evaluated from here on."""
ANTS = {NEWEST: TRAININGS["third"], "20,000 steps": TRAININGS["third, averaged"]}
"""On Ant Maze."""
ANTS_FIRST = 1_000_000
"""Averages of ants are evaluated from here on."""


@partial(jax.jit, static_argnames="shares")
def including(averages: list[list[Averaged]], actors: list[Actors], shares: tuple[float, ...]) -> list[list[Averaged]]:
    """Averages of several lengths after one more round, each with its share of the newest actors, in one program."""
    return [
        [average.including(newest, share) for average, newest in zip(parts, actors, strict=True)]
        for parts, share in zip(averages, shares, strict=True)
    ]


class Averages:
    """Averages of all actors over each of the lengths, evaluated whenever the newest actors are, from step `first` on.

    The newest actors and each average have a run folder below `out`: that of the newest has all metrics of the training, the
    others have those of evaluations. Policies are written at each evaluation.
    """

    def __init__(self, training: Training, out: Path, lengths: Sequence[int], first: int = 0) -> None:
        self._training, self._lengths, self._first = training, lengths, first
        self._averages = [[Averaged.of(actors) for actors in training.actors()] for _ in lengths]
        self._shares = tuple(training.config.training.round_env_steps / length for length in lengths)
        self._was_ready = False
        """Whether the last round was learned from."""
        self._began = self._before = time.monotonic()
        self._last_step = training.env_steps
        self._folders = {name: out / name for name in (NEWEST, *map(str, lengths))}
        self._logs = {}
        for name, folder in self._folders.items():
            folder.mkdir(parents=True)
            length = 0 if name == NEWEST else int(name)
            write_config(folder, configs.replace(training.config, {"training.averaging_env_steps": length}))
            self._logs[name] = RunLog(folder)

    def rows(self, rows: list[Row]) -> None:
        """Keep how the newest actors did."""
        self._logs[NEWEST].write(rows)
        scores = by_seed([row for row in rows if row.name in CHOSEN_BY], self._training.config.seeds)
        name = next((name for name in CHOSEN_BY if name in scores), None)
        if name is not None:
            now, step = time.monotonic(), self._training.env_steps
            pace = (step - self._last_step) * len(scores[name]) / (now - self._before)
            self._before, self._last_step = now, step
            self._logs[NEWEST].write_timing(step, now - self._began, pace)
            print(
                f"{step:,} steps, {now - self._began:.0f} s: {name} {scores[name].mean():.3f} {scores[name].tolist()}",
                flush=True,
            )
            self._save(NEWEST, self._training.actors())

    def round(self) -> None:
        """Average, and evaluate if it is due."""
        training, limits = self._training, self._training.config.training
        if self._was_ready and self._lengths:
            self._averages = including(self._averages, training.actors(), self._shares)
        if training.due(limits.eval_every_env_steps) and training.env_steps >= self._first:
            for length, averages in zip(self._lengths, self._averages, strict=True):
                self._evaluate(str(length), averages)
        self._was_ready = bool(training.ready().any())

    def _evaluate(self, name: str, averages: list[Averaged]) -> None:
        training = self._training
        both = zip(averages, training.actors(), strict=True)
        actors = [average.actors._replace(embedding=newest.embedding) for average, newest in both]
        played = training.world.evaluate(actors, training.config.training.eval_episodes, training.env_steps)
        for metric, sums in played.items():
            total, weight = sums.sum(axis=-1)
            each = zip(training.config.seeds, (total / weight).tolist(), strict=True)
            self._logs[name].write([Row(seed, training.env_steps, metric, value) for seed, value in each])
        self._save(name, actors)

    def _save(self, name: str, actors: list[Actors]) -> None:
        training, newest = self._training, jax.device_get(join(actors))
        policies.save(self._folders[name] / POLICIES, newest, training.config, training.setup, training.view)

    def save(self) -> None:
        """No checkpoint is written: a training that was ended early is made again."""

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


def train(
    config: Config,
    out: Path,
    lengths: Sequence[int] = LENGTHS,
    first: int = 0,
    prepare: Callable[[Training], None] = lambda training: None,
) -> None:
    """Train a configuration, with averages beside it. `prepare` may change the runs before they begin."""
    config = tasks.resolve(config)
    if out.exists():
        raise SystemExit(f"{out} exists. Choose another folder with --out")
    training = Training(config, tasks.make_env(config))
    prepare(training)
    with contextlib.ExitStack() as stack:
        stack.callback(getattr(training.world, "close", lambda: None))
        averages = stack.enter_context(contextlib.closing(Averages(training, out, lengths, first)))
        loop.train(training, averages, ToTheEnd(), fresh=True)


def config_of(task: str, seeds: Sequence[int], steps: int, changes: Mapping[str, Any]) -> Config:
    """`hrac-plus` on a task, or on the slow point, with some settings changed."""
    name = tasks.name_of(slow_point.TASK) if task == "slow-point" else task
    changes = {"seeds": list(seeds), "training.total_env_steps": steps, **changes}
    return configs.replace(tasks.config_for(name, "hrac-plus"), changes)


def table() -> None:
    """The committed runs: each evaluation on the slow point, how Maze goes on after it is first solved, and Ant Maze."""
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
    print(f"\n| Ant Maze, {ANTS_FIRST:,} steps and more | success | worst evaluation of a seed |\n|---|---|---|")
    for title, folder in ANTS.items():
        series = read(folder, "eval/success")
        later = series.values[:, series.steps >= ANTS_FIRST]
        print(f"| {title} | {later.mean():.1%} | {later.min():.0%} |")


def main(words: Sequence[str] | None = None) -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", help="slow-point, or a name from hrac list")
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS, help="steps that averages are over")
    parser.add_argument("--first", type=int, default=0, help="averages are evaluated from this step on")
    parser.add_argument("--set", nargs="+", default=[], metavar="FIELD=VALUE", help="settings, as in hrac sweep")
    options = parser.parse_args(words)
    if options.task is None:
        return table()
    lengths = options.lengths
    if len(set(lengths)) < len(lengths) or min(lengths, default=1) < 1:
        parser.error(f"--lengths: different whole numbers from 1 up, got {' '.join(map(str, lengths))}")
    seeds, steps = TASKS.get(options.task, (tuple(range(100, 105)), 1_000_000))
    out = options.out or Path("runs") / f"averaging-{options.task}"
    try:
        chosen = parse_settings(options.set)
        train(config_of(options.task, options.seeds or seeds, options.steps or steps, chosen), out, lengths, options.first)
    except ConfigError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
