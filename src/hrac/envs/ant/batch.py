"""Many ants in one simulation, stepped together on threads: the base of all ant tasks."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import mujoco
import numpy as np
from mujoco.batch import Batch
from numpy.typing import ArrayLike, NDArray

from hrac.envs.ant import body
from hrac.envs.ant.body import Block, Wall
from hrac.envs.base import BatchStep, SimulationError, checked_seeds, rows_of
from hrac.envs.sketch import Sketch
from hrac.spaces import Actions, Box

Numbers: TypeAlias = NDArray[np.float64]
Ids: TypeAlias = NDArray[np.int64]

TORQUES = Box((-body.MAX_TORQUE,) * body.MOTORS, (body.MAX_TORQUE,) * body.MOTORS)
_UNSTABLE = [
    mujoco.mjtWarning.mjWARN_BADQPOS.value,
    mujoco.mjtWarning.mjWARN_BADQVEL.value,
    mujoco.mjtWarning.mjWARN_BADQACC.value,
]


@runtime_checkable
class Definition(Protocol):
    """The definition of a task, from which any number of copies can be made."""

    @property
    def walls(self) -> Sequence[Wall]:
        """The walls around the ant."""
        ...

    @property
    def blocks(self) -> Sequence[Block]:
        """The blocks that the ant can push."""
        ...

    @property
    def time_limit(self) -> int:
        """Steps after which an episode is truncated."""
        ...

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise added to the torso's (x, y) after each step."""
        ...

    def batch(self, num_envs: int, threads: int | None = None) -> "AntBatch":
        """This many copies of it, on this many threads (None: one per core)."""
        ...


class AntBatch(ABC):
    """N copies of an ant task. What happens in a copy depends on its own seed and actions, not on other copies or on threads.

    An episode is drawn from (seed of the copy, number of its episode): resetting needs no random state, and a `snapshot` is
    arrays only. Copies do not reset themselves; `step` returns the true last observation and the caller resets copies.

    An observation is qpos (15), qvel (14), numbers of the task, and the time, as float64. The first two numbers are the torso's
    position. Actions are 8 torques. Beyond +-30 they count as +-30 (MuJoCo clips them). One that is not finite, or an array
    of another shape, raises `ValueError` before anything moves.
    """

    actions: Actions = TORQUES
    position_low: tuple[float, ...]
    position_high: tuple[float, ...]
    context_dim = 0
    fallen = staticmethod(body.fallen)
    time_scale: float

    def __init__(self, definition: Definition, num_envs: int, threads: int | None = None, extras: int = 0) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, or None for one per core, got {threads}")
        self.num_envs, self.time_limit, self.sigma = num_envs, definition.time_limit, definition.sigma
        self.model = body.model(definition.walls, definition.blocks)
        self.obs_dim = body.QPOS + body.QVEL + extras + 1
        self._asked_threads = threads
        self.physics = Batch(self.model, num_envs, threads or 0)
        qpos, qvel, self._ctrl = (self.physics.bind(name) for name in ("qpos", "qvel", "ctrl"))
        self.qpos, self.qvel = qpos[:, : body.QPOS], qvel[:, : body.QVEL]
        self.slid = qpos[:, body.QPOS :]
        """How far the blocks have slid along their axes (copies, axes of all blocks)."""
        self.everyone: Ids = np.arange(num_envs)
        self.seeds: Ids = np.arange(num_envs)
        self.episodes: Ids = np.full(num_envs, -1)
        self.steps: Ids = np.zeros(num_envs, np.int64)
        """Steps of the present episode."""
        self.noise = np.zeros((num_envs, self.time_limit if self.sigma > 0 else 0, 2))

    @property
    def threads(self) -> int:
        """Threads that the physics runs on."""
        return self.physics.nthread

    @property
    def goal_dim(self) -> int:
        """Numbers in a position: 2, or 3 where goals have a height."""
        return len(self.position_low)

    @property
    def positions(self) -> Numbers:
        """Positions of the torsos (copies, coordinates of goal space)."""
        return self.qpos[:, : self.goal_dim].copy()

    @property
    def context(self) -> Numbers:
        """The numbers that set the tasks of the present episodes (copies, context_dim)."""
        return np.zeros((self.num_envs, 0))

    def reset(self, ids: ArrayLike | None = None, seeds: ArrayLike | None = None) -> Numbers:
        """Start an episode in some copies (default: all). Returns their observations.

        `seeds`, one per copy, start new sequences of episodes; without them a copy starts the next episode of its sequence.
        """
        rows = self._rows(ids)
        if seeds is not None:
            self.seeds[rows] = checked_seeds(seeds, len(rows))
            self.episodes[rows] = -1
        self.episodes[rows] += 1
        self.physics.reset(rows, stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        for i in rows:
            rng = np.random.default_rng((self.seeds[i], self.episodes[i]))
            self.qpos[i] = self.model.qpos0[: body.QPOS] + rng.uniform(-0.1, 0.1, body.QPOS)
            self.qvel[i] = 0.1 * rng.standard_normal(body.QVEL)
            self._begin(int(i), rng)
            self.noise[i] = rng.standard_normal(self.noise[i].shape)
        self.steps[rows] = 0
        self._placed(rows)
        return self.observe(rows)

    def step(self, actions: ArrayLike, ids: ArrayLike | None = None) -> BatchStep:
        """Step some copies (default: all) once."""
        rows = self._rows(ids)
        if (asleep := rows[self.episodes[rows] < 0]).size:
            raise RuntimeError(f"reset copies {asleep[:5].tolist()} before stepping them")
        self._ctrl[rows] = self._checked_actions(actions, len(rows))
        self.physics.step(None if ids is None else rows, nstep=body.FRAME_SKIP)
        if self.sigma > 0:
            self.qpos[rows, :2] += self.sigma * self.noise[rows, self.steps[rows] % self.time_limit]
        self.steps[rows] += 1
        reward, terminated = self._outcome(rows)
        self._check_stability(rows)
        truncated = (self.steps[rows] >= self.time_limit) & ~terminated
        return BatchStep(self.observe(rows), reward, terminated, truncated)

    def observe(self, ids: ArrayLike | None = None) -> Numbers:
        """The present observations of some copies (default: all)."""
        rows = self._rows(ids)
        obs = np.empty((len(rows), self.obs_dim))
        obs[:, : body.QPOS] = self.qpos[rows]
        obs[:, body.QPOS : body.QPOS + body.QVEL] = self.qvel[rows]
        obs[:, body.QPOS + body.QVEL : -1] = self._extras(rows)
        obs[:, -1] = self.steps[rows] * self.time_scale
        return obs

    def place(self, qpos: ArrayLike, qvel: ArrayLike, ids: ArrayLike | None = None) -> None:
        """Set the position and velocity of copies (default: all); their episodes continue."""
        rows = self._rows(ids)
        checked = [_checked_state("qpos", qpos, len(rows), body.QPOS), _checked_state("qvel", qvel, len(rows), body.QVEL)]
        self.qpos[rows], self.qvel[rows] = checked
        self._placed(rows)

    def data(self, copy: int) -> mujoco.MjData:
        """A copy as MuJoCo's data with all fields computed, for rendering or other functions of MuJoCo."""
        data = self.physics.get_data(copy)
        mujoco.mj_forward(self.model, data)
        return data

    def viewer(self, camera: str, width: int, height: int) -> Any:
        """Draws pictures of copies: see `hrac.envs.ant.viewer.Viewer`."""
        from hrac.envs.ant.viewer import Viewer

        return Viewer(self, "rgb_array", camera, width, height)

    @abstractmethod
    def sketch(self, copy: int) -> Sketch:
        """The map of a copy in its present episode."""

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """The complete state as named arrays, from which `restore` continues exactly."""
        names = ("seeds", "episodes", "steps", "noise", *self._state_names)
        return {"physics": self.physics.state.copy()} | {name: getattr(self, name).copy() for name in names}

    def restore(self, snapshot: dict[str, NDArray[Any]]) -> None:
        """Continue from a snapshot of the same task with the same number of copies."""
        present = self.snapshot()
        for name, array in present.items():
            axes = None if name == "noise" else 1  # objects may have been added
            if name not in snapshot or snapshot[name].shape[:axes] != array.shape[:axes]:
                raise ValueError(f"the snapshot is not of {self.num_envs} copies of this task: {name!r} does not fit")
        self.physics.state[...] = snapshot["physics"]
        self.physics.warning[...] = 0
        for name in present.keys() - {"physics"}:
            setattr(self, name, snapshot[name].copy())

    def __reduce__(self) -> Any:
        return _rebuilt, (self.definition, self.num_envs, self._asked_threads, self.snapshot())

    # A task defines these

    definition: "Definition"

    _state_names: Sequence[str] = ()
    """Attributes that hold the task's own arrays, one row per copy."""

    @abstractmethod
    def _begin(self, copy: int, rng: np.random.Generator) -> None:
        """Draw an episode: the start of the ant and its task."""

    @abstractmethod
    def _outcome(self, rows: Ids) -> tuple[Numbers, NDArray[np.bool_]]:
        """The rewards of the last step, and whether the task ended there."""

    @abstractmethod
    def info(self, rows: Ids) -> dict[str, NDArray[Any]]:
        """Facts about the present episodes, for Gymnasium's `info`."""

    def _extras(self, rows: Ids) -> Numbers:
        """The task's own part of the observations."""
        return np.zeros((len(rows), 0))

    def _placed(self, rows: Ids) -> None:  # noqa: B027  most tasks do not need it
        """Called when ants were placed."""

    # Checks

    def _rows(self, ids: ArrayLike | None) -> Ids:
        return self.everyone if ids is None else rows_of(ids, self.num_envs)

    def _checked_actions(self, actions: ArrayLike, count: int) -> Numbers:
        array = np.asarray(actions, np.float64)
        if array.shape != (count, body.MOTORS):
            raise ValueError(f"actions must have shape {(count, body.MOTORS)}, got {array.shape}")
        if not np.isfinite(array).all():
            bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
            raise ValueError(f"actions must be finite numbers (torques within +-{body.MAX_TORQUE:g}), got {array[bad[0]]}")
        return array

    def _check_stability(self, rows: Ids) -> None:
        """Raise where MuJoCo warned that the physics broke down. It then resets the ant, so the episode must not continue."""
        counts = self.physics.warning[rows][:, _UNSTABLE, -1]
        if counts.any():
            raise SimulationError(rows[counts.any(axis=1)].tolist())


def _checked_state(name: str, value: ArrayLike, copies: int, size: int) -> Numbers:
    array = np.asarray(value, np.float64)
    if array.shape not in ((size,), (copies, size)) or not np.isfinite(array).all():
        raise ValueError(f"{name} must be {size} finite numbers, or {copies} rows of them, got {value!r}")
    return array


def _rebuilt(definition: Definition, num_envs: int, threads: int | None, snapshot: dict[str, NDArray[Any]]) -> AntBatch:
    batch = definition.batch(num_envs, threads)
    batch.restore(snapshot)
    return batch
