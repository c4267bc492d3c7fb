"""`hrac train`."""

import argparse
import dataclasses
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from hrac import config as configs
from hrac.cli.options import parse
from hrac.config import Config, ConfigError
from hrac.folder.files import POLICIES
from hrac.settings import A2C, AdjacencyConfig, ControllerConfig, EnvConfig, ManagerConfig, TrainingConfig


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """Train a method on a task. The defaults of all options are the paper's values for the task."""

    task: tyro.conf.Positional[str | None] = None
    """A name from `hrac list`, gym:ID for an environment of Gymnasium, or module:name for one of your own."""
    method: str = "hrac"
    """A name from `hrac list`."""
    steps: int | None = None
    """Environment steps of each run, pre-training included; short for --training.total-env-steps."""
    seeds: int = 1
    """Number of runs, trained together."""
    first_seed: int = 0
    """Seed of the first run; the others count on from it."""
    out: str | None = None
    """Folder for the results (default: runs/TASK-METHOD-TIME)."""
    resume: Path | None = None
    """Continue this run folder from its checkpoint instead of starting a new run. Only --steps, --minutes and learning rates
    may be given with it."""
    minutes: float | None = None
    """Stop with a checkpoint and exit code 0 before this many minutes of training are over, for queues with time limits. It is
    estimated from the rounds and saves so far. Leave a few minutes for the start."""
    envs_per_run: int | None = None
    """Copies of the environment per seed; short for --training.envs-per-run."""
    overlap: tyro.conf.FlagCreatePairsOff[bool] = False
    """Collect while the device learns; short for --training.overlap."""
    sigma: float | None = None
    """Noise of the stochastic ant tasks; short for --env.sigma."""
    k: int = 10
    """Steps between subgoals."""
    env: EnvConfig = dataclasses.field(default_factory=EnvConfig)
    manager: ManagerConfig = dataclasses.field(default_factory=ManagerConfig)
    controller: tyro.conf.AvoidSubcommands[ControllerConfig] = dataclasses.field(default_factory=A2C)
    adjacency: AdjacencyConfig = dataclasses.field(default_factory=AdjacencyConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)


GROUPS = ("k", "env", "manager", "controller", "adjacency", "training")


@dataclasses.dataclass(frozen=True)
class ResumeOptions:
    """Continue a run folder from its checkpoint. All other settings are those in the folder."""

    resume: Path
    """The run folder."""
    steps: int | None = None
    """Environment steps of each run in total (default: as before)."""
    minutes: float | None = None
    """Stop with a checkpoint and exit code 0 before this many minutes of training are over."""
    manager__actor_learning_rate: Annotated[float | None, tyro.conf.arg(name="manager.actor-learning-rate")] = None
    """The new value, from the checkpoint on."""
    manager__critic_learning_rate: Annotated[float | None, tyro.conf.arg(name="manager.critic-learning-rate")] = None
    """The new value, from the checkpoint on."""
    controller__learning_rate: Annotated[float | None, tyro.conf.arg(name="controller.learning-rate")] = None
    """The new value, from the checkpoint on."""
    controller__critic_learning_rate: Annotated[float | None, tyro.conf.arg(name="controller.critic-learning-rate")] = None
    """The new value, from the checkpoint on."""


def train(arguments: Sequence[str]) -> int:
    """`hrac train`."""
    from hrac import api
    from hrac.experiments import references, tasks

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("--method", "--resume"):
        parser.add_argument(name, nargs="?")
    typed, others = parser.parse_known_args(arguments)
    if typed.resume is not None:
        return _resume(arguments)
    default = TrainOptions()
    if not {"-h", "--help"} & set(others[:1]):
        if not arguments or arguments[0].startswith("-"):
            raise ConfigError(f"name a task first: {', '.join(tasks.TASKS)}, gym:ID or module:name (or --resume RUN)")
        references.trust(arguments[0])
        config = tasks.config_for(arguments[0], typed.method or default.method)
        default = defaults(config)
    options = parse(TrainOptions, arguments, "hrac train", default)
    return _report(api.run(_config(options, config), options.out, minutes=options.minutes))


def defaults(config: Config) -> TrainOptions:
    """The options whose values are those of a configuration."""
    given: dict[str, Any] = {name: getattr(config, name) for name in ("method", *GROUPS)}
    return TrainOptions(config.task, **given)


def _resume(arguments: Sequence[str]) -> int:
    from hrac import api

    options, unknown = tyro.cli(ResumeOptions, args=arguments, prog="hrac train", return_unknown_args=True)
    if unknown:
        allowed = "--steps, --minutes and learning rates alone: everything else is what the run folder says"
        raise ConfigError(f"{unknown[0]}: --resume goes with {allowed}")
    rates = {name: value for name, value in vars(options).items() if "__" in name and value is not None}
    return _report(api.resume(options.resume, options.steps, minutes=options.minutes, **rates))


def _config(options: TrainOptions, default: Config) -> Config:
    changes: dict[str, Any] = {name: getattr(options, name) for name in ("task", "method")}
    changes["seeds"] = configs.seed_range(options.seeds, options.first_seed)
    config = configs.to_dict(Config(**{name: getattr(options, name) for name in GROUPS}))
    plain = configs.to_dict(default)
    for value, group, field in (
        (options.steps, "training", "total_env_steps"),
        (options.envs_per_run, "training", "envs_per_run"),
        (options.overlap or None, "training", "overlap"),
        (options.sigma, "env", "sigma"),
    ):
        if value is not None:
            if config[group][field] not in (value, plain[group][field]):
                name = f"{group}.{field}".replace("_", "-")
                raise ConfigError(f"--{name} and the short option for it say different things: {config[group][field]}, {value}")
            config[group][field] = value
    return configs.from_dict(config | changes)


def _report(outcome: Any) -> int:
    state = "finished" if outcome.finished else "stopped"
    print(f"{state} at step {outcome.env_steps:,}; results are in {outcome.folder}")
    shown = {"return": ".2f", "success": ".0%"}
    last = [
        f"{name} {', '.join(format(value, form) for value in outcome.last[f'eval/{name}'])}"
        for name, form in shown.items()
        if f"eval/{name}" in outcome.last
    ]
    if last:
        print(f"last evaluation: {'; '.join(last)}")
    if not outcome.finished:
        print(f"go on with: hrac train --resume {outcome.folder}")
    if (outcome.folder / POLICIES).is_dir():  # else it was stopped before there was one
        missing = "" if importlib.util.find_spec("tensorboard") else "   (after pip install 'hrac[tensorboard]')"
        commands = (f"hrac {name} {outcome.folder}" for name in ("eval", "picture", "video", "report"))
        print(f"next: {'   '.join(commands)}   tensorboard --logdir {outcome.folder}{missing}")
    return 130 if outcome.interrupted and not outcome.finished else 0
