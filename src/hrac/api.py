"""Training and loading by name: what `hrac.train` and `hrac.load` do."""

import contextlib
import datetime
import functools
import importlib.metadata
import json
import platform
import subprocess
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jax

from hrac import config as configs
from hrac.config import Config, ConfigError
from hrac.experiments import budget, check, references, tasks
from hrac.experiments.check import Report
from hrac.folder import files, opening, progress
from hrac.folder.files import CONFIG, write_atomic
from hrac.folder.log import Logger
from hrac.folder.opening import RunFolderError
from hrac.folder.progress import Display
from hrac.folder.reading import read_config
from hrac.results import Evaluation, Outcome
from hrac.training import policies, session
from hrac.training.callbacks import Callback
from hrac.training.policies import Policy

MOST_EPISODES = 100_000
PRETRAINED = Path(str(resources.files("hrac"))) / "pretrained"


def train(
    task: Any = "maze",
    method: str = "hrac",
    *,
    seeds: int | Sequence[int] = 1,
    steps: int | None = None,
    out: str | Path | None = None,
    minutes: float | None = None,
    display: Display | None = None,
    callbacks: Sequence[Callback] = (),
    loggers: Sequence[Logger] = (),
    **settings: Any,
) -> Outcome:
    """Train a method on a task, with the paper's settings unless others are given.

    `task` is a name from `hrac list`, a `Task`, a Gymnasium environment ("gym:ID", its class, or a function that makes it), or
    an environment in JAX. `seeds` is a number of seeds (0, 1, ...) or a list of them. With `minutes`, training stops with a
    checkpoint before that time is over. Each of the `callbacks` is called after each evaluation, and one that returns True ends
    the training with a checkpoint (`hrac.StopAt`, `hrac.Moment`). `loggers` receive what is written to metrics.csv
    (`hrac.Logger`).
    Further settings are configuration fields with `__` for the dot: `hrac.train("maze", manager__eta=5.0)`.
    """
    changes = {name.replace("__", "."): value for name, value in settings.items()}
    changes["seeds"] = configs.seed_range(seeds) if isinstance(seeds, int) else list(seeds)
    if steps is not None:
        changes["training.total_env_steps"] = steps
    name = task if isinstance(task, str) else tasks.name_of(task)
    references.trust(name)
    return run(configs.replace(tasks.config_for(name, method), changes), out, display, minutes, callbacks, loggers)


def run(
    config: Config,
    out: str | Path | None = None,
    display: Display | None = None,
    minutes: float | None = None,
    callbacks: Sequence[Callback] = (),
    loggers: Sequence[Logger] = (),
) -> Outcome:
    """Train a configuration in a new run folder. Arguments are as in `train`."""
    references.refuse_while_importing()
    references.trust(config.task)
    _check_minutes(minutes)
    config = tasks.resolve(config)
    env = tasks.make_env(config)
    if config.task not in tasks.BUILT_IN_NAMES:
        check.check(env, config)
    needs = budget.needs(config, budget.sizes_of(env))
    budget.require(config, needs)
    if out is not None and not str(out):
        raise RunFolderError("out must name a folder, got an empty name")
    shown = display or progress.display(config.training.total_env_steps)
    wanted = _default_folder(config) if out is None else Path(out)
    with opening.new(wanted, unique=out is None) as folder, budget.explaining(config, needs):
        write_config(folder, config)
        return Outcome(*session.train(config, env, folder, shown, minutes=minutes, callbacks=callbacks, loggers=loggers))


def check_task(task: Any, method: str = "hrac", **settings: Any) -> Report:
    """What the library sees of a task: its spaces, and what random actions do. `print` it. Raises `TaskError`.

    Arguments are as in `train`.
    """
    changes = {name.replace("__", "."): value for name, value in settings.items()}
    name = task if isinstance(task, str) else tasks.name_of(task)
    references.trust(name)
    config = tasks.resolve(configs.replace(tasks.config_for(name, method), changes))
    return check.check(tasks.make_env(config), config)


def resume(
    folder: str | Path,
    steps: int | None = None,
    display: Display | None = None,
    minutes: float | None = None,
    callbacks: Sequence[Callback] = (),
    loggers: Sequence[Logger] = (),
    **rates: float,
) -> Outcome:
    """Continue a run folder from its checkpoint, to its end or to `steps`, or for some minutes.

    Learning rates may be changed: `hrac.resume(folder, manager__actor_learning_rate=1e-5)`. `config.json` lists such changes.
    """
    _check_minutes(minutes)
    folder, changes = Path(folder), {name.replace("__", "."): value for name, value in rates.items()}
    if forbidden := [name for name in changes if name not in configs.RATES]:
        raise ConfigError(f"{forbidden[0]}: a run can go on with other values of {', '.join(configs.RATES)} only")
    with opening.existing(folder):
        before, reached = read_config(folder), session.steps_reached(folder)
        if steps is not None and steps < reached:
            raise RunFolderError(f"{folder} is already at step {reached:,}: --steps must be at least that, got {steps:,}")
        config = configs.replace(before, changes | ({} if steps is None else {"training.total_env_steps": steps}))
        env = tasks.make_env(config)
        needs = budget.needs(config, budget.sizes_of(env))
        budget.require(config, needs)
        shown = display or progress.display(config.training.total_env_steps)
        with budget.explaining(config, needs):
            begun = functools.partial(_note_changes, folder, before, config, reached)
            return Outcome(*session.train(config, env, folder, shown, True, minutes, begun, callbacks, loggers))


def _note_changes(folder: Path, before: Config, config: Config, step: int) -> None:
    """Write the configuration that a run continues with, and the step at which learning rates changed."""
    about = json.loads(files.read(folder / CONFIG)) | {"config": configs.to_dict(config)}
    if changed := [name for name in configs.differences(before, config) if name in configs.RATES]:
        change = {"step": step} | {name: configs.value_of(config, name) for name in changed}
        about["changes"] = [*about.get("changes", []), change]
    _write_json(folder / CONFIG, about)


def _check_minutes(minutes: float | None) -> None:
    if minutes is not None and not minutes > 0:
        raise ConfigError(f"minutes must be a positive number, got {minutes}")


def load(source: str | Path, seed: int | None = None, *, best: bool = False) -> Policy:
    """The policy in a run folder (of its first seed unless `seed` is given), in a policy file, or by the name of a task that
    comes with one ("ant-maze").

    It is the newest of its run, or with `best` that of the seed's best evaluation. On these evaluations the best one looks
    better than it is, since it was chosen by them: `evaluate` it anew.
    """
    path = Path(source)
    if not path.exists() and str(path) in pretrained_names():
        path = pretrained(str(path))
    if path.is_dir():
        config = read_config(path)
        wanted = config.seeds[0] if seed is None else seed
        if wanted not in config.seeds:
            raise RunFolderError(f"{path} has no seed {wanted}. Seeds are: {', '.join(map(str, config.seeds))}")
        path = policies.path_of(path, wanted, best)
        files.refuse_link(path.parent)
        if not path.exists():
            raise RunFolderError(f"{path} does not exist: a training writes its policies at each checkpoint")
    elif best:
        raise RunFolderError(f"{path}: a best policy is sought in a run folder, and this is none")
    elif path.exists():
        path = path.resolve()  # a link given by name is followed; links within a run folder are not
    else:
        known = f"a task that comes with a policy ({', '.join(pretrained_names())})"
        raise RunFolderError(f"{path} does not exist: name a run folder, a policy file or {known}")
    saved = policies.read(path)
    if seed is not None and seed != saved.seed:
        raise RunFolderError(f"{path} is the policy of seed {saved.seed}, not of {seed}")
    make = functools.partial(tasks.make_env, saved.config)
    size = budget.sizes_of(make()) if saved.seen is None else budget.sizes_to_act(saved.seen.interface)
    budget.require(saved.config, budget.networks(saved.config, size))
    return Policy(saved, path, make)


def pretrained(task: str) -> Path:
    """The policy file in the package for a task, to `load` or `evaluate`; raises `RunFolderError` if there is none."""
    names = pretrained_names()
    if task not in names:
        raise RunFolderError(f"no trained policy for {task!r} comes with the package. There are: {', '.join(names) or 'none'}")
    return PRETRAINED / f"{task}.safetensors"


def pretrained_names() -> list[str]:
    """The tasks of which a policy comes with the package."""
    return sorted(file.stem for file in PRETRAINED.glob("*.safetensors"))


def evaluate(
    source: Policy | str | Path, episodes: int = 100, seed: int | None = None, random_seed: int = 12345, *, best: bool = False
) -> list[Evaluation]:
    """Play episodes without exploration noise: with a policy, or with what `load` finds (of a run folder all seeds or one)."""
    if not 1 <= episodes <= MOST_EPISODES:
        raise ConfigError(f"episodes must be from 1 to {MOST_EPISODES:,}, got {episodes:,}")
    if isinstance(source, Policy):
        return [_evaluate(source, episodes, random_seed)]
    path = Path(source)
    seeds = read_config(path).seeds if path.is_dir() and seed is None else (seed,)
    return [_evaluate(load(path, wanted, best=best), episodes, random_seed) for wanted in seeds]


def _evaluate(policy: Policy, episodes: int, random_seed: int) -> Evaluation:
    sums = policy.player.evaluate(episodes, random_seed)
    means = {name: float(total.sum() / weight.sum()) for name, (total, weight) in sums.items()}
    return Evaluation(policy.seed, episodes, sums["eval/return"][0], means, policy.config.task, policy.config.method)


def _default_folder(config: Config) -> Path:
    when = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{references.folder_name(config.task)}-{config.method}-{when}"


def write_config(folder: Path, config: Config) -> None:
    """Write what a run was made with: its configuration, versions, device and commit."""
    about = {
        "config": configs.to_dict(config),
        "versions": {name: _version(name) for name in ("hrac", "jax", "numpy", "optax", "gymnasium", "mujoco")},
        "python": platform.python_version(),
        "device": str(jax.devices()[0]),
        "commit": _commit(),
    }
    _write_json(folder / CONFIG, about)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_atomic(path, (json.dumps(content, indent=2) + "\n").encode())


def _version(package: str) -> str | None:
    """The version of an installed package."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return None


def _commit() -> str | None:
    """The commit of the source tree the package is run from, if there is one."""
    here = Path(__file__)

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)  # an installed copy is in no repository
        return git("rev-parse", "HEAD")
    except (OSError, subprocess.SubprocessError):
        return None
