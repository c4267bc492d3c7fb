"""The command line: the only module that knows it."""

import argparse
import dataclasses
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from pydantic import ValidationError

import hrac
from hrac import config as configs
from hrac.config import Config, ConfigError
from hrac.errors import HracError
from hrac.folder import files
from hrac.settings import A2C, AdjacencyConfig, ControllerConfig, EnvConfig, ManagerConfig, TrainingConfig

USAGE = """usage: hrac COMMAND [options]

  train TASK    train a method on a task        hrac train maze
  eval RUN      play episodes with a policy     hrac eval runs/NAME --episodes 100
  picture RUN   draw an episode with its subgoals and adjacency heatmaps
  curves RUN... draw learning curves, one per folder
  list          the tasks with their presets, and the methods
  bench TASK    measure the speed of training

`hrac COMMAND --help` explains a command's options; `hrac --version` names the version."""


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """Train a method on a task. The defaults of all options are the paper's values for the task, or those of another preset."""

    task: tyro.conf.Positional[str | None] = None
    """A name from `hrac list`."""
    method: str = "hrac"
    """A name from `hrac list`."""
    preset: str = "paper"
    """The source of the defaults: "paper", or another preset that `hrac list` shows for the task."""
    steps: int | None = None
    """Environment steps of each run, pre-training included; short for --training.total-env-steps."""
    seeds: int = 1
    """Number of runs, trained together."""
    first_seed: int = 0
    """Seed of the first run; the others count on from it."""
    out: str | None = None
    """Folder for the results (default: runs/TASK-METHOD-TIME, with another preset runs/TASK-METHOD-PRESET-TIME)."""
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
    from hrac.experiments import tasks

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("--method", "--preset", "--resume"):
        parser.add_argument(name, nargs="?")
    typed, others = parser.parse_known_args(arguments)
    if typed.resume is not None:
        return _resume(arguments)
    default = TrainOptions()
    if not {"-h", "--help"} & set(others[:1]):
        if not arguments or arguments[0].startswith("-"):
            raise ConfigError(f"name a task first: {', '.join(tasks.TASKS)} (or --resume RUN)")
        names = {"method": typed.method or default.method, "preset": typed.preset or default.preset}
        config = tasks.config_for(arguments[0], **names)
        given: dict[str, Any] = names | {name: getattr(config, name) for name in GROUPS}
        default = TrainOptions(config.task, **given)
    options = tyro.cli(TrainOptions, args=arguments, default=default, prog="hrac train")
    return _report(api.run(_config(options, config), options.out, minutes=options.minutes))


def _resume(arguments: Sequence[str]) -> int:
    from hrac import api

    options, unknown = tyro.cli(ResumeOptions, args=arguments, prog="hrac train", return_unknown_args=True)
    if unknown:
        allowed = "--steps, --minutes and learning rates alone: everything else is what the run folder says"
        raise ConfigError(f"{unknown[0]}: --resume goes with {allowed}")
    rates = {name: value for name, value in vars(options).items() if "__" in name and value is not None}
    return _report(api.resume(options.resume, options.steps, minutes=options.minutes, **rates))


def _config(options: TrainOptions, default: Config) -> Config:
    changes: dict[str, Any] = {name: getattr(options, name) for name in ("task", "method", "preset")}
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
    print(f"next: hrac eval {outcome.folder}   hrac picture {outcome.folder}   tensorboard --logdir {outcome.folder}")
    return 130 if outcome.interrupted and not outcome.finished else 0


@dataclasses.dataclass(frozen=True)
class EvalOptions:
    """Play episodes with a trained policy, without exploration noise, and print the results."""

    run: tyro.conf.Positional[Path]
    """A run folder or a policy file; with --pretrained, the name of a task."""
    pretrained: tyro.conf.FlagCreatePairsOff[bool] = False
    """Use the policy in the package for this task."""
    episodes: int = 100
    """Episodes per seed."""
    seed: int | None = None
    """Only this seed's policy (default: all seeds of the run)."""
    random_seed: int = 12345
    """Random seed of the episodes, not of the policy."""


def evaluate(arguments: Sequence[str]) -> int:
    """`hrac eval`."""
    from hrac import api

    options = tyro.cli(EvalOptions, args=arguments, prog="hrac eval")
    _check_random_seed("--random-seed", options.random_seed)
    source = api.pretrained(str(options.run)) if options.pretrained else options.run
    for row in api.evaluate(source, options.episodes, options.seed, options.random_seed):
        print(row)
    return 0


@dataclasses.dataclass(frozen=True)
class PictureOptions:
    """Draw one evaluation episode at up to 18 new subgoals: the map, the path so far, the subgoal and the adjacency heatmap."""

    run: tyro.conf.Positional[Path]
    """A run folder or a policy file; with --pretrained, the name of a task."""
    pretrained: tyro.conf.FlagCreatePairsOff[bool] = False
    """Use the policy in the package for this task."""
    seed: int | None = None
    """The seed whose policy is used (default: the run's first)."""
    episode: int = 0
    """Random seed of the episode."""
    out: Path | None = None
    """The picture, .png, .pdf or .svg (default: picture.png in the run folder, or in the folder of the policy file)."""


def picture(arguments: Sequence[str]) -> int:
    """`hrac picture`."""
    from hrac import api
    from hrac.view import episode

    options = tyro.cli(PictureOptions, args=arguments, prog="hrac picture")
    source = api.pretrained(str(options.run)) if options.pretrained else options.run
    policy = api.load(source, options.seed)
    _check_random_seed("--episode", options.episode)
    folder = Path() if options.pretrained else options.run if options.run.is_dir() else options.run.parent
    path = options.out or folder / "picture.png"
    _check_picture(path)
    episode.draw(policy, path, options.episode)
    print(f"drawn: {path}")
    return 0


def _check_random_seed(option: str, value: int) -> None:
    if not 0 <= value < 2**31:
        raise ConfigError(f"{option} must be at least 0 and less than 2^31, got {value}")


def _check_picture(path: Path) -> None:
    """Raise unless a picture can be written there. Its folder is made."""
    if path.suffix not in (".png", ".pdf", ".svg"):
        raise ConfigError(f"--out must end in .png, .pdf or .svg, got {str(path)!r}")
    files.refuse_link(path)
    path.parent.mkdir(parents=True, exist_ok=True)


@dataclasses.dataclass(frozen=True)
class CurvesOptions:
    """Draw learning curves: the mean over a folder's seeds, with its standard error."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, one curve per folder."""
    metric: str = "eval/return"
    """A name from metrics.csv."""
    labels: tuple[str, ...] = ()
    """Names of the curves (default: the folders' names)."""
    out: Path = Path("curves.png")
    """The picture, .png, .pdf or .svg."""


def curves(arguments: Sequence[str]) -> int:
    """`hrac curves`."""
    from hrac.view import curves as view

    options = tyro.cli(CurvesOptions, args=arguments, prog="hrac curves")
    labels = options.labels or tuple(run.name for run in options.runs)
    if len(labels) != len(options.runs):
        raise ConfigError(f"--labels: {len(options.runs)} are needed, one per run, got {len(labels)}")
    if not options.runs:
        raise ConfigError("name at least one run folder")
    _check_picture(options.out)
    view.draw([view.Curve(label, run) for label, run in zip(labels, options.runs, strict=True)], options.metric, options.out)
    print(f"drawn: {options.out}")
    return 0


@dataclasses.dataclass(frozen=True)
class ListOptions:
    """List the tasks with their presets, and the methods."""


def list_(arguments: Sequence[str]) -> int:
    """`hrac list`."""
    from hrac.experiments.methods import METHODS
    from hrac.experiments.tasks import TASKS

    tyro.cli(ListOptions, args=arguments, prog="hrac list")
    width = max(map(len, (*TASKS, *METHODS)))
    print("tasks")
    for name, task in TASKS.items():
        print(f"  {name:<{width}} {task.summary}")
        print(f"  {'':<{width}} presets: {', '.join(task.presets)}")
    print("methods")
    for name, method in METHODS.items():
        print(f"  {name:<{width}} {method.summary}")
    return 0


@dataclasses.dataclass(frozen=True)
class BenchOptions:
    """Measure the speed of training without compilation, and its memory."""

    task: tyro.conf.Positional[str]
    """A name from `hrac list`."""
    preset: str = "paper"
    """As in `hrac train`."""
    seeds: int = 1
    """Runs trained at once."""
    rounds: int = 20
    """Rounds to measure."""
    envs_per_run: int | None = None
    """Copies per seed (default: the preset's)."""
    env_threads: int | None = None
    """Environments on the host: threads that step them (default: one per core)."""
    overlap: tyro.conf.FlagCreatePairsOff[bool] = False
    """Collect while the device learns; the preset "fast" does so by default."""


def bench(arguments: Sequence[str]) -> int:
    """`hrac bench`."""
    options = tyro.cli(BenchOptions, args=arguments, prog="hrac bench")
    for name in ("seeds", "rounds"):
        if (value := getattr(options, name)) < 1:
            raise ConfigError(f"--{name} must be at least 1, got {value}")
    for line in _bench_lines(options):
        print(line, flush=True)
    return 0


def _bench_lines(options: BenchOptions) -> Iterator[str]:
    from hrac.experiments import bench, tasks

    given = {
        "seeds": configs.seed_range(options.seeds),
        "training.envs_per_run": options.envs_per_run,
        "training.env_threads": options.env_threads,
        "training.overlap": options.overlap or None,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    config = configs.replace(tasks.config_for(options.task, preset=options.preset), changes)
    return bench.training(config, options.rounds)


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "train": train,
    "eval": evaluate,
    "picture": picture,
    "curves": curves,
    "list": list_,
    "bench": bench,
}

COMPILING = ("train", "eval", "picture", "bench")


def main() -> None:
    """Entry point of the `hrac` program."""
    code: Any = 141
    try:
        try:
            code = _main(sys.argv[1:])
        except SystemExit as ended:
            code = ended.code
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # one more Ctrl-C ends the process silently
    sys.exit(code)


def _main(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0 if arguments else 2
    name, rest = arguments[0], arguments[1:]
    if name == "--version":
        print(f"hrac {hrac.__version__}")
        return 0
    if name not in COMMANDS:
        print(f"error: there is no command {name!r}. Commands are: {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    try:
        if name in COMPILING and not {"-h", "--help"} & set(rest):
            from hrac.compiled import keep_compiled

            keep_compiled()
        return COMMANDS[name](rest)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (ValidationError, HracError, OSError) as error:  # anything else is a bug, so its traceback is shown
        if isinstance(error, BrokenPipeError):
            raise
        print(f"error: {configs.explain(error) if isinstance(error, ValidationError) else error}", file=sys.stderr)
        return 2
