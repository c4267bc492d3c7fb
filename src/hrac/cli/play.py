"""`hrac eval` and `hrac picture`: episodes of a trained policy."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import tyro

from hrac.cli.checks import check_picture, check_random_seed


@dataclasses.dataclass(frozen=True)
class EvalOptions:
    """Play episodes with a trained policy, without exploration noise, and print the results."""

    run: tyro.conf.Positional[Path]
    """A run folder, a policy file, or the name of a task that comes with a policy."""
    pretrained: tyro.conf.FlagCreatePairsOff[bool] = False
    """Use the policy in the package for this task."""
    best: tyro.conf.FlagCreatePairsOff[bool] = False
    """Use the policy of each seed's best evaluation in training instead of the newest one."""
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
    check_random_seed("--random-seed", options.random_seed)
    source = api.pretrained(str(options.run)) if options.pretrained else options.run
    for row in api.evaluate(source, options.episodes, options.seed, options.random_seed, best=options.best):
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
    check_random_seed("--episode", options.episode)
    folder = Path() if options.pretrained else options.run if options.run.is_dir() else options.run.parent
    path = options.out or folder / "picture.png"
    check_picture(path)
    episode.draw(policy, path, options.episode)
    print(f"drawn: {path}")
    return 0
