"""Maze and Key-Chest: grid worlds, built from a layout string.

A layout has `#` wall, `.` free, `A` start, and the letters of its task: `G` goal for `Maze`, `K` key and `C` chest for
`KeyChest`. `^`, `v`, `<` and `>` are one-way doors, which are entered and left only in the direction of the arrow. A way must
lead from the start to every free cell, and one back. Position is (row, column); the moves are up, down, left, right; a move
into a wall or against a door does nothing.

The rules (`start`, `move`) take random numbers as arguments, and NumPy and JAX arrays alike. `reset` and `step`, which draw
with keys, are the JAX environment; `hrac.envs.gym` uses the rules in NumPy.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from hrac.envs import layout as layouts
from hrac.envs.base import Step
from hrac.envs.layout import DOORS, MOVES, LayoutError
from hrac.envs.sketch import Arrow, Mark, Rectangle, Sketch, rectangles
from hrac.spaces import AnyArray, Discrete

MAZE = """\
#################
#...............#
#...............#
#..###########..#
#..#G........#..#
#..#.........#..#
#..########..#..#
#............#..#
#............#..#
##############..#
#...............#
#A..............#
#################
"""

KEY_CHEST = """\
#################
#...............#
#C..............#
##############..#
#...............#
#...............#
#K.###########..#
#...............#
#...............#
##############..#
#...............#
#......A........#
#################
"""


@dataclass(frozen=True, eq=False)
class Layout:
    """A parsed map. Its arrays are read-only, so it may be shared."""

    grid: np.ndarray
    """The characters (rows, columns)."""
    marks: dict[str, np.ndarray]
    """The marked cells (row, column) by their letter."""

    @cached_property
    def walls(self) -> np.ndarray:
        """Where the walls are (rows, columns)."""
        return _frozen(self.grid == "#")

    @cached_property
    def cells(self) -> np.ndarray:
        """The free cells (cells, 2) in reading order."""
        return _frozen(np.argwhere(~self.walls).astype(np.int32))

    @cached_property
    def moves(self) -> np.ndarray:
        """Which moves lead from each cell to another one (rows, columns, 4)."""
        return _frozen(layouts.possible_moves(self.grid))

    @cached_property
    def distances(self) -> np.ndarray:
        """Steps from each free cell to each (cells, cells)."""
        return _frozen(layouts.distances(self.grid))

    def steps_to(self, letter: str) -> np.ndarray:
        """Steps from every cell to a marked one (rows, columns); -1 in walls."""
        there = int(np.flatnonzero((self.cells == self.marks[letter]).all(axis=1))[0])
        steps = np.full(self.walls.shape, -1, dtype=np.int32)
        steps[tuple(self.cells.T)] = layouts.distances_to(self.grid, there)
        return _frozen(steps)


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@lru_cache(maxsize=32)
def parse(text: str, letters: str) -> Layout:
    """Read a layout that has each of `letters` exactly once; raises `LayoutError`.

    >>> parse("####\\n#AG#\\n####", "AG").distances.tolist()
    [[0, 1], [1, 0]]
    """
    grid = layouts.read(text, letters + DOORS)
    marks = {}
    for letter in letters:
        found = np.argwhere(grid == letter)
        if len(found) != 1:
            where = "; ".join(f"row {r}, column {c}" for r, c in found) or "nowhere"
            raise LayoutError(f"{letter!r} must stand exactly once, found {where}")
        marks[letter] = _frozen(found[0].astype(np.int32))
    layouts.check_reachable(grid, letters[0])
    return Layout(_frozen(grid), marks)


class GridState(NamedTuple):
    """Position of the agent, whether it has the key, and the number of its steps."""

    position: Int[AnyArray, "2"]
    has_key: Bool[AnyArray, ""]
    time: Int[AnyArray, ""]


class Outcome(NamedTuple):
    """The result of a move for the task."""

    reward: Float[AnyArray, ""]
    has_key: Bool[AnyArray, ""]
    achieved: Bool[AnyArray, ""]


def checked_time_limit(steps: Any) -> int:
    """The same as an int, if it is a number of steps. Raises `ValueError`."""
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise ValueError(f"time_limit must be a whole number from 1, got {steps!r}")
    return int(steps)


class GridWorld(ABC):
    """Walls, moves, action noise and the time limit; a task defines the rewards (`_outcome`)."""

    letters: ClassVar[str]
    actions = Discrete(len(MOVES))
    context_dim = 0
    obs_dim: int

    def __init__(
        self,
        layout: str,
        *,
        random_start: bool,
        time_limit: int,
        random_action_prob: float = 0.25,
        ends_on_success: bool = True,
    ) -> None:
        if not 0.0 <= random_action_prob <= 1.0:
            raise ValueError(f"random_action_prob must be between 0 and 1, got {random_action_prob}")
        self.layout = parse(layout, self.letters)
        self.text = layout
        self.random_action_prob = random_action_prob
        self.random_start = random_start
        self.time_limit = checked_time_limit(time_limit)
        self.ends_on_success = ends_on_success
        rows, columns = self.layout.walls.shape
        self.position_low: tuple[float, ...] = (0.0, 0.0)
        self.position_high: tuple[float, ...] = (rows - 1.0, columns - 1.0)

    @property
    def cells(self) -> np.ndarray:
        """All free cells (cells, 2) in reading order."""
        return self.layout.cells

    @property
    def cell_distances(self) -> np.ndarray:
        """Steps from each free cell to each (cells, cells)."""
        return self.layout.distances

    def in_wall(self, positions: Float[Array, "n 2"]) -> Bool[Array, " n"]:
        """Whether the cells nearest to positions are walls, or outside of the map."""
        walls = jnp.pad(jnp.asarray(self.layout.walls), 1, constant_values=True)
        row, column = jnp.round(positions).astype(jnp.int32).T + 1
        return walls[jnp.clip(row, 0, len(walls) - 1), jnp.clip(column, 0, walls.shape[1] - 1)]

    def _definition(self) -> tuple[object, ...]:
        return type(self), self.text, self.random_action_prob, self.random_start, self.time_limit, self.ends_on_success

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GridWorld) and self._definition() == other._definition()

    def __hash__(self) -> int:
        """Equal worlds have equal hashes, so that they share compiled programs."""
        return hash(self._definition())

    def reset(self, key: PRNGKeyArray) -> tuple[GridState, Float[Array, " obs"]]:
        """Start at A, or in a uniformly random free cell."""
        if self.random_start:
            position = jnp.asarray(self.cells)[jax.random.randint(key, (), 0, len(self.cells))]
        else:
            position = jnp.asarray(self.layout.marks["A"])
        return self.start(position)

    def step(self, key: PRNGKeyArray, state: GridState, action: Int[Array, ""]) -> Step:
        """Move. A random action may replace the given one, and a wall or a one-way door may stop the move."""
        return self.move(state, action, jax.random.uniform(key))

    def start(self, position: Int[AnyArray, "2"]) -> tuple[GridState, Float[AnyArray, " obs"]]:
        """The first state of an episode, with the agent in a cell."""
        xp = position.__array_namespace__()
        state = GridState(position, xp.asarray(False), xp.asarray(0, dtype=xp.int32))
        return state, self._observe(state)

    def move(self, state: GridState, action: Int[AnyArray, ""], chance: Float[AnyArray, ""]) -> Step:
        """The result of an action, given a number drawn uniformly from 0 to 1."""
        xp = state.position.__array_namespace__()
        # One uniform number decides whether the action is replaced and, as it is uniform below p, by which one.
        share = chance / max(self.random_action_prob, 1e-9)
        random_action = xp.minimum(xp.floor(share * len(MOVES)), len(MOVES) - 1).astype(xp.int32)
        action = xp.where(chance < self.random_action_prob, random_action, action.astype(xp.int32))
        moved = xp.asarray(self.layout.moves)[state.position[0], state.position[1], action]
        position = xp.where(moved, state.position + xp.asarray(MOVES)[action], state.position)
        outcome = self._outcome(state, moved, position)
        after = GridState(position, outcome.has_key, state.time + 1)
        terminated = outcome.achieved & self.ends_on_success
        truncated = (after.time >= self.time_limit) & ~terminated
        return Step(after, self._observe(after), outcome.reward, terminated, truncated)

    def exploring(self) -> "GridWorld":
        """The same map with random starts. The task does not end the episode."""
        return type(self)(
            self.text,
            random_start=True,
            time_limit=self.time_limit,
            random_action_prob=self.random_action_prob,
            ends_on_success=False,
        )

    def evaluation(self) -> "GridWorld":
        """The same world."""
        return self

    def sketch(self) -> Sketch:
        """The map. A cell is one unit wide; its position is its centre."""
        walls = [Rectangle(c - 0.5, r - 0.5, columns, rows) for r, c, rows, columns in rectangles(self.layout.walls)]
        marks = [Mark(letter, float(column), float(row)) for letter, (row, column) in self.layout.marks.items()]
        arrows = [
            Arrow(float(column), float(row), float(right), float(down))
            for door, (down, right) in zip(DOORS, MOVES, strict=True)
            for row, column in np.argwhere(self.layout.grid == door)
        ]
        (rows, columns) = self.layout.walls.shape
        high = (rows - 0.5, columns - 0.5)
        return Sketch((-0.5, -0.5), high, tuple(walls), tuple(marks), across=1, downward=True, arrows=tuple(arrows))

    def steps_between(self, position: Float[Array, "2"], target: Float[Array, "2"]) -> Int[Array, ""]:
        """Shortest path from the free cell nearest to one point to that nearest to another."""
        return jnp.asarray(self.cell_distances)[self._nearest(position), self._nearest(target)]

    def _nearest(self, point: Float[Array, "2"]) -> Int[Array, ""]:
        return jnp.argmin(jnp.sum((jnp.asarray(self.cells, jnp.float32) - point[None, :]) ** 2, axis=-1))

    @abstractmethod
    def _outcome(self, before: GridState, moved: Bool[AnyArray, ""], position: Int[AnyArray, "2"]) -> Outcome: ...

    @abstractmethod
    def _observe(self, state: GridState) -> Float[AnyArray, " obs"]: ...


class Maze(GridWorld):
    """Go from A to G. +0.1 / -0.1 / 0 as the shortest way to G becomes shorter / longer / stays; G ends the episode."""

    letters = "AG"
    obs_dim = 2

    def __init__(
        self,
        layout: str = MAZE,
        *,
        random_action_prob: float = 0.25,
        random_start: bool = False,
        time_limit: int = 200,
        ends_on_success: bool = True,
    ) -> None:
        super().__init__(
            layout,
            random_start=random_start,
            time_limit=time_limit,
            random_action_prob=random_action_prob,
            ends_on_success=ends_on_success,
        )
        self.to_goal = self.layout.steps_to("G")

    def _outcome(self, before: GridState, moved: Bool[AnyArray, ""], position: Int[AnyArray, "2"]) -> Outcome:
        xp = position.__array_namespace__()
        to_goal = xp.asarray(self.to_goal)
        nearer = to_goal[before.position[0], before.position[1]] - to_goal[position[0], position[1]]
        achieved = moved & xp.all(position == xp.asarray(self.layout.marks["G"]))
        return Outcome(xp.asarray(0.1, dtype=xp.float32) * nearer.astype(xp.float32), before.has_key, achieved)

    def _observe(self, state: GridState) -> Float[AnyArray, "2"]:
        return state.position.astype(np.float32)


class KeyChest(GridWorld):
    """Fetch the key K (+1), then open the chest C (+5), which ends the episode."""

    letters = "AKC"
    obs_dim = 3

    def __init__(
        self,
        layout: str = KEY_CHEST,
        *,
        random_action_prob: float = 0.25,
        random_start: bool = True,
        time_limit: int = 500,
        ends_on_success: bool = True,
    ) -> None:
        super().__init__(
            layout,
            random_start=random_start,
            time_limit=time_limit,
            random_action_prob=random_action_prob,
            ends_on_success=ends_on_success,
        )

    def _outcome(self, before: GridState, moved: Bool[AnyArray, ""], position: Int[AnyArray, "2"]) -> Outcome:
        xp = position.__array_namespace__()
        on_key, on_chest = (moved & xp.all(position == xp.asarray(self.layout.marks[letter])) for letter in "KC")
        picked = on_key & ~before.has_key
        opened = on_chest & before.has_key
        reward = picked.astype(xp.float32) + xp.asarray(5.0, dtype=xp.float32) * opened.astype(xp.float32)
        return Outcome(reward, before.has_key | picked, opened)

    def sketch_at(self, obs: Float[AnyArray, "3"]) -> Sketch:
        """The map at an observation: without the key once it is taken."""
        sketch = self.sketch()
        return sketch._replace(marks=tuple(mark for mark in sketch.marks if mark.letter != "K" or not obs[2]))

    def _observe(self, state: GridState) -> Float[AnyArray, "3"]:
        append = state.position.__array_namespace__().append
        return append(state.position.astype(np.float32), state.has_key.astype(np.float32))
