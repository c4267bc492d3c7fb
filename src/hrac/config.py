"""Everything needed to repeat a training, in one frozen dataclass. Impossible combinations raise here.

>>> replace(Config(), {"manager.eta": 5.0}).manager.eta
5.0
"""

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from hrac.errors import HracError
from hrac.settings import A2C, STRICT, TD3, AdjacencyConfig, ControllerConfig, EnvConfig, ManagerConfig, TrainingConfig


class ConfigError(HracError, ValueError):
    """A configuration that cannot be run; the message names each field and what is allowed."""


MOST_SEEDS = 10_000
SEED_LIMIT = 2**31


@dataclass(frozen=True, config=STRICT)
class Config:
    """Everything needed to repeat a training."""

    task: str = "maze"
    """A name from `hrac list`."""

    method: str = "hrac"
    """A name from `hrac list`."""

    seeds: Annotated[tuple[Annotated[int, Field(ge=0, lt=SEED_LIMIT)], ...], Field(max_length=MOST_SEEDS)] = (0,)
    """One run per seed, all trained together."""

    k: Annotated[int, Field(ge=2, le=1000)] = 10
    """Steps between subgoals (Table 1: high-level action frequency)."""

    env: EnvConfig = Field(default_factory=EnvConfig)
    manager: ManagerConfig = Field(default_factory=ManagerConfig)
    controller: Annotated[ControllerConfig, Field(discriminator="learner")] = Field(default_factory=A2C)
    adjacency: AdjacencyConfig = Field(default_factory=AdjacencyConfig)
    training: TrainingConfig = Field(default_factory=TrainingConfig)

    removed: tuple[tuple[str, bool | int | float], ...] = ()
    """Settings of `REMOVED` that a stored run was made with. Such a run can be looked at, but not repeated."""

    def __post_init__(self) -> None:
        train, start = self.training, self.first_env_steps
        _require(len(self.seeds) > 0, "seeds", "at least one number")
        _require(len(set(self.seeds)) == len(self.seeds), "seeds", f"all different, got {self.seeds}")
        self._check_round()
        _require(
            train.total_env_steps > start,
            "training.total_env_steps (short: steps)",
            f"more than adjacency.pretrain_env_steps = {start}, which are counted, got {train.total_env_steps}",
        )
        _require(
            self.manager.batch_size <= self.manager.start_windows,
            "manager.batch_size",
            "at most manager.start_fraction * manager.buffer_windows, so that a first minibatch exists, "
            f"got {self.manager.batch_size}",
        )
        if self.manager.subgoals == "absolute":
            _require(self.manager.subgoal_range is None, "manager.subgoal_range", "None where manager.subgoals are absolute")
        self._check_without_manager()
        if self.manager.correction_candidates > 0:
            allowed = f'0 unless manager.subgoals are "relative", got {self.manager.correction_candidates}'
            _require(self.manager.subgoals == "relative", "manager.correction_candidates", allowed)
        if (penalty := self.manager.non_adjacent_penalty) > 0:
            allowed = f'0 where adjacency.source is "none", because nothing judges then, got {penalty:g}'
            _require(self.adjacency.source != "none", "manager.non_adjacent_penalty", allowed)
        if (pull := self.manager.way_pull) > 0:
            allowed = f'0 unless adjacency.source is "table" or "oracle", which ways lead over, got {pull:g}'
            _require(self.adjacency.source in ("table", "oracle"), "manager.way_pull", allowed)

        if self.manager.search_candidates > 0:
            allowed = f"more than 0 where manager.search_candidates is, got {self.manager.noise_sigma}"
            _require(np.min(self.manager.noise_sigma) > 0, "manager.noise_sigma", allowed)

    def _check_without_manager(self) -> None:
        """Without a manager there is nobody whose subgoals could be constrained or corrected."""
        kind = self.manager.subgoals
        if not self.manager.learns:
            allowed = f"'none' where manager.subgoals are {kind!r}, got {self.adjacency.source!r}"
            _require(self.adjacency.source == "none", "adjacency.source", allowed)
        if kind == "none":
            given = self.controller.intrinsic_reward
            allowed = f"'environment' where manager.subgoals are 'none', got {given!r}"
            _require(given == "environment", "controller.intrinsic_reward", allowed)
            share = self.controller.hindsight
            _require(share == 0, "controller.hindsight", f"0 where manager.subgoals are 'none', got {share:g}")

    @property
    def controller_updates(self) -> float:
        """Gradient steps of a TD3 controller per round."""
        per_step = self.controller.updates_per_env_step if isinstance(self.controller, TD3) else 1.0
        return self.training.round_env_steps * per_step

    @property
    def manager_updates(self) -> int:
        """Gradient steps of the manager per round."""
        return round(self.controller_updates / self.k) * self.manager.updates_per_window

    @property
    def first_env_steps(self) -> int:
        """Steps of random behaviour before anything is learned."""
        return self.adjacency.pretrain_env_steps if self.adjacency.source in ("table", "trajectories") else 0

    @property
    def learning_env_steps(self) -> int:
        """The step at which learning starts, if no window is cut short by the end of an episode; a little sooner otherwise."""
        return self.first_env_steps + self.manager.start_windows * self.k

    def _check_round(self) -> None:
        """All copies make the same number of steps, and the manager a whole number of updates."""
        copies, steps = self.training.envs_per_run, self.training.round_env_steps
        both = math.lcm(self.k, copies)
        near = max(round(steps / both), 1) * both
        allowed = f"a multiple of training.envs_per_run = {copies}, got {steps} (near: {near})"
        _require(steps % copies == 0, "training.round_env_steps", allowed)
        updates = self.controller_updates / self.k
        whole = updates > 0.5 and abs(updates - round(updates)) < 1e-6
        if isinstance(self.controller, TD3):
            allowed = f"such that a round of {steps} steps has a whole number of manager updates, 1/k as many"
            given = f"got {self.controller.updates_per_env_step}, which gives {updates:g}"
            _require(whole, "controller.updates_per_env_step", f"{allowed}, {given}")
        _require(whole, "training.round_env_steps", f"a multiple of k = {self.k}, got {steps} (near: {near})")


RATES = (
    "manager.actor_learning_rate",
    "manager.critic_learning_rate",
    "controller.learning_rate",
    "controller.critic_learning_rate",
)
"""What may be changed when a run is resumed, so that a run that diverged need not diverge again."""

RESUMABLE = (*RATES, "training.total_env_steps", "training.env_threads")
"""Where a resumed run may differ from its checkpoint."""


def seed_range(count: int, first: int = 0) -> list[int]:
    """Consecutive seeds; raises `ConfigError`."""
    if not 1 <= count <= MOST_SEEDS:
        raise ConfigError(f"seeds must be from 1 to {MOST_SEEDS:,} runs, got {count:,}")
    if not 0 <= first <= SEED_LIMIT - count:
        raise ConfigError(f"first_seed must be from 0 to {SEED_LIMIT - count:,}, got {first:,}")
    return list(range(first, first + count))


def _require(holds: bool, field: str, allowed: str) -> None:
    if not holds:
        raise ValueError(f"{field} must be {allowed}")


def replace(config: Config, changes: dict[str, Any]) -> Config:
    """A copy with dotted fields changed, checked again. If the learner changes, its fields have their defaults."""
    learner = changes.get("controller.learner", config.controller.learner)
    if learner != config.controller.learner and learner in LEARNERS:
        config = dataclasses.replace(config, controller=LEARNERS[learner]())
    tree = _tree(config)
    for name, value in changes.items():
        *groups, leaf = name.split(".")
        node = tree
        for group in groups:
            node = node.get(group, {}) if isinstance(node, dict) else {}
        if not isinstance(node, dict) or leaf not in node:
            raise ConfigError(f"{name}: no such field. Fields are: {', '.join(field_names(config))}")
        node[leaf] = value
    return from_dict(to_dict(config) | tree)


LEARNERS = {"a2c": A2C, "td3": TD3}


def differences(first: Config, second: Config) -> list[str]:
    """The dotted names of the fields in which two configurations differ."""
    names = dict.fromkeys([*field_names(first), *field_names(second)])
    return [name for name in names if value_of(first, name) != value_of(second, name)]


def value_of(config: Config, name: str) -> Any:
    """The value of a dotted field; None if there is no such field."""
    if name in REMOVED:
        return dict(config.removed).get(name, REMOVED[name])
    node: Any = config
    for part in name.split("."):
        node = getattr(node, part, None)
    return node


def field_names(config: Config | None = None) -> list[str]:
    """All dotted field names of a configuration, in order, with those of removed settings that it has.

    >>> field_names()[:3]
    ['task', 'method', 'seeds']
    """
    config = config or Config()
    present = [
        f"{name}.{leaf}" if isinstance(value, dict) else name
        for name, value in _tree(config).items()
        for leaf in (value if isinstance(value, dict) else [name])
    ]
    return present + [name for name, _ in config.removed]


def _tree(config: Config) -> dict[str, Any]:
    """The settings in nested dictionaries."""
    tree = dataclasses.asdict(config)
    del tree["removed"]
    return tree


def _one_type_per_learner(tree: dict[str, Any]) -> dict[str, Any]:
    """Version 2: the controller has the fields of its learner only. The first files name none: A2C was the only one."""
    given = tree.get("controller", {})
    controller = {"learner": "a2c"} | given if isinstance(given, dict) else {}
    if controller.get("learner") not in LEARNERS:
        return tree
    unused = set(dataclasses.asdict(TD3())) ^ set(dataclasses.asdict(A2C()))
    kept = set(dataclasses.asdict(LEARNERS[controller["learner"]]()))
    ours = {name: value for name, value in controller.items() if name in kept or name not in unused}
    return tree | {"controller": ours}


def _search_within_the_hinge(tree: dict[str, Any]) -> dict[str, Any]:
    """Version 3: a search looks within the hinge only. Before, it did so where `manager.search_adjacent` said it."""
    manager = tree.get("manager", {})
    if not isinstance(manager, dict):
        return tree
    limited = manager.get("search_adjacent", False) or manager.get("search_candidates", 0) == 0
    return tree | {"manager": manager | {"search_adjacent": limited}}


MIGRATIONS: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = (_one_type_per_learner, _search_within_the_hinge)
"""How files of older versions are read: the first entry turns version 1 into version 2, and so on. A field that is renamed or
changes its meaning needs one, otherwise saved runs and policies cannot be loaded. One that is removed is in `REMOVED`."""

REMOVED: dict[str, bool | int | float] = {
    "adjacency.unexplored": 0.0,
    "manager.scale_env_steps": 0,
    "manager.search_adjacent": True,
    "controller.fallen_penalty": 0.0,
    "controller.output_penalty": 0.0,
    "controller.critic_layer_norm": False,
}
"""Settings of earlier versions with a choice that did not help (docs/departures.md), and the choice that is left."""


def to_dict(config: Config) -> dict[str, Any]:
    """Nested dictionaries of plain values for JSON, with `config_version`."""
    return {"config_version": 1 + len(MIGRATIONS)} | _tree(_repeatable(config))


def from_dict(tree: dict[str, Any]) -> Config:
    """The configuration that `to_dict` returned, in this or an earlier version, checked strictly; raises `ConfigError`."""
    return _repeatable(recorded(tree))


def _repeatable(config: Config) -> Config:
    """The same, if this version has all of its settings; raises `ConfigError`."""
    if config.removed:
        settings = ", ".join(f"{name} = {value}" for name, value in config.removed)
        raise ConfigError(f"this run was made with {settings}, which this version of hrac does not have")
    return config


def recorded(tree: dict[str, Any]) -> Config:
    """The same, to look at what was run: `removed` has the settings that this version does not have."""
    try:
        return _CONFIG.validate_json(json.dumps(_migrated(tree), default=_plain))
    except ValidationError as error:
        raise ConfigError(explain(error)) from None


def _migrated(tree: dict[str, Any]) -> dict[str, Any]:
    """The same in the form of the present version."""
    if not isinstance(tree, dict):
        raise ConfigError(f"a configuration has fields, got {tree!r:.80}")
    tree, newest = dict(tree), 1 + len(MIGRATIONS)
    version = tree.pop("config_version", 1)  # the first files had none
    if type(version) is not int or not 1 <= version <= newest:
        raise ConfigError(f"config_version is {version!r}, this program knows versions up to {newest}: a newer one is needed")
    for migrate in MIGRATIONS[version - 1 :]:
        tree = migrate(tree)
    return _without_removed(tree)


def _without_removed(tree: dict[str, Any]) -> dict[str, Any]:
    """The same without the settings of `REMOVED`; those with another choice than the one left are under `removed`."""
    tree, removed = {name: dict(value) if isinstance(value, dict) else value for name, value in tree.items()}, []
    tree.pop("preset", None)  # a name for settings that are all in the tree
    for name, left in REMOVED.items():
        group, leaf = name.split(".")
        if isinstance(tree.get(group), dict) and (value := tree[group].pop(leaf, left)) != left:
            removed.append((name, value))
    return tree | ({"removed": removed} if removed else {})


_CONFIG = TypeAdapter(Config)


def _plain(value: Any) -> Any:
    """Ranges, NumPy numbers and arrays as plain values; anything else as its text, which no field accepts."""
    if isinstance(value, range):
        return list(value)
    return value.tolist() if hasattr(value, "tolist") else repr(value)


def explain(error: ValidationError, group: str = "") -> str:
    """One line per problem: the field's dotted name, what is allowed, what was given. `group`: what the fields belong to."""
    problems = error.errors(include_url=False)
    fields = [_dotted(group, problem["loc"]) for problem in problems]
    lines = []
    for field, problem in zip(fields, problems, strict=True):
        if any(other.startswith(f"{field}.") for other in fields):  # its parts say more
            continue
        message = problem["msg"].removeprefix("Value error, ")
        given = "" if isinstance(problem["input"], dict | Config) else f" (got {_shortened(problem['input'])})"
        lines.append(f"{field}: {message}{given}" if field else message)
    return "\n".join(lines)


def _dotted(group: str, place: tuple[int | str, ...]) -> str:
    return ".".join([group] * bool(group) + [str(part) for part in place if part not in LEARNERS])  # a union's member is named


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]} ..."


def parse(content: bytes, path: Path) -> Config:
    """The configuration in a run folder's `config.json`; `path` is for messages. Raises `ConfigError`."""
    try:
        return recorded(json.loads(content)["config"])
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"{path} is not a readable configuration: {type(error).__name__}: {error}") from None
