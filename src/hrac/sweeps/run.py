"""Runs a sweep: what `hrac.sweep` and `hrac sweep` do."""

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hrac import config as configs
from hrac.config import ConfigError
from hrac.experiments import sweep as sweeps
from hrac.experiments.sweep import Cell, Product
from hrac.folder.files import naming
from hrac.sweeps import board as boards
from hrac.sweeps import cluster, local
from hrac.sweeps.board import Board, CellOutcome, Face
from hrac.training.stop import interruptible

FOLDER = Path("runs") / "sweeps"
SEEDS = 5
"""Of a cell, as in the paper."""
ENGINES = ("local", "ray")


def plan(
    name: str | None = None,
    *,
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    vary: Mapping[str, Sequence[Any]] | None = None,
    seeds: int | Sequence[int] | None = None,
    first_seed: int = 0,
    steps: int | None = None,
    out: str | Path | None = None,
    **settings: Any,
) -> list[Cell]:
    """The cells of a sweep: of an experiment of that name, or of a product if the name is a new one. Raises `ConfigError`."""
    given = {field: _values(field, values) for field, values in (vary or {}).items()}
    given |= {field.replace("__", "."): (value,) for field, value in settings.items()}
    if name in sweeps.EXPERIMENTS or not tasks:
        experiment = sweeps.find(name)
        products, usual = sweeps.narrowed(experiment.products, tasks, methods), experiment.seeds
    else:
        products, usual = (Product(tuple(tasks), tuple(methods) or ("hrac",)),), SEEDS
    varied = {field for product in products for field in product.vary} | {field for field in given if len(given[field]) > 1}
    several = {field: values for field, values in given.items() if field in varied}
    products = tuple(product._replace(vary=dict(product.vary) | several) for product in products)
    common: dict[str, Any] = {field: value for field, (value, *_) in given.items() if field not in varied}
    wanted = usual if seeds is None else seeds
    common["seeds"] = configs.seed_range(wanted, first_seed) if isinstance(wanted, int) else list(wanted)
    if steps is not None:
        common["training.total_env_steps"] = steps
    if out is not None and not str(out):
        raise ConfigError("out must name a folder, got an empty name")
    folder = Path(out) if out is not None else FOLDER / (name or "-".join(tasks))
    return sweeps.expand(products, common, folder)


def _values(field: str, values: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable) or not (several := tuple(values)):
        raise ConfigError(f"vary: {field} needs a list of values, got {values!r}")
    return several


def sweep(
    name: str | None = None,
    *,
    jobs: int = 1,
    minutes: float | None = None,
    engine: str = "local",
    address: str | None = None,
    num_cpus: float = 1.0,
    num_gpus: float = 0.0,
    face: Face | None = None,
    **what: Any,
) -> list[CellOutcome]:
    """Train all cells of a sweep that are not finished, and say how far each is.

    `name` is an experiment of `hrac list`, or a new name together with `tasks`, `methods` and `vary`, the settings that take
    several values: `hrac.sweep("mine", tasks=["maze"], vary={"manager.eta": [1.0, 5.0]}, seeds=2, steps=300_000)`. Further
    keywords are settings of all cells, as in `hrac.train`. The same call goes on with a sweep that was stopped.

    The engine "local" trains `jobs` cells at once in processes of this machine. The engine "ray" trains them on the cluster at
    `address`, each with `num_cpus` and `num_gpus`. With `minutes`, all cells stop with checkpoints before that time is over.
    """
    cells = plan(name, **what)
    return run(cells, jobs, minutes, engine, address, num_cpus, num_gpus, face)[0]


def run(
    cells: Sequence[Cell],
    jobs: int = 1,
    minutes: float | None = None,
    engine: str = "local",
    address: str | None = None,
    num_cpus: float = 1.0,
    num_gpus: float = 0.0,
    face: Face | None = None,
) -> tuple[list[CellOutcome], bool]:
    """Train cells. Returns how far they are, and whether a signal asked to stop."""
    begin = _engine(engine, jobs, address, num_cpus, num_gpus)
    if minutes is not None and not 0 < minutes < math.inf:
        raise ConfigError(f"minutes must be a positive number, got {minutes}")
    end = None if minutes is None else time.time() + 60 * minutes
    for folder in {cell.folder.parent for cell in cells}:
        with naming(folder, "made"):
            folder.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(face or boards.face()) as shown, interruptible() as interrupted:
        board = Board(cells, shown)
        late = lambda: end is not None and time.time() > end  # noqa: E731
        begin(cells, board, lambda: interrupted() or late(), end)
        board.refresh()
        return board.outcomes(), interrupted()


def _engine(engine: str, jobs: int, address: str | None, num_cpus: float, num_gpus: float) -> Callable[..., None]:
    """How to train cells; raises `ConfigError` for options that do not go together."""
    if engine not in ENGINES:
        raise ConfigError(f"engine: there is no {engine!r}. Engines are: {', '.join(ENGINES)}")
    if jobs < 1:
        raise ConfigError(f"jobs must be at least 1, got {jobs}")
    if engine == "ray" and jobs != 1:
        raise ConfigError("jobs: Ray runs as many cells at once as its machines have room for; choose num_cpus and num_gpus")
    if engine == "local" and (address is not None or (num_cpus, num_gpus) != (1.0, 0.0)):
        raise ConfigError("address, num_cpus and num_gpus are for the engine 'ray'")
    for option, value in (("num_cpus", num_cpus), ("num_gpus", num_gpus)):
        if not 0 <= value < math.inf:
            raise ConfigError(f"{option} must be at least 0, got {value}")
    if engine == "local":
        return functools.partial(local.run, jobs=jobs)
    return functools.partial(cluster.run, address=address, num_cpus=num_cpus, num_gpus=num_gpus)
