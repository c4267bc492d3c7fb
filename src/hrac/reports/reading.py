"""What the report knows of each run: whatever can be read of a folder, and in words what cannot."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from hrac import api
from hrac import config as configs
from hrac.config import Config
from hrac.errors import HracError
from hrac.folder import files, log
from hrac.folder.files import CONFIG, METRICS, POLICIES
from hrac.folder.log import Row, Salvaged, Timing
from hrac.folder.opening import RunFolderError
from hrac.folder.reading import MOST_CONFIG_BYTES, read_config
from hrac.training.policies import Policy

Read = TypeVar("Read")


class Run(NamedTuple):
    """A run folder or a policy file, as far as it can be read."""

    path: Path
    config: Config | None
    about: dict[str, Any]
    """The rest of `config.json`: versions, device, commit."""
    rows: Sequence[Row]
    timing: Sequence[Timing]
    problems: tuple[str, ...]
    """What is missing or damaged, a sentence each."""

    @property
    def has_policies(self) -> bool:
        """Whether episodes can be played."""
        return self.path.is_file() or (self.path / POLICIES).is_dir()

    @property
    def is_packaged(self) -> bool:
        """Whether it is a policy of the package."""
        return self.path.parent == api.PRETRAINED

    @property
    def place(self) -> str:
        """Where it is: its path, or the name of a policy of the package."""
        return f"{self.path.stem} from the package" if self.is_packaged else str(self.path)


def read(source: str | Path) -> Run:
    """A run folder, a policy file, or the policy of this name in the package. Raises `RunFolderError` if it is none of them."""
    path = Path(source)
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        try:
            path = api.pretrained(str(source))
        except RunFolderError:
            raise RunFolderError(f"{source} does not exist: name run folders, policy files or trained policies") from None
    policy = api.load(path)
    return Run(path, configs.replace(policy.config, {"seeds": (policy.seed,)}), {}, (), (), ())


def _folder(folder: Path) -> Run:
    if not any((folder / name).exists() for name in (CONFIG, METRICS, POLICIES)):
        raise RunFolderError(f"{folder} is no run folder: it has no {CONFIG}, no {METRICS} and no {POLICIES}")
    problems: list[str] = []
    config = _attempt(lambda: read_config(folder), None, problems)
    about: dict[str, Any] = {} if config is None else _about(folder)
    found = _attempt(lambda: log.salvage(folder), Salvaged([], None), problems)
    if found.damage is not None:
        problems.append(found.damage)
    elif not found.rows and (folder / METRICS).exists():
        problems.append(f"{folder / METRICS} has no numbers yet")
    timing: Sequence[Timing] = _attempt(lambda: log.read_timing(folder), [], problems)
    return Run(folder, config, about, found.rows, timing, tuple(problems))


def _about(folder: Path) -> dict[str, Any]:
    """What a readable `config.json` says besides the configuration."""
    about = json.loads(files.read(folder / CONFIG, MOST_CONFIG_BYTES))
    return {name: value for name, value in about.items() if name != "config"}


def policies(run: Run, most: int, best: bool = False) -> tuple[list[Policy], list[str]]:
    """The newest or best policies of a run's first seeds, and why others cannot be loaded."""
    if run.path.is_file():
        return [api.load(run.path)], []
    if run.config is None or not run.has_policies:
        return [], []
    found: list[Policy] = []
    problems: list[str] = []
    for seed in run.config.seeds[:most]:
        policy = _attempt(lambda seed=seed: api.load(run.path, seed, best=best), None, problems)  # type: ignore[misc]
        found += [] if policy is None else [policy]
    return found, problems


def _attempt(reading: Callable[[], Read], otherwise: Read, problems: list[str]) -> Read:
    """What a function reads, or something else and a sentence about why not."""
    try:
        return reading()
    except HracError as error:
        problems.append(str(error))
        return otherwise
