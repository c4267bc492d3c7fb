"""One sketch of a map for all pictures: `hrac.envs.paint` makes pixels of it, matplotlib figures.

Its parts have drawing coordinates: x to the right, y up or down. `place` converts positions to them.

>>> sketch = Sketch((0.0, 0.0), (2.0, 4.0), across=1, downward=True)  # a grid: row and column, rows downward
>>> sketch.place([[2.0, 3.0]]).tolist(), sketch.extent
([[3.0, 2.0]], (0.0, 4.0, 2.0, 0.0))
"""

from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Places: TypeAlias = Any
"""Numbers (..., 2 or more), as an array or as sequences."""


class Rectangle(NamedTuple):
    """A wall, by its corner with the lowest x and y."""

    x: float
    y: float
    width: float
    height: float


class Mark(NamedTuple):
    """A place that a layout marks with a letter."""

    letter: str
    x: float
    y: float


class Disc(NamedTuple):
    """A target and its success radius."""

    x: float
    y: float
    radius: float


class Thing(NamedTuple):
    """Something to collect or to avoid."""

    x: float
    y: float
    kind: Literal["apple", "bomb"]


class Arrow(NamedTuple):
    """A one-way door, a unit wide, and its direction."""

    x: float
    y: float
    dx: float
    dy: float


class Sketch(NamedTuple):
    """The visible parts of a map."""

    low: tuple[float, float]
    """Lowest position that is shown, in goal space."""
    high: tuple[float, float]
    """Highest."""
    walls: tuple[Rectangle, ...] = ()
    """They do not overlap, but may go beyond what is shown."""
    marks: tuple[Mark, ...] = ()
    discs: tuple[Disc, ...] = ()
    things: tuple[Thing, ...] = ()
    across: int = 0
    """Which of the first two coordinates of a position is drawn horizontally; the other one is drawn vertically."""
    downward: bool = False
    """Whether y grows downward, as rows do."""
    arrows: tuple[Arrow, ...] = ()
    chasms: tuple[Rectangle, ...] = ()
    blocks: tuple[Rectangle, ...] = ()
    """Boxes that can be pushed."""
    floor: float = 0.0
    """The height at which the agent walks, for pictures in space."""

    def place(self, positions: Places) -> NDArray[np.float64]:
        """Positions of goal space in drawing coordinates (..., 2)."""
        return np.asarray(positions, np.float64)[..., [self.across, 1 - self.across]]

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """(left, right, bottom, top) of what is shown, in drawing coordinates. If y grows downward, bottom is the larger y."""
        (left, least), (right, most) = self.place(self.low).tolist(), self.place(self.high).tolist()
        return (left, right, most, least) if self.downward else (left, right, least, most)

    def nearest(self, place: NDArray[np.float64]) -> NDArray[np.float64]:
        """The point of what is shown that is nearest to a place in drawing coordinates."""
        return np.clip(place, self.place(self.low), self.place(self.high))

    def shows(self, place: NDArray[np.float64]) -> bool:
        """Whether a place in drawing coordinates is within what is shown."""
        return bool((self.nearest(place) == place).all())

    @property
    def aspect(self) -> float:
        """Height divided by width of what is shown, within what a page can hold."""
        left, right, bottom, top = self.extent
        return min(max(abs(top - bottom) / (right - left), 0.4), 1.8)


@runtime_checkable
class Drawable(Protocol):
    """An environment or a task that has a map."""

    def sketch(self) -> Sketch:
        """Its map, without the parts that change between episodes."""
        ...


def sketch_at(env: Drawable, obs: NDArray[np.floating[Any]]) -> Sketch:
    """The map at an observation: an environment whose map changes says how by a method `sketch_at`."""
    return env.sketch_at(obs) if hasattr(env, "sketch_at") else env.sketch()


def rectangles(mask: NDArray[np.bool_]) -> list[tuple[int, int, int, int]]:
    """A mask as a small number of rectangles that do not overlap: (row, column, rows, columns) of each.

    >>> rectangles(np.array([[True, True], [True, True], [False, True]]))
    [(0, 0, 2, 2), (2, 1, 1, 1)]
    """
    found: list[tuple[int, int, int, int]] = []
    begun: dict[tuple[int, int], int] = {}
    for row in range(len(mask) + 1):
        line = np.pad(mask[row], 1) if row < len(mask) else np.zeros(mask.shape[1] + 2, bool)
        runs = [(a, b) for a, b in np.flatnonzero(line[1:] != line[:-1]).reshape(-1, 2).tolist()]
        for run in begun.keys() - set(runs):
            first = begun.pop(run)
            found.append((first, run[0], row - first, run[1] - run[0]))
        for run in runs:
            begun.setdefault(run, row)
    return sorted(found)
