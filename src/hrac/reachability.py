"""The adjacency network by itself: a model of what is within k steps of what, learned from anybody's trajectories.

    model = hrac.reachability.fit(trajectories, k=10, cell_size=0.5)
    model.adjacent(here, there)

No environment, agent or run folder is needed (docs/analyses.md). It stands above `hrac.adjacency`, which knows no files.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from numpy.typing import ArrayLike, NDArray

from hrac import config as configs
from hrac.adjacency import learn, network
from hrac.adjacency.pairs import TablePairs
from hrac.adjacency.sources import Table
from hrac.adjacency.table import AdjacencyTable
from hrac.config import SEED_LIMIT, Config, ConfigError
from hrac.experiments import budget
from hrac.folder import checkpoint
from hrac.runs import over_runs
from hrac.settings import AdjacencyConfig
from hrac.training.policies import MOST_BYTES
from hrac.worlds.streams import Stream, run_keys

KIND = "reachability"
MOST_K = 1000
MOST_CELLS = 2**24
"""Along one coordinate: float32, in which the network sees points, cannot tell more apart."""
SETTINGS = ("hidden", "embedding_dim", "learning_rate", "batch_size", "epsilon", "delta")
"""Further settings of `fit`, fields of `hrac.settings.AdjacencyConfig`."""
PART_PAIRS = 5_000_000
"""Trajectories enter the table in parts of about this many pairs of steps, so that many or long ones need little memory."""
PAIR_BYTES, CELL_BYTES = 64, 400
"""Of the table and of what is listed to draw from it."""
JUDGED_PAIRS = 10_000
"""Pairs of either kind for `Reachability.agreement`."""

Points = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Reachability:
    """A learned model of what is within k steps of what. `fit` and `load` make one."""

    embedding: network.Embedding
    k: int
    cell_size: Points
    """One per coordinate."""
    origin: Points
    """The middle of the trajectories, in cells. The network sees points as cells from there."""
    settings: AdjacencyConfig
    agreement: float
    """Share of pairs of visited cells that are judged as the trajectories show, half of them within k steps and half beyond.
    Guessing gives 0.5."""

    def distance(self, start: ArrayLike, end: ArrayLike) -> NDArray[np.float32]:
        """The learned distance from points to points (..., coordinates), whose leading axes broadcast.

        Below 1 means within k steps. It is a judgement, no number of steps: 2 is not 2 k steps.
        """
        first, second = self._seen("start", start), self._seen("end", end)
        try:
            np.broadcast_shapes(first.shape, second.shape)
        except ValueError:
            shapes = f"got shapes {first.shape} and {second.shape}"
            raise ConfigError(f"start and end must have leading axes that broadcast, {shapes}") from None
        return network.distance(self.embedding, first, second) / np.float32(self.settings.threshold)

    def adjacent(self, start: ArrayLike, end: ArrayLike) -> NDArray[np.bool_]:
        """Whether `end` is within k steps of `start` (or, unless directed, `start` of `end`). Leading axes broadcast."""
        return self.distance(start, end) < 1.0

    def save(self, path: str | Path) -> None:
        """Write the model as one safetensors file, which replaces an old one when it is complete."""
        facts = {
            "k": self.k,
            "cell_size": self.cell_size.tolist(),
            "origin": self.origin.tolist(),
            "settings": dataclasses.asdict(self.settings),
            "agreement": self.agreement,
        }
        checkpoint.save(Path(path), KIND, checkpoint.flatten(self.embedding, "embedding"), facts)

    def __repr__(self) -> str:
        kind = "directed, " if self.settings.directed else ""
        return f"Reachability({kind}k = {self.k}, cell_size = {self.cell_size.tolist()}, agreement {self.agreement:.3f})"

    def _seen(self, name: str, points: ArrayLike) -> NDArray[np.float32]:
        """Points as the network sees them."""
        array, size = _numbers(name, points), len(self.cell_size)
        if array.ndim == 0 or array.shape[-1] != size:
            raise ConfigError(f"{name} must have shape (..., {size}), as the trajectories had, got {array.shape}")
        return (array / self.cell_size - self.origin).astype(np.float32)


def fit(
    trajectories: ArrayLike | Sequence[ArrayLike],
    k: int = 10,
    *,
    cell_size: float | Sequence[float] | NDArray[np.floating] = 1.0,
    directed: bool = False,
    gradient_steps: int = 10_000,
    seed: int = 0,
    **settings: Any,
) -> Reachability:
    """Learn which points are within k steps of one another: a list of arrays (time, coordinates), or one array of episodes.

    Space is divided into cells, `cell_size` wide: a number, or one per coordinate if these have different units. Two cells are
    within k steps if a trajectory was in both at most k steps apart. With `directed` the order of the two counts, for worlds
    where a way back may be longer. Further settings (`SETTINGS`) are those of `hrac.settings.AdjacencyConfig`.
    """
    k, seed = _whole("k", k, 2, MOST_K), _whole("seed", seed, 0, SEED_LIMIT - 1)
    if unknown := [name for name in settings if name not in SETTINGS]:
        raise ConfigError(f"{unknown[0]}: no such setting. Settings are: {', '.join(SETTINGS)}")
    cfg = _checked(settings | {"directed": directed, "max_gradient_steps": gradient_steps})
    episodes = _episodes(trajectories)
    size = _cell_sizes(cell_size, episodes[0].shape[1])
    origin = _middle(episodes, size)
    _require_network_memory(len(size), cfg)
    source = Table(k, len(size), cfg)
    for part in _parts(episodes, k):
        points = np.concatenate(part) / size - origin
        _require_table_memory(source.table, len(points), k)
        source.extend(points, np.repeat(np.arange(len(part)), [len(each) for each in part]))
    _require_two_kinds(source.table)
    embedding = _trained(source, seed, cfg)
    return Reachability(embedding, k, size, origin, cfg, _agreement(embedding, source.pairs(), cfg))


def load(path: str | Path) -> Reachability:
    """The model in a file that `Reachability.save` wrote; raises `CheckpointError`."""
    path = Path(path).resolve()
    arrays, facts = checkpoint.load(path, KIND, MOST_BYTES)
    with checkpoint.understanding(path):
        k, cfg = _whole("k", facts["k"], 2, MOST_K), _checked(facts["settings"])
        size = _cell_sizes(facts["cell_size"], len(facts["cell_size"]))
        if (origin := _numbers("origin", facts["origin"])).shape != size.shape:
            raise ValueError("origin does not fit cell_size")
        agreement = float(_numbers("agreement", facts["agreement"]))
        like = jax.eval_shape(lambda: network.init(jax.random.key(0), len(size), cfg).embedding)
        return Reachability(checkpoint.unflatten(arrays, like, "embedding", path), k, size, origin, cfg, agreement)


# What is given.


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise ConfigError(f"{name} must be a whole number from {least:,} to {most:,}, got {value!r:.80}")
    return int(value)


def _numbers(name: str, value: ArrayLike) -> Points:
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} must be an array of numbers") from None
    if not np.isfinite(array).all():
        raise ConfigError(f"{name} must be finite, got NaN or infinity")
    return array


def _checked(settings: dict[str, Any]) -> AdjacencyConfig:
    try:
        return configs.replace(Config(), {f"adjacency.{name}": value for name, value in settings.items()}).adjacency
    except ConfigError as error:
        words = str(error).replace("adjacency.max_gradient_steps", "gradient_steps").replace("adjacency.", "")
        raise ConfigError("; ".join(words.splitlines())) from None


def _episodes(trajectories: ArrayLike | Sequence[ArrayLike]) -> list[Points]:
    """Each trajectory (time, coordinates)."""
    form = "a list of arrays (time, coordinates) or one array (episodes, time, coordinates)"
    try:
        listed = list(trajectories)  # type: ignore[arg-type]
    except TypeError:
        raise ConfigError(f"trajectories must be {form}, got {type(trajectories).__name__}") from None
    if not listed:
        raise ConfigError(f"trajectories must be {form}, got none")
    episodes = [_numbers(f"trajectories[{index}]", each) for index, each in enumerate(listed)]
    for index, each in enumerate(episodes):
        if each.ndim != 2 or each.shape[1] == 0:
            raise ConfigError(f"trajectories must be {form}, got shape {each.shape} for trajectories[{index}]")
        if len(each) < 2:
            raise ConfigError(f"trajectories[{index}] must have at least 2 points, got {len(each)}")
        if each.shape[1] != episodes[0].shape[1]:
            first = f"{episodes[0].shape[1]} coordinates, as trajectories[0] has"
            raise ConfigError(f"trajectories[{index}] must have {first}, got {each.shape[1]}")
    return episodes


def _cell_sizes(cell_size: ArrayLike, coordinates: int) -> Points:
    """One per coordinate."""
    size = _numbers("cell_size", cell_size)
    if coordinates == 0 or size.shape not in ((), (coordinates,)) or not (size > 0).all():
        allowed = f"a positive number or {coordinates}, one per coordinate"
        raise ConfigError(f"cell_size must be {allowed}, got {cell_size!r:.80}")
    return np.broadcast_to(size, coordinates).copy()


def _middle(episodes: Sequence[Points], size: Points) -> Points:
    """The cell in the middle of all trajectories, as whole numbers, so that cells stay where they are."""
    low, high = np.min([each.min(axis=0) for each in episodes], axis=0), np.max([each.max(axis=0) for each in episodes], axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = low / size, high / size
        too_wide = ~(high - low < MOST_CELLS)
    if too_wide.any():
        coordinate = int(np.argmax(too_wide))
        allowed = f"large enough that no coordinate extends over more than {MOST_CELLS:,} cells"
        raise ConfigError(f"cell_size must be {allowed}, got {size[coordinate]:g} for coordinate {coordinate}")
    return np.floor(low / 2 + high / 2)


def _require_network_memory(coordinates: int, cfg: AdjacencyConfig) -> None:
    learned = jax.tree.leaves(jax.eval_shape(lambda: network.init(jax.random.key(0), coordinates, cfg)))
    weights = 2 * sum(leaf.size * leaf.dtype.itemsize for leaf in learned)
    pairs = cfg.batch_size * learn.CHUNK_GRADIENT_STEPS * 8 * (coordinates + 2)
    largest = f"hidden = {cfg.hidden}" if weights > pairs else f"batch_size = {cfg.batch_size}"
    budget.require_bytes(weights + pairs, largest)


def _require_table_memory(table: AdjacencyTable, steps: int, k: int) -> None:
    """There is memory for the table with so many more steps of trajectories."""
    need = PAIR_BYTES * (table.num_adjacent + steps * k) + CELL_BYTES * (len(table.cells) + steps)
    found = f"{len(table.cells):,} cells and {table.num_adjacent:,} pairs of them so far, and {steps:,} points to add"
    budget.require_bytes(need, f"the table: {found}. A larger cell_size or a smaller k needs less")


def _require_two_kinds(table: AdjacencyTable) -> None:
    cells = len(table.cells)
    if cells == 1:
        raise ConfigError("cell_size must be smaller: all points of the trajectories are in one cell")
    if table.num_adjacent == table.num_pairs:
        near = f"all {cells:,} cells that were visited are within k steps of one another"
        raise ConfigError(f"k must be smaller, or cell_size: {near}")


# What is learned.


def _parts(episodes: Sequence[Points], k: int) -> Iterator[list[Points]]:
    """Some trajectories at a time. A long one is cut into pieces, which overlap by k steps, so that no pair is lost."""
    steps = max(PART_PAIRS // k, 1)
    pieces = [each[start : start + steps + k] for each in episodes for start in range(0, len(each), steps)]
    numbers = np.cumsum([len(piece) for piece in pieces]) // steps
    for part in np.split(np.arange(len(pieces)), np.flatnonzero(np.diff(numbers)) + 1):
        yield [pieces[index] for index in part]


def _trained(source: Table, seed: int, cfg: AdjacencyConfig) -> network.Embedding:
    def init(key: PRNGKeyArray) -> network.AdjacencyState:
        return network.init(key, source.table.cells.shape[1], cfg)

    states = over_runs(init, run_keys([seed], Stream.INIT))
    rngs = [np.random.default_rng([seed, Stream.PAIRS])]
    epochs = math.ceil(cfg.max_gradient_steps * cfg.batch_size / source.epoch_pairs)  # so many that the cap decides
    states, _ = learn.train(states, [source], rngs, epochs, cfg)
    return jax.tree.map(lambda leaf: np.asarray(leaf[0]), states.embedding)


def _agreement(embedding: network.Embedding, pairs: TablePairs, cfg: AdjacencyConfig) -> float:
    drawn = pairs.draw(np.random.default_rng(0), 1, 2 * JUDGED_PAIRS)
    near = network.distance(embedding, drawn.first, drawn.second) < cfg.threshold
    return float((near == drawn.adjacent).mean())
