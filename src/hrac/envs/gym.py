"""Registers all Gymnasium environments when `hrac` is imported, and defines the grid worlds.

`hrac/Maze-v0`, `hrac/KeyChest-v0`; and from `hrac.envs.ant`: `hrac/AntMaze-v0`, `hrac/AntMazeSparse-v0`, `hrac/AntGather-v0`,
with their stochastic variants (`hrac/AntMazeSigma0.05-v0`, ...), and the mazes of `hrac.envs.mazes` (`hrac/AntUSmall-v0`, ...).
"""

from typing import Any, SupportsInt

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from hrac.envs import palette
from hrac.envs.grid import GridState, GridWorld, KeyChest, Maze
from hrac.envs.mazes import MAZES, gym_name
from hrac.envs.paint import paint
from hrac.envs.sketch import sketch_at

CELL_PIXELS = 24


class GridEnv(gymnasium.Env[NDArray[np.float32], int]):
    """A grid world for Gymnasium.

    Observation: (row, column), and in Key-Chest whether the agent has the key, as float32. Actions: 0 up, 1 down, 2 left,
    3 right. `terminated` when the task is done, `truncated` at the time limit. `info["success"]` says whether the task is
    done. All random numbers follow from `reset(seed=...)`. Stepping uses NumPy, not JAX: environments can be pickled and
    copied, and work in forked processes.

    `random_action_prob`: probability that an action is replaced by a random one. `random_start`: start in any free cell, not at
    A. `layout`: a map of your own, see `hrac.envs.grid`. `time_limit`: steps until an episode is truncated. `render_mode`:
    "ansi" or "rgb_array". Set `env.unwrapped.subgoal = (row, column)` to draw a subgoal.

    Version history: v0, the tasks of the HRAC paper.
    """

    metadata = {  # noqa: RUF012
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 10,
    }
    world: type[GridWorld]

    def __init__(
        self,
        render_mode: str | None = None,
        random_action_prob: float = 0.25,
        random_start: bool | None = None,
        layout: str | None = None,
        time_limit: int | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"render_mode must be one of {self.metadata['render_modes']} or None, got {render_mode!r}")
        keywords = {
            "random_action_prob": random_action_prob,
            "random_start": random_start,
            "layout": layout,
            "time_limit": time_limit,
        }
        self.render_mode = render_mode
        self.grid = self.world(**{name: value for name, value in keywords.items() if value is not None})  # type: ignore[arg-type]
        high = [*self.grid.position_high, *[1.0] * (self.grid.obs_dim - 2)]
        self.observation_space = spaces.Box(0.0, np.array(high, np.float32), dtype=np.float32)
        self.action_space = spaces.Discrete(self.grid.actions.choices)  # type: ignore[assignment]
        self.subgoal: ArrayLike | None = None
        self._state: GridState | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        check_options(options, ())
        cells = self.grid.cells
        position = cells[self.np_random.integers(len(cells))] if self.grid.random_start else self.grid.layout.marks["A"]
        self._state, obs = self.grid.start(position)
        return obs, {"success": False}

    def step(self, action: SupportsInt) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Make a move."""
        if self._state is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        if not self.action_space.contains(action):
            raise ValueError(f"action must be 0 (up), 1 (down), 2 (left) or 3 (right), got {action!r}")
        after = self.grid.move(self._state, np.int32(action), np.float32(self.np_random.random(dtype=np.float32)))
        self._state = after.state
        terminated, truncated = bool(after.terminated), bool(after.truncated)
        return np.asarray(after.obs), float(after.reward), terminated, truncated, {"success": terminated}

    def render(self) -> Any:
        """The map as text ("ansi") or as an image (rows, columns, 3) ("rgb_array").

        The agent is "o" or a blue disc, a subgoal "*" or a star.
        """
        if self.render_mode is None:
            gymnasium.logger.warn('nothing is rendered: make the environment with render_mode="ansi" or "rgb_array"')
            return None
        if self._state is None:
            raise gymnasium.error.ResetNeeded("call reset() before render()")
        if self.render_mode == "ansi":
            taken = "K" if self._state.has_key else ""
            drawn = np.where(self.grid.layout.grid == taken, ".", self.grid.layout.grid)
            if self.subgoal is not None:
                nearest = np.clip(np.rint(np.asarray(self.subgoal, np.float64)), 0, np.array(drawn.shape) - 1)
                drawn[tuple(nearest.astype(int))] = "*"
            drawn[tuple(self._state.position)] = "o"
            return "\n".join("".join(line) for line in drawn)
        sketch, (rows, columns) = sketch_at(self.grid, self.grid._observe(self._state)), self.grid.layout.walls.shape
        canvas = paint(sketch, CELL_PIXELS * columns, CELL_PIXELS * rows)
        if self.subgoal is not None:
            canvas.star(sketch.place(self.subgoal), palette.SUBGOAL, palette.EDGE)
        canvas.disc(sketch.place(self._state.position), 0.36, palette.AGENT)
        return canvas.picture()


class MazeEnv(GridEnv):
    """`hrac/Maze-v0`: go from A to G through the spiral; see `hrac.envs.grid.Maze` for the reward."""

    world = Maze


class KeyChestEnv(GridEnv):
    """`hrac/KeyChest-v0`: fetch the key, open the chest; see `hrac.envs.grid.KeyChest` for the reward."""

    world = KeyChest


def check_options(options: dict[str, Any] | None, allowed: tuple[str, ...]) -> None:
    """Raise if `reset` is given an unknown option."""
    for name in options or {}:
        if name not in allowed:
            raise ValueError(f"options: there is no {name!r}. Allowed are: {', '.join(allowed) or 'none'}")


SIGMAS = (0.01, 0.05, 0.1)
"""The paper's stochastic variants of the ant tasks."""


def register() -> None:
    """Make the environments known to `gymnasium.make`. MuJoCo is imported only when an ant is made."""
    if "hrac/Maze-v0" in gymnasium.registry:
        return
    for environment in (MazeEnv, KeyChestEnv):
        name = environment.__name__.removesuffix("Env")
        gymnasium.register(f"hrac/{name}-v0", f"{environment.__module__}:{environment.__name__}")
    for name in ("AntMaze", "AntMazeSparse", "AntGather"):
        gymnasium.register(f"hrac/{name}-v0", **_entry_points(name))
        for sigma in SIGMAS:
            gymnasium.register(f"hrac/{name}Sigma{sigma}-v0", **_entry_points(name), kwargs={"sigma": sigma})
    for name, row in MAZES.items():
        gymnasium.register(gym_name(name), **_entry_points("AntMaze"), kwargs=row.fields)


def _entry_points(name: str) -> dict[str, Any]:
    """Where Gymnasium finds the two forms of an ant task."""
    return {"entry_point": f"hrac.envs.ant.gym:{name}Env", "vector_entry_point": f"hrac.envs.ant.vector:{name}VectorEnv"}
