"""The ant tasks as Gymnasium vector environments: many ants in one simulation (`gymnasium.make_vec`)."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from hrac.envs.ant.batch import Numbers
from hrac.envs.ant.gym import (
    AntEnv,
    AntGatherEnv,
    AntMazeEnv,
    AntMazeSparseEnv,
    Observation,
    changed,
    checked_targets,
    packed,
    spaces_of,
)
from hrac.envs.ant.maze import MazeBatch
from hrac.envs.ant.viewer import FPS, RENDER_MODES, Viewer
from hrac.envs.gym import check_options


class AntVectorEnv(VectorEnv[Observation, NDArray[np.float32], NDArray[Any]]):
    """Many ants in one task, in one simulation on `threads` threads (None: one per core); see `AntEnv` for the rest.

    Copy i is the same as an `AntEnv` that was reset with its seed: `reset(seed=s)` gives copy i the seed s + i.
    `autoreset_mode` is "NextStep" (Gymnasium's default), "SameStep" or "Disabled", with the meaning it has in Gymnasium;
    `reset(options={"reset_mask": ...})` resets some copies only.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": FPS, "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012
    single: type[AntEnv]

    def __init__(
        self,
        num_envs: int = 1,
        threads: int | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        camera: str = "top",
        width: int = 480,
        height: int = 480,
        **changes: Any,
    ) -> None:
        self.num_envs, self.render_mode = num_envs, render_mode
        self.batch = changed(self.single.definition, changes).batch(num_envs, threads)
        self.single_observation_space, self.single_action_space = spaces_of(self.batch)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        modes = {mode.value: mode for mode in AutoresetMode}
        if autoreset_mode not in (*modes, *modes.values()):
            raise ValueError(f"autoreset_mode must be one of {', '.join(modes)}, got {autoreset_mode!r}")
        self.metadata = type(self).metadata | {"autoreset_mode": AutoresetMode(autoreset_mode)}
        self.subgoals: ArrayLike | None = None
        self._viewer = Viewer(self.batch, render_mode, camera, width, height)
        self._ended = np.zeros(num_envs, bool)
        self._seeded = np.zeros(num_envs, bool)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode in all copies, or in those of `options["reset_mask"]`."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        check_options(options, (*self.single.options, "reset_mask"))
        options = options or {}
        mask = _checked_mask(options.get("reset_mask", np.ones(self.num_envs, bool)), self.num_envs)
        rows, targets = np.flatnonzero(mask), None
        if "target" in options:
            goal_dim = self.batch.goal_dim
            targets = checked_targets(options["target"], ((goal_dim,), (self.num_envs, goal_dim)))
        self._reset(rows, seed)
        self._ended[rows] = False
        if targets is not None and isinstance(self.batch, MazeBatch):
            self.batch.targets[rows] = np.broadcast_to(targets, self.batch.targets.shape)[rows]
        everyone = self.batch.everyone
        return packed(self.batch, self.batch.observe(), everyone), _masked(self.batch.info(rows), rows, self.num_envs)

    def step(self, actions: ArrayLike) -> tuple[Observation, Numbers, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Simulate 0.1 seconds in all copies."""
        actions = np.asarray(actions, np.float64)
        if actions.shape != self.action_space.shape:
            raise ValueError(f"actions must have shape {self.action_space.shape}, got {actions.shape}")
        mode, everyone = self.metadata["autoreset_mode"], self.batch.everyone
        infos: dict[str, Any] = {}
        if not self._ended.any():
            obs, reward, terminated, truncated = self.batch.step(actions)
        elif mode is AutoresetMode.DISABLED:
            ended = np.flatnonzero(self._ended)[:5].tolist()
            raise gymnasium.error.ResetNeeded(f'copies {ended} have ended: reset them with options={{"reset_mask": ...}}')
        else:
            obs, reward, terminated, truncated = self._step_or_reset(actions)
        ended = terminated | truncated
        if mode is AutoresetMode.SAME_STEP:
            if ended.any():
                rows = np.flatnonzero(ended)
                infos = self._final(obs[rows], rows)
                obs[rows] = self.batch.reset(rows)
        else:
            self._ended = ended
        infos |= _masked(self.batch.info(everyone), everyone, self.num_envs)
        return packed(self.batch, obs, everyone), reward, terminated, truncated, infos

    def render(self) -> tuple[Any, ...] | None:
        """A picture of every copy, with its row of `subgoals` if those are set."""
        if self.render_mode is None:
            self._viewer.frame(0, None)
            return None
        subgoals = [None] * self.num_envs if self.subgoals is None else np.asarray(self.subgoals)
        return tuple(self._viewer.frame(copy, subgoal) for copy, subgoal in enumerate(subgoals))

    def close_extras(self, **kwargs: Any) -> None:
        """Free the renderer."""
        self._viewer.close()

    def _reset(self, rows: NDArray[np.int64], seed: int | list[int | None] | None) -> None:
        given = [None] * self.num_envs if seed is None else seed
        seeds = [given + i for i in range(self.num_envs)] if isinstance(given, int) else list(given)
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed must be a number, or {self.num_envs} of them (one for each copy), got {len(seeds)}")
        for row in rows[~self._seeded[rows]].tolist():
            if seeds[row] is None:
                seeds[row] = int(self.np_random.integers(2**63 - 1))
        self._seeded[rows] = True
        for new in (True, False):
            if chosen := [row for row in rows.tolist() if (seeds[row] is not None) is new]:
                self.batch.reset(chosen, seeds=[seeds[row] for row in chosen] if new else None)

    def _step_or_reset(self, actions: Numbers) -> tuple[Numbers, Numbers, NDArray[np.bool_], NDArray[np.bool_]]:
        """Gymnasium's "NextStep": copies that ended are reset instead, and their actions ignored."""
        obs, reward = np.empty((self.num_envs, self.batch.obs_dim)), np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), bool)
        going, ended = np.flatnonzero(~self._ended), np.flatnonzero(self._ended)
        if going.size:
            obs[going], reward[going], terminated[going], truncated[going] = self.batch.step(actions[going], going)
        obs[ended] = self.batch.reset(ended)
        return obs, reward, terminated, truncated

    def _final(self, obs: Numbers, rows: NDArray[np.int64]) -> dict[str, Any]:
        """Gymnasium's "SameStep": the last observations of the copies that ended."""
        mask = np.isin(self.batch.everyone, rows)
        seen, last = packed(self.batch, obs, rows), np.full(self.num_envs, None, dtype=object)
        for place, row in enumerate(rows):
            last[row] = {name: part[place] for name, part in seen.items()} if isinstance(seen, dict) else seen[place]
        info = _masked(self.batch.info(rows), rows, self.num_envs)
        return {"final_obs": last, "_final_obs": mask, "final_info": info, "_final_info": mask.copy()}


class AntMazeVectorEnv(AntVectorEnv):
    """Many `AntMazeEnv`."""

    single = AntMazeEnv


class AntMazeSparseVectorEnv(AntVectorEnv):
    """Many `AntMazeSparseEnv`."""

    single = AntMazeSparseEnv


class AntGatherVectorEnv(AntVectorEnv):
    """Many `AntGatherEnv`."""

    single = AntGatherEnv


def _masked(info: dict[str, NDArray[Any]], rows: NDArray[np.int64], num_envs: int) -> dict[str, Any]:
    """Facts about some copies in the form of Gymnasium's vector environments: each with a mask of these copies."""
    result: dict[str, Any] = {}
    for name, values in info.items():
        result[name], result[f"_{name}"] = np.zeros(num_envs, values.dtype), np.zeros(num_envs, bool)
        result[name][rows], result[f"_{name}"][rows] = values, True
    return result


def _checked_mask(mask: Any, num_envs: int) -> NDArray[np.bool_]:
    array = np.asarray(mask)
    if array.shape != (num_envs,) or array.dtype != np.bool_ or not array.any():
        raise ValueError(f'options["reset_mask"] must be {num_envs} booleans, at least one of them true, got {mask!r}')
    return array
