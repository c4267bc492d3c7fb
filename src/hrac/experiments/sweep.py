"""Sweeps: lists of trainings, by name (the paper's figures among them) or as a product of tasks, methods and settings."""

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hrac import config as configs
from hrac.config import Config, ConfigError
from hrac.experiments import references, tasks

MOST_CELLS = 10_000
MOST_NAME = 100
"""Characters of a folder's name."""


class Product(NamedTuple):
    """All combinations of tasks, methods and values of settings."""

    tasks: tuple[str, ...]
    methods: tuple[str, ...] = ("hrac",)
    vary: Mapping[str, Sequence[Any]] = {}
    """Dotted settings and the values that each takes."""


class Experiment(NamedTuple):
    """A sweep with a name of its own."""

    summary: str
    products: tuple[Product, ...]
    seeds: int = 5


class Cell(NamedTuple):
    """One training: a configuration with all of its seeds, and the run folder that belongs to it."""

    folder: Path
    config: Config
    settings: dict[str, Any]
    """Those that vary in its sweep."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name


GRIDS = ("maze", "key-chest")
MAZES = ("ant-maze", "ant-maze-sparse")
ANTS = ("ant-gather", *MAZES)
COMPARED = ("hrac", "hiro", "hrl-her", "vanilla", "flat")
ABLATED = ("hrac", "hrac-o", "no-adj", "neg-reward")
SIGMAS = (0.01, 0.05, 0.1)
PARTS: tuple[Mapping[str, tuple[Any, ...]], ...] = (
    {"manager.eta": (2.0,)},
    {"manager.updates_per_window": (1,)},
    {"manager.critic_weight_decay": (1e-4,)},
    {"manager.value_scale": ("plain",), "manager.eta": (20.0,)},
    {"controller.action_share": (1.0,)},
)
"""Parts of `hrac-plus` on both of `MAZES`: each set back, the first to its earlier value, the others to that of `hrac`."""

EXPERIMENTS = {
    "grid-methods": Experiment(
        "Figure 6, grid worlds: HRAC, the paper's baselines and flat agents", (Product(GRIDS, COMPARED),), 20
    ),
    "ant-methods": Experiment(
        "Figure 6, ants: HRAC, the paper's baselines and flat agents (with hindsight where the task shows its target)",
        (Product(ANTS, (*COMPARED, "hiro-b")), Product(("ant-maze",), ("flat-her",))),
    ),
    "grid-ablations": Experiment("Figure 7, grid worlds: HRAC and its variants", (Product(GRIDS, ABLATED),), 20),
    "ant-ablations": Experiment("Figure 7, ants: HRAC and its variants", (Product(ANTS, ABLATED),)),
    "eta": Experiment(
        "Figure 8: balancing coefficients 1, 5, 10 and 20 on the grid worlds",
        (Product(GRIDS, vary={"manager.eta": (1.0, 5.0, 10.0, 20.0)}),),
        20,
    ),
    "stochastic-ants": Experiment(
        "Figure 10: HRAC on ants with noise of 0.01, 0.05 and 0.1, HIRO with the most",
        (Product(ANTS, vary={"env.sigma": SIGMAS}), Product(ANTS, ("hiro",), {"env.sigma": SIGMAS[-1:]})),
    ),
    "plus-ablations": Experiment(
        "HRAC-plus on the mazes of ants, whole and less each of its parts (no figure of the paper)",
        (
            *(Product(MAZES, ("hrac-plus",), part) for part in ({}, *PARTS)),
            Product(("ant-maze",), ("hrac-plus",), {"manager.hindsight": (0.0,)}),
        ),
    ),
}
"""By name. The numbers of figures are the paper's."""


def find(name: str | None) -> Experiment:
    """The experiment of a name; raises `ConfigError`."""
    known = ", ".join(EXPERIMENTS)
    if name is None:
        raise ConfigError(f"name an experiment ({known}), or the tasks of a sweep of your own")
    if name not in EXPERIMENTS:
        raise ConfigError(f"there is no experiment {name!r}. Experiments are: {known}. For a sweep of your own, name its tasks")
    return EXPERIMENTS[name]


def narrowed(products: Sequence[Product], chosen_tasks: Sequence[str], chosen_methods: Sequence[str]) -> tuple[Product, ...]:
    """The part of an experiment with these tasks and methods; an empty choice keeps all. Raises `ConfigError`."""
    for option, chosen, known in (
        ("tasks", chosen_tasks, {task for product in products for task in product.tasks}),
        ("methods", chosen_methods, {method for product in products for method in product.methods}),
    ):
        if foreign := [name for name in chosen if name not in known]:
            raise ConfigError(f"{option}: the experiment has no {foreign[0]!r}. It has: {', '.join(sorted(known))}")
    kept = tuple(
        Product(
            tuple(name for name in product.tasks if not chosen_tasks or name in chosen_tasks),
            tuple(name for name in product.methods if not chosen_methods or name in chosen_methods),
            product.vary,
        )
        for product in products
    )
    if not (kept := tuple(product for product in kept if product.tasks and product.methods)):
        raise ConfigError("the experiment has no cell with these tasks and methods")
    return kept


def expand(products: Sequence[Product], common: Mapping[str, Any], out: Path) -> list[Cell]:
    """The cells of a sweep, in order, with folders below `out`; all are checked. Raises `ConfigError`.

    `common` are dotted settings of all cells, `seeds` among them. A folder is named after the task, the method and the settings
    that vary.

    >>> cells = expand([Product(("maze",), vary={"manager.eta": (5, 20)})], {"k": 5}, Path("runs"))
    >>> [str(cell.folder) for cell in cells]
    ['runs/maze-hrac-eta-5', 'runs/maze-hrac-eta-20']
    """
    points = list(itertools.islice(_points(products), MOST_CELLS + 1))
    if len(points) > MOST_CELLS:
        raise ConfigError(f"a sweep may have {MOST_CELLS:,} cells, this one has more")
    cells = [_cell(task, method, settings, common, out) for task, method, settings in points]
    if twice := [folder for folder, count in Counter(cell.folder for cell in cells).items() if count > 1]:
        raise ConfigError(f"the sweep has two cells for {twice[0]}: each task, method and value may be named once")
    return cells


def _points(products: Sequence[Product]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for product in products:
        for task, method, *values in itertools.product(product.tasks, product.methods, *product.vary.values()):
            yield task, method, dict(zip(product.vary, values, strict=True))


def _cell(task: str, method: str, settings: Mapping[str, Any], common: Mapping[str, Any], out: Path) -> Cell:
    """A cell whose environment can be made."""
    if both := [name for name in common if name in settings]:
        raise ConfigError(f"{both[0]}: given twice, once for all cells and once with values to vary")
    if task in tasks.TASKS and task not in tasks.BUILT_IN_NAMES:
        raise ConfigError(f"task: {task!r} is known in this process only, but cells are trained in others")
    references.trust(task)
    config = tasks.resolve(configs.replace(tasks.config_for(task, method), dict(common) | dict(settings)))
    tasks.make_env(config)
    checked = {name: configs.value_of(config, name) for name in settings}
    return Cell(out / _folder_name(config, checked), config, checked)


def _folder_name(config: Config, settings: Mapping[str, Any]) -> str:
    """Task, method and settings. A long or odd value is replaced by the start of its digest."""
    task = references.folder_name(config.task)
    parts = [task, config.method]
    for name, value in settings.items():
        text = str(value).removesuffix(".0")
        plain = re.fullmatch(r"[A-Za-z0-9.+-]{1,24}", text)
        parts += [name.rpartition(".")[2].replace("_", "-"), text if plain else _digest(text)]
    name = "-".join(parts)
    return name if len(name) <= MOST_NAME else f"{task}-{config.method}-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def parse_vary(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Settings and their values from texts like `manager.eta=1,5`; raises `ConfigError`.

    >>> parse_vary(["manager.eta=1,5", "manager.hidden=[16,16],[32]", "manager.subgoals=absolute"])
    {'manager.eta': [1, 5], 'manager.hidden': [[16, 16], [32]], 'manager.subgoals': ['absolute']}
    """
    vary: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals:
            raise ConfigError(f"--set wants FIELD=VALUE or FIELD=VALUE,VALUE, got {text!r} (a name comes before --set)")
        if name in ("task", "method"):
            raise ConfigError(f"--set {name}: a {name} is chosen by its own argument")
        if name in vary:
            raise ConfigError(f"--set names {name} twice: give all its values at once, as in {name}=1,2")
        vary[name] = _values(values)
        if not vary[name]:
            raise ConfigError(f"--set {name}: no value after the =")
    return vary


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Settings with one value each, from texts like `manager.eta=1`; raises `ConfigError`.

    >>> parse_settings(["manager.eta=1", "manager.hidden=[16,16]"])
    {'manager.eta': 1, 'manager.hidden': [16, 16]}
    """
    vary = parse_vary(texts)
    if several := [name for name, values in vary.items() if len(values) > 1]:
        raise ConfigError(f"--set {several[0]}: one value is wanted, got {len(vary[several[0]])}")
    return {name: values[0] for name, values in vary.items()}


def _values(text: str) -> list[Any]:
    """Values between commas: as JSON if all of it is JSON, else each by itself, as JSON or as plain text."""
    try:
        return json.loads(f"[{text}]")
    except ValueError:
        return [_json_or_text(part) for part in text.split(",")]


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
