"""`hrac list` and `hrac bench`: the tasks, and how fast they are."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import tyro

from hrac import config as configs
from hrac.cli.options import parse
from hrac.config import ConfigError
from hrac.settings import EnvConfig


@dataclasses.dataclass(frozen=True)
class ListOptions:
    """List the tasks, the methods, and the experiments of `hrac sweep`."""


def list_(arguments: Sequence[str]) -> int:
    """`hrac list`."""
    from hrac.experiments.known import KNOWN
    from hrac.experiments.methods import METHODS
    from hrac.experiments.references import GYM
    from hrac.experiments.sweep import EXPERIMENTS
    from hrac.experiments.tasks import TASKS

    tyro.cli(ListOptions, args=arguments, prog="hrac list")
    width = max(map(len, (*TASKS, *METHODS, *EXPERIMENTS, *(GYM + name for name in KNOWN))))
    print("tasks")
    for name, task in TASKS.items():
        print(f"  {name:<{width}} {task.summary}")
    print("environments of other packages with settings here (any other: hrac check gym:ID)")
    for name, known in KNOWN.items():
        print(f"  {GYM + name:<{width}} {known['summary']}")
    print("methods")
    for name, method in METHODS.items():
        print(f"  {name:<{width}} {method.summary}")
    print("experiments")
    for name, experiment in EXPERIMENTS.items():
        print(f"  {name:<{width}} {experiment.summary}")
    return 0


@dataclasses.dataclass(frozen=True)
class CheckOptions:
    """Look at a task: its spaces, what random actions do in it, and whether its environment keeps the rules."""

    task: tyro.conf.Positional[str]
    """A name from `hrac list`, gym:ID for an environment of Gymnasium, or module:name for one of your own."""
    k: int | None = None
    """Steps between subgoals (default: the task's)."""
    env: EnvConfig = dataclasses.field(default_factory=EnvConfig)


def check(arguments: Sequence[str]) -> int:
    """`hrac check`."""
    options = parse(CheckOptions, arguments, "hrac check")
    from hrac import api

    fields = {f"env__{name}": value for name, value in dataclasses.asdict(options.env).items()} | {"k": options.k}
    given: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    print(api.check_task(options.task, **given))
    return 0


@dataclasses.dataclass(frozen=True)
class BenchOptions:
    """Measure the speed of training without compilation, and its memory."""

    task: tyro.conf.Positional[str]
    """A name from `hrac list`, gym:ID for an environment of Gymnasium, or module:name for one of your own."""
    method: str = "hrac"
    """A name from `hrac list`."""
    seeds: int = 1
    """Runs trained at once."""
    rounds: int = 20
    """Rounds to measure."""
    envs_per_run: int | None = None
    """Copies per seed (default: the task's)."""
    env_threads: int | None = None
    """Environments on the host: threads that step them (default: one per core)."""
    overlap: tyro.conf.FlagCreatePairsOff[bool] = False
    """Collect while the device learns."""
    set: tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]] = ()
    """Other settings (FIELD=VALUE), as of `hrac sweep`: manager.correction_candidates=0 manager.hidden=[64,64]."""
    env: EnvConfig = dataclasses.field(default_factory=EnvConfig)


def bench(arguments: Sequence[str]) -> int:
    """`hrac bench`."""
    options = parse(BenchOptions, arguments, "hrac bench")
    for name in ("seeds", "rounds"):
        if (value := getattr(options, name)) < 1:
            raise ConfigError(f"--{name} must be at least 1, got {value}")
    for line in _bench_lines(options):
        print(line, flush=True)
    return 0


def _bench_lines(options: BenchOptions) -> Iterator[str]:
    from hrac.experiments import bench, references, tasks
    from hrac.experiments.sweep import parse_settings

    given = {
        "seeds": configs.seed_range(options.seeds),
        "training.envs_per_run": options.envs_per_run,
        "training.env_threads": options.env_threads,
        "training.overlap": options.overlap or None,
    }
    given |= {f"env.{name}": value for name, value in dataclasses.asdict(options.env).items()}
    changes = {name: value for name, value in given.items() if value is not None}
    chosen = parse_settings([text for texts in options.set for text in texts])
    if twice := [name for name in chosen if name in changes]:
        raise ConfigError(f"{twice[0]}: given twice, by --set and by an option of its own")
    references.trust(options.task)
    config = configs.replace(tasks.config_for(options.task, options.method), changes | chosen)
    return bench.training(tasks.resolve(config), options.rounds)
