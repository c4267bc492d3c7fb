"""Everything needed to repeat a training, in one frozen dataclass; impossible combinations raise here.

>>> replace(Config(), {"manager.eta": 5.0}).manager.eta
5.0
"""

import dataclasses
import functools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from hrac.errors import HracError
from hrac.settings import STRICT, AdjacencyConfig, ControllerConfig, EnvConfig, ManagerConfig, TrainingConfig


class ConfigError(HracError, ValueError):
    """A configuration that cannot be run; the message names each field and what it may be."""


MOST_SEEDS = 10_000
SEED_LIMIT = 2**31


@dataclass(frozen=True, config=STRICT)
class Config:
    """Everything needed to repeat a training."""

    task: str = "maze"
    """A name from `hrac list`."""

    method: str = "hrac"
    """A name from `hrac list`."""

    preset: str = "paper"
    """Which of the task's tables of settings this began with; `hrac list` has their names."""

    seeds: Annotated[tuple[Annotated[int, Field(ge=0, lt=SEED_LIMIT)], ...], Field(max_length=MOST_SEEDS)] = (0,)
    """One run for each, all trained at once."""

    k: Annotated[int, Field(ge=2, le=1000)] = 10
    """Steps between subgoals (Table 1: high-level action frequency)."""

    env: EnvConfig = Field(default_factory=EnvConfig)
    manager: ManagerConfig = Field(default_factory=ManagerConfig)
    controller: ControllerConfig = Field(default_factory=ControllerConfig)
    adjacency: AdjacencyConfig = Field(default_factory=AdjacencyConfig)
    training: TrainingConfig = Field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        train, start = self.training, self.adjacency.pretrain_env_steps
        _require(len(self.seeds) > 0, "seeds", "at least one number")
        _require(len(set(self.seeds)) == len(self.seeds), "seeds", f"all different, got {self.seeds}")
        self._check_round()
        _require(
            train.total_env_steps > start,
            "training.total_env_steps",
            f"more than adjacency.pretrain_env_steps = {start}, which are counted, got {train.total_env_steps}",
        )
        _require(
            self.manager.batch_size <= self.manager.start_windows,
            "manager.batch_size",
            "at most manager.start_fraction * manager.buffer_windows, so that a first minibatch exists, "
            f"got {self.manager.batch_size}",
        )
        _require(
            self.manager.buffer_windows >= train.round_env_steps,
            "manager.buffer_windows",
            f"at least training.round_env_steps = {train.round_env_steps}, got {self.manager.buffer_windows}",
        )
        self._check_unused()
        if self.manager.subgoals == "absolute":
            _require(self.manager.subgoal_range is None, "manager.subgoal_range", "None where manager.subgoals are absolute")
        if self.controller.learner == "td3":
            self._check_td3()
            return
        updates, every = train.round_env_steps // self.k, self.manager.value_every_gradient_steps
        _require(
            updates % every == 0,
            "manager.value_every_gradient_steps",
            f"a divisor of the {updates} manager updates of a round (training.round_env_steps / k), got {every}",
        )

    def _check_round(self) -> None:
        """All copies make as many steps, with A2C whole windows; of TD3's windows a round may have parts."""
        copies, steps = self.training.envs_per_run, self.training.round_env_steps
        whole_windows = self.controller.learner == "a2c"
        chunk = self.k * copies if whole_windows else copies
        name = "k * training.envs_per_run" if whole_windows else "training.envs_per_run"
        both = math.lcm(self.k, chunk)
        near = max(round(steps / both), 1) * both
        _require(steps % chunk == 0, "training.round_env_steps", f"a multiple of {name} = {chunk}, got {steps} (near: {near})")

    def _check_unused(self) -> None:
        """What the controller's learner has no use for must have the value that stands for that."""
        for name, plain in USELESS[self.controller.learner].items():
            group, field = name.split(".")
            value = getattr(getattr(self, group), field)
            _require(value == plain, name, f'{plain!r} where controller.learner is "{self.controller.learner}", got {value!r}')

    def _check_td3(self) -> None:
        """What both levels by TD3 need."""
        updates = self.training.round_env_steps * self.controller.updates_per_env_step / self.k
        _require(
            updates > 0.5 and abs(updates - round(updates)) < 1e-6,
            "controller.updates_per_env_step",
            f"such that a round of {self.training.round_env_steps} steps has a whole number of manager updates, 1/k as many, "
            f"got {self.controller.updates_per_env_step}, which gives {updates:g}",
        )
        steps, round_steps = self.controller.buffer_steps, self.training.round_env_steps
        _require(
            steps >= round_steps, "controller.buffer_steps", f"at least training.round_env_steps = {round_steps}, got {steps}"
        )


TD3_ONLY = (
    "critic_learning_rate",
    "buffer_steps",
    "batch_size",
    "soft_update_rate",
    "noise_sigma",
    "target_noise_sigma",
    "target_noise_clip",
    "critic_weight_decay",
    "ends_with_window",
    "updates_per_env_step",
)
"""Fields of the controller that A2C has no use for."""

USELESS: dict[str, dict[str, Any]] = {
    "a2c": {
        "manager.correction_candidates": 0,
        "controller.sees_position": True,
        "controller.intrinsic_reward": "reached",
        "training.overlap": False,
        "training.env_threads": None,
    }
    | {f"controller.{name}": getattr(ControllerConfig(), name) for name in TD3_ONLY},
    "td3": {
        "manager.subgoals": "relative",
        "manager.candidates": 1,
        "manager.value_every_gradient_steps": 1,
        "controller.subgoals_shown_as": "given",
        "controller.intrinsic_reward": "distance",
        "controller.reach_radius": ControllerConfig().reach_radius,
        "controller.entropy_weight": ControllerConfig().entropy_weight,
    },
}
"""By the controller's learner: the only values that fields may have which it makes nothing of, or nothing else of."""


RATES = (
    "manager.actor_learning_rate",
    "manager.critic_learning_rate",
    "controller.learning_rate",
    "controller.critic_learning_rate",
)
"""What may be changed when a run goes on, so that one that diverged need not diverge again."""

RESUMABLE = (*RATES, "training.total_env_steps", "training.env_threads")
"""Where a run that goes on may differ from its checkpoint."""


def seed_range(count: int, first: int = 0) -> list[int]:
    """Seeds that follow one another; raises `ConfigError`."""
    if not 1 <= count <= MOST_SEEDS:
        raise ConfigError(f"seeds must be from 1 to {MOST_SEEDS:,} runs, got {count:,}")
    if not 0 <= first <= SEED_LIMIT - count:
        raise ConfigError(f"first_seed must be from 0 to {SEED_LIMIT - count:,}, got {first:,}")
    return list(range(first, first + count))


def _require(holds: bool, field: str, allowed: str) -> None:
    if not holds:
        raise ValueError(f"{field} must be {allowed}")


def replace(config: Config, changes: dict[str, Any]) -> Config:
    """A copy with dotted fields changed, checked again."""
    tree = dataclasses.asdict(config)
    for name, value in changes.items():
        *groups, leaf = name.split(".")
        node = tree
        for group in groups:
            node = node.get(group, {}) if isinstance(node, dict) else {}
        if not isinstance(node, dict) or leaf not in node:
            raise ConfigError(f"{name}: no such field. Fields are: {', '.join(field_names())}")
        node[leaf] = value
    return from_dict(to_dict(config) | tree)


def differences(one: Config, other: Config) -> list[str]:
    """The dotted names of the fields in which two configurations differ."""
    return [name for name in field_names() if value_of(one, name) != value_of(other, name)]


def value_of(config: Config, name: str) -> Any:
    """The value of a dotted field."""
    return functools.reduce(getattr, name.split("."), config)


def field_names() -> list[str]:
    """All dotted field names, in order.

    >>> field_names()[:3]
    ['task', 'method', 'preset']
    """
    tree = dataclasses.asdict(Config())
    return [
        f"{name}.{leaf}" if isinstance(value, dict) else name
        for name, value in tree.items()
        for leaf in (value if isinstance(value, dict) else [name])
    ]


MIGRATIONS: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = ()
"""How files of older versions are read: the first makes version 2 of version 1, and so on. A field that is renamed, or that
means something else, needs one, or saved runs and policies cannot be loaded any more."""


def to_dict(config: Config) -> dict[str, Any]:
    """Nested dictionaries of plain values, for JSON, with the version of their form."""
    return {"config_version": 1 + len(MIGRATIONS)} | dataclasses.asdict(config)


def from_dict(tree: dict[str, Any]) -> Config:
    """The configuration that `to_dict` gave, now or in an earlier version, checked strictly; raises `ConfigError`."""
    try:
        return _CONFIG.validate_json(json.dumps(_migrated(tree), default=_plain))
    except ValidationError as error:
        raise ConfigError(explain(error)) from None


def _migrated(tree: dict[str, Any]) -> dict[str, Any]:
    """In the form of the present version."""
    if not isinstance(tree, dict):
        raise ConfigError(f"a configuration has fields, got {tree!r:.80}")
    tree, newest = dict(tree), 1 + len(MIGRATIONS)
    version = tree.pop("config_version", 1)  # the first files had none
    if type(version) is not int or not 1 <= version <= newest:
        raise ConfigError(f"config_version is {version!r}, this program knows versions up to {newest}: a newer one is needed")
    for migrate in MIGRATIONS[version - 1 :]:
        tree = migrate(tree)
    return tree


_CONFIG = TypeAdapter(Config)


def _plain(value: Any) -> Any:
    """Ranges, NumPy numbers and arrays as JSON knows them; anything else as its text, which no field accepts."""
    if isinstance(value, range):
        return list(value)
    return value.tolist() if hasattr(value, "tolist") else repr(value)


def explain(error: ValidationError) -> str:
    """One line per problem: the field's dotted name, what it may be, what was given."""
    lines = []
    for problem in error.errors(include_url=False):
        field = ".".join(str(part) for part in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        given = "" if isinstance(problem["input"], dict | Config) else f" (got {_shortened(problem['input'])})"
        lines.append(f"{field}: {message}{given}" if field else message)
    return "\n".join(lines)


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]} ..."


def parse(content: bytes, path: Path) -> Config:
    """The configuration in a run folder's `config.json`, whose path is for messages; raises `ConfigError`."""
    try:
        return from_dict(json.loads(content)["config"])
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"{path} is not a readable configuration: {type(error).__name__}: {error}") from None
