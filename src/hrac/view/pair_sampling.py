"""The picture of `hrac pairs`: learned distances from two states on the two sides of a wall, and embeddings as planes (LLE)."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from hrac.errors import MissingExtraError
from hrac.experiments.pair_sampling import Result, distances
from hrac.scenes.drawing import EDGE, draw_map, outline

NEIGHBOURS = 12
"""Nearest embeddings that each one is rebuilt from (LLE)."""
FARTHEST = 3.0
"""Where the colours of distances end, in thresholds."""
NAMES = {
    "table": "adjacency table\n(the paper's method)",
    "trajectories": "pairs from trajectories\n(direct sampling)",
    "oracle": "true relation\n(oracle)",
}
SIDES = ("o", "^")
"""Markers of the cells that are nearer to s1, and to s2."""
LABEL: dict[str, Any] = {
    "ha": "center",
    "va": "center",
    "fontsize": "small",
    "bbox": {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": EDGE, "linewidth": 0.6},
}


def manifold() -> Any:
    """`sklearn.manifold`; raises `MissingExtraError`."""
    try:
        from sklearn import manifold
    except ImportError:
        raise MissingExtraError("this figure needs scikit-learn: install it with  pip install 'hrac[figures]'") from None
    return manifold


def plane(points: NDArray[np.floating]) -> NDArray[np.float64]:
    """Embedded cells (cells, dimensions) by locally linear embedding (cells, 2), each coordinate scaled to unit variance."""
    lle = manifold().LocallyLinearEmbedding(n_neighbors=min(NEIGHBOURS, len(points) - 1), n_components=2, eigen_solver="dense")
    flat = lle.fit_transform(points.astype(np.float64))
    return (flat - flat.mean(axis=0)) / flat.std(axis=0)


def draw(result: Result, width: float = 11.0) -> Figure:
    """The picture, so many inches wide: a row for the true distances and a row per source of pairs, all of the first seed."""
    rows = 1 + len(result.embeddings)
    figure = Figure(figsize=(width, width * (0.24 * rows + 0.12)), layout="constrained")
    axes = figure.subplots(rows, 3)
    states = _states(result)
    for column, state in enumerate(states):
        heat(axes[0, column], result, state).set_title(f"from s{column + 1}", fontsize="medium")
    _key(axes[0, 2], result)
    axes[0, 0].set_ylabel("true distance")
    for row, source in enumerate(result.embeddings, start=1):
        for column, state in enumerate(states):
            heat(axes[row, column], result, state, source)
        embedding(axes[row, 2], result, source)
        axes[row, 0].set_ylabel(NAMES[source])
    _legends(figure, axes, result)
    return figure


def _states(result: Result) -> list[int]:
    """The numbers of the cells s1 and s2."""
    cells, marks = result.world.cells, result.world.layout.marks
    return [int(np.flatnonzero((cells == marks[letter]).all(axis=1))[0]) for letter in "12"]


def _grid(result: Result, values: NDArray[Any], empty: Any) -> NDArray[Any]:
    """Values of the cells on the map (rows, columns), with `empty` in walls."""
    grid = np.full(result.world.layout.walls.shape, empty, dtype=values.dtype)
    grid[tuple(result.world.cells.T)] = values
    return grid


def _map(axis: Axes, result: Result, values: NDArray[np.floating], norm: Normalize, colours: str) -> None:
    axis.imshow(_grid(result, values, np.nan), cmap=colours, norm=norm, interpolation="nearest")
    draw_map(axis, result.world.sketch()._replace(marks=()))


def heat(axis: Axes, result: Result, state: int, source: str | None = None) -> Axes:
    """Draw the distances from a state, a row of `result.world.cells`, with the outlines of what is judged near and of what is.

    They are those learned from a source of pairs; None: the true ones.
    """
    steps = result.world.cell_distances[state]
    values, truly = steps / result.k, steps <= result.k
    near = truly
    if source is not None:
        values = distances(result.embeddings[source])[state] / result.threshold
        near = values < 1
    _map(axis, result, values, Normalize(0.0, FARTHEST), "viridis")
    outline(axis, _grid(result, truly, False), "black", ":", 1.8)
    outline(axis, _grid(result, near, False), "white", "-", 1.8)
    row, column = result.world.cells[state]
    axis.plot(column, row, "*", color="white", markeredgecolor="black", markersize=13)
    return axis


def _from_first(result: Result) -> tuple[NDArray[np.int32], Normalize]:
    """The steps from s1 to each cell, which colour the embeddings."""
    steps = result.world.cell_distances[_states(result)[0]]
    return steps, Normalize(0, steps.max())


def _key(axis: Axes, result: Result) -> None:
    """The map in the colours of the embeddings."""
    steps, norm = _from_first(result)
    _map(axis, result, steps.astype(np.float64), norm, "cividis")
    axis.set_title("embeddings by LLE, in these colours", fontsize="medium")
    marks = result.world.layout.marks
    for letter, name in (("A", "A"), ("1", "s1"), ("2", "s2")):
        row, column = marks[letter]
        axis.text(column, row, name, **LABEL)


def embedding(axis: Axes, result: Result, source: str) -> Axes:
    """Draw all cells in the plane, as they are embedded after learning from a source: a marker for each side of the wall."""
    flat = plane(result.embeddings[source])
    steps, norm = _from_first(result)
    second = result.world.cell_distances[_states(result)[1]] < steps
    for marker, side in zip(SIDES, (~second, second), strict=True):
        axis.scatter(
            flat[side, 0],
            flat[side, 1],
            c=steps[side],
            norm=norm,
            cmap="cividis",
            marker=marker,
            s=24,
            edgecolors=EDGE,
            linewidths=0.4,
        )
    for number, state in enumerate(_states(result), start=1):
        line = {"arrowstyle": "-", "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0}
        towards = -22 * np.sign(flat[state])  # into the picture
        axis.annotate(f"s{number}", flat[state], towards, textcoords="offset points", arrowprops=line, zorder=5, **LABEL)
    axis.set_xticks([])
    axis.set_yticks([])
    rows, columns = result.world.layout.walls.shape
    axis.set_box_aspect(rows / columns)
    return axis


def _legends(figure: Figure, axes: NDArray[Any], result: Result) -> None:
    bar = figure.colorbar(
        ScalarMappable(Normalize(0.0, FARTHEST), "viridis"),
        ax=axes[:, :2],
        location="bottom",
        aspect=45,
        shrink=0.9,
        extend="max",
    )
    bar.set_label("distance; 1 is the threshold: what is nearer is judged adjacent", fontsize="small")
    bar.set_ticks([0.0, 1.0, 2.0, 3.0])
    bar.ax.axvline(1.0, color="white", linewidth=2.5)
    steps = ScalarMappable(_from_first(result)[1], "cividis")
    below = figure.colorbar(steps, ax=axes[:, 2], location="bottom", aspect=22, shrink=0.9)
    below.set_label("steps from s1", fontsize="small")
    lines = [
        Line2D([], [], color="white", linewidth=2.2, label=f"judged within k = {result.k} steps"),
        Line2D([], [], color="black", linestyle=":", linewidth=1.8, label="truly within k steps"),
        Line2D([], [], linestyle="", color="white", marker="*", markeredgecolor="black", markersize=12, label="the state"),
        *(
            Line2D([], [], linestyle="", color="white", marker=marker, markeredgecolor=EDGE, label=f"cell nearer to s{number}")
            for number, marker in enumerate(SIDES, start=1)
        ),
    ]
    figure.legend(handles=lines, loc="outside lower center", ncols=5, facecolor="#b9bcc6", edgecolor="none", fontsize="small")
