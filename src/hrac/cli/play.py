"""`hrac eval`, `hrac picture` and `hrac video`: episodes of a trained policy."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from hrac.cli.checks import check_random_seed
from hrac.config import ConfigError
from hrac.folder import files

if TYPE_CHECKING:
    from hrac.training.policies import Policy


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
class _EpisodeOptions:
    run: tyro.conf.Positional[Path]
    """A run folder, a policy file, or the name of a task that comes with a policy."""
    pretrained: tyro.conf.FlagCreatePairsOff[bool] = False
    """Use the policy in the package for this task."""
    best: tyro.conf.FlagCreatePairsOff[bool] = False
    """Use the policy of the seed's best evaluation in training instead of the newest one."""
    seed: int | None = None
    """The seed whose policy is used (default: the run's first)."""
    episode: int = 0
    """Random seed of the episode."""

    def load(self) -> "Policy":
        """The policy whose episode is shown."""
        from hrac import api

        check_random_seed("--episode", self.episode)
        return api.load(api.pretrained(str(self.run)) if self.pretrained else self.run, self.seed, best=self.best)

    def default(self, name: str) -> Path:
        """A file of this name, in the run folder or that of the policy file; of the task's name, here."""
        if self.pretrained or not self.run.exists():
            return Path(str(self.run)).with_suffix(Path(name).suffix)
        return (self.run if self.run.is_dir() else self.run.parent) / name


@dataclasses.dataclass(frozen=True)
class PictureOptions(_EpisodeOptions):
    """Draw one evaluation episode: the map, the path so far, the subgoals, and where the agent is judged to get in k steps."""

    panels: int = 6
    """How many moments are shown at most: the first, the end, and turns, missed subgoals and rare rewards between them."""
    out: Path | None = None
    """The picture, .png, .pdf or .svg (default: picture.png in the run folder, or TASK.png here for the name of a task)."""


def picture(arguments: Sequence[str]) -> int:
    """`hrac picture`."""
    from hrac.scenes import picture as pictures
    from hrac.scenes import story

    options = tyro.cli(PictureOptions, args=arguments, prog="hrac picture")
    if not 1 <= options.panels <= 100:
        raise ConfigError(f"--panels must be from 1 to 100, got {options.panels}")
    policy = options.load()
    path = files.to_write(options.out or options.default("picture.png"), pictures.FORMATS, "--out")
    told = story.tell(policy.player, policy.title, options.episode)
    pictures.draw(told, path, options.panels)
    print(f"drawn: {path} ({told.ending})")
    return 0


@dataclasses.dataclass(frozen=True)
class VideoOptions(_EpisodeOptions):
    """Film one evaluation episode, for ants with MuJoCo's view beside the map; or play it in the terminal."""

    out: Path | None = None
    """The film, .gif, or .mp4 with the extra `video` (default: video.gif in the run folder, or TASK.gif here for
    the name of a task)."""
    map_only: tyro.conf.FlagCreatePairsOff[bool] = False
    """Show the map alone, without MuJoCo's view."""
    text: tyro.conf.FlagCreatePairsOff[bool] = False
    """Play it in this terminal, as text, instead of making a film."""
    steps_per_second: float = 8.0
    """How fast, with --text."""


def video(arguments: Sequence[str]) -> int:
    """`hrac video`."""
    from hrac.scenes import film, story, text

    options = tyro.cli(VideoOptions, args=arguments, prog="hrac video")
    if not 0 < options.steps_per_second <= 1000:
        raise ConfigError(f"--steps-per-second must be above 0 and at most 1000, got {options.steps_per_second}")
    policy = options.load()
    if options.text:
        text.play(story.tell(policy.player, policy.title, options.episode), options.steps_per_second)
        return 0
    path = files.to_write(options.out or options.default("video.gif"), film.FORMATS, "--out")
    told = film.record(policy.player, policy.title, path, options.episode, _note, not options.map_only)
    print(f"filmed: {path} ({told.ending})")
    return 0


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
