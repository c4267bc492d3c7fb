"""The ant tasks for Gymnasium, one ant at a time; `vector.py` has many."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from hrac.envs.ant.batch import TORQUES, AntBatch, Definition, Numbers
from hrac.envs.ant.gather import AntGather, GatherBatch
from hrac.envs.ant.maze import SPARSE, AntMaze, MazeBatch
from hrac.envs.ant.viewer import FPS, RENDER_MODES, Viewer
from hrac.envs.gym import check_options

Observation = Any
"""An array, or in the GoalEnv convention a dictionary of three."""


class AntEnv(gymnasium.Env[Observation, NDArray[np.float32]]):
    """One ant in a task.

    **Actions**: 8 torques within +-30; larger ones count as +-30. NaN or infinite ones raise `ValueError`, and nothing moves.

    **Observations**, float64: qpos (15), qvel (14), numbers of the task, and the time. The first two numbers are the torso's x
    and y. If an episode has a target that the agent sees, the observation is a dictionary of `observation`,
    `achieved_goal` and `desired_goal`: (x, y), or (x, y, z) where targets have a height.

    **Ends**: `terminated` when the task is done, `truncated` at its time limit. The ant never dies.

    **Random numbers** all follow from `reset(seed=...)`; resets without a seed continue the same sequence of episodes.

    **Keywords**: `sigma` (noise on the torso's x and y after each step) and all other fields of the task's definition
    (`definition`); `render_mode` None or "rgb_array"; `camera` "top", "follow" or "map" (flat, without OpenGL); `width` and
    `height` of pictures. Set `env.unwrapped.subgoal = (x, y)` to draw a subgoal.

    An environment can be pickled at any time and continues where it was.

    Version history: v0, the tasks of the HRAC paper.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": FPS}  # noqa: RUF012
    definition: Definition
    batch: AntBatch
    options: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, render_mode: str | None = None, camera: str = "top", width: int = 480, height: int = 480, **changes: Any
    ) -> None:
        self.render_mode = render_mode
        self.definition = changed(type(self).definition, changes)
        self.batch = self.definition.batch(1, threads=1)
        self.observation_space, self.action_space = spaces_of(self.batch)
        self.subgoal: ArrayLike | None = None
        self._viewer = Viewer(self.batch, render_mode, camera, width, height)
        self._seeded = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        check_options(options, self.options)
        shapes = ((self.batch.goal_dim,),)
        choice = None if options is None or "target" not in options else checked_targets(options["target"], shapes)
        if seed is None and not self._seeded:
            seed = int(self.np_random.integers(2**63 - 1))
        self._seeded = True
        obs = self.batch.reset(seeds=None if seed is None else [seed])
        if choice is not None and isinstance(self.batch, MazeBatch):
            self.batch.targets[:] = choice
        return self._observation(obs), self._info()

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Simulate 0.1 seconds."""
        after = self.batch.step(np.asarray(action)[None])
        reward, terminated, truncated = float(after.reward[0]), bool(after.terminated[0]), bool(after.truncated[0])
        return self._observation(after.obs), reward, terminated, truncated, self._info()

    def set_state(self, qpos: ArrayLike, qvel: ArrayLike) -> None:
        """Set the position (15) and velocity (14) of the ant. The episode continues; `observe` returns the new observation."""
        self.batch.place(qpos, qvel)

    def observe(self) -> Observation:
        """The present observation."""
        return self._observation(self.batch.observe())

    def render(self) -> Any:
        """A picture (height, width, 3)."""
        return self._viewer.frame(0, self.subgoal)

    def close(self) -> None:
        """Free the renderer."""
        self._viewer.close()

    def _observation(self, obs: Numbers) -> Observation:
        rows = packed(self.batch, obs, self.batch.everyone)
        return {name: part[0] for name, part in rows.items()} if isinstance(rows, dict) else rows[0]

    def _info(self) -> dict[str, Any]:
        return {name: values[0].item() for name, values in self.batch.info(self.batch.everyone).items()}


class AntMazeEnv(AntEnv):
    """`hrac/AntMaze-v0`: walk to a target in a U-shaped corridor; see `AntEnv`, and `hrac.envs.ant.maze.AntMaze`.

    The reward is minus the distance to the target. `reset(options={"target": (x, y)})` sets the target of one episode;
    otherwise it is drawn as in training, uniformly from (-4, -4) to (20, 20). `info["success"]`: within 5 of it now. Success
    ends no episode; for the paper's evaluation make it with `target=(0, 16), ends_on_success=True`.

    `layout`, `block_size`, `target` and `reward` make a maze of your own. `hrac/AntUSmall-v0` to `hrac/AntFall-v0` are mazes
    of other papers, made by these fields (`hrac.envs.mazes`).
    """

    definition = AntMaze()
    batch: MazeBatch
    options = ("target",)

    def compute_reward(self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any) -> Any:
        """The reward at one or more positions for one or more targets (GoalEnv convention)."""
        return _for_goals(self.batch.definition.rewards, achieved_goal, desired_goal)

    def compute_terminated(self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any) -> Any:
        """Whether a position ends an episode (GoalEnv convention)."""
        definition = self.batch.definition
        return _for_goals(lambda a, b: definition.success(a, b) & definition.ends_on_success, achieved_goal, desired_goal)

    def compute_truncated(self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any) -> Any:
        """Always false: the time limit does not depend on goals (GoalEnv convention)."""
        return _for_goals(lambda a, _: np.zeros(len(a), bool), achieved_goal, desired_goal)


class AntMazeSparseEnv(AntMazeEnv):
    """`hrac/AntMazeSparse-v0`: find the place (2, 9) in a winding corridor; see `AntMazeEnv`.

    The reward is 1 within 1 of the target, which ends the episode, else 0. The ant starts in a random block and does not see
    the target: observations are plain arrays of 30.
    """

    definition = SPARSE


class AntGatherEnv(AntEnv):
    """`hrac/AntGather-v0`: collect apples (+1), avoid bombs (-1); see `AntEnv`, and `hrac.envs.ant.gather.AntGather`.

    Observations have 50 numbers: qpos, qvel, 10 apple and 10 bomb readings, and the time. `info["apples"]` and
    `info["bombs"]` count those touched in the episode so far. The episode terminates when nothing is left.
    """

    definition = AntGather()
    batch: GatherBatch

    def set_objects(self, objects: ArrayLike) -> None:
        """Replace all objects by others: rows of (x, y, kind), kind 0 an apple, 1 a bomb."""
        self.batch.put_objects(0, objects)


def _for_goals(rule: Callable[[Numbers, Numbers], NDArray[Any]], achieved_goal: ArrayLike, desired_goal: ArrayLike) -> Any:
    """A rule for rows of positions and targets, applied to one pair (returns a plain number) or to any array of pairs."""
    achieved, desired = np.broadcast_arrays(np.asarray(achieved_goal, np.float64), np.asarray(desired_goal, np.float64))
    result = rule(*(goals.reshape(-1, goals.shape[-1]) for goals in (achieved, desired))).reshape(achieved.shape[:-1])
    return result.item() if result.ndim == 0 else result


def changed(definition: Any, changes: dict[str, Any]) -> Any:
    """A definition with some fields changed; raises an error that names an unknown field."""
    names = [field.name for field in dataclasses.fields(definition)]
    for name in changes:
        if name not in names:
            raise TypeError(f"there is no keyword {name!r}. Those of the task are: {', '.join(names)}")
    return dataclasses.replace(definition, **changes)


def spaces_of(batch: AntBatch) -> tuple[spaces.Space[Any], Any]:
    """The observation space and the action space of one copy."""
    low, high = (np.array(bound, np.float32) for bound in (TORQUES.low, TORQUES.high))
    obs, position = (spaces.Box(-np.inf, np.inf, (size,), np.float64) for size in (batch.obs_dim, batch.goal_dim))
    if batch.context_dim == 0:
        return obs, spaces.Box(low, high)
    goals = {"observation": obs, "achieved_goal": position, "desired_goal": position}
    return spaces.Dict(goals), spaces.Box(low, high)  # type: ignore[arg-type]


def packed(batch: AntBatch, obs: Numbers, rows: NDArray[np.int64]) -> Observation:
    """Observations of some copies in the form of their space."""
    if batch.context_dim == 0:
        return obs
    return {"observation": obs, "achieved_goal": obs[:, : batch.goal_dim].copy(), "desired_goal": batch.context[rows]}


def checked_targets(target: Any, shapes: tuple[tuple[int, ...], ...]) -> Numbers:
    """The option "target" as numbers of one of the shapes."""
    array = np.asarray(target, np.float64)
    if array.shape not in shapes or not np.isfinite(array).all():
        raise ValueError(f'options["target"] must be finite numbers of shape {" or ".join(map(str, shapes))}, got {target!r}')
    return array
