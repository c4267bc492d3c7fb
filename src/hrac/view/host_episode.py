"""One evaluation episode of an agent on the host (ant or point), as `view.episode` shows those of the grid worlds."""

import functools
import math
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, TwoSlopeNorm
from matplotlib.patches import Circle
from numpy.typing import NDArray

from hrac.envs import palette
from hrac.envs.blocks import BlockMaze
from hrac.training.policies import HostPolicy
from hrac.view.episode import PATH, SUBGOAL, WALL, panels

PANELS = 18
POINTS = 60
"""Points of the heatmap along a side."""

OBJECTS = (("o", palette.rgba(palette.APPLE)), ("X", PATH))
"""How apples and bombs are drawn. Red is taken by what is far."""


@runtime_checkable
class Gathering(Protocol):
    """Copies of a task with things to collect."""

    objects: NDArray[np.float64]
    present: NDArray[np.bool_]


@runtime_checkable
class Aiming(Protocol):
    """Copies that each have a target, told or not."""

    targets: NDArray[np.float64]


class Record(NamedTuple):
    """What happened, step by step."""

    position: NDArray[np.float32]
    """Where the agent was before each step, and at the end (steps + 1, 2)."""
    asked: NDArray[np.float32]
    """The point that the subgoal asked for at each step (steps, 2)."""
    total: float
    success: bool
    target: NDArray[np.float64] | None
    objects: list[NDArray[np.float64]]
    """What there was to collect before each step: rows of (x, y, kind), kind 0 an apple, 1 a bomb; nothing where none is."""


def play(policy: HostPolicy, episode_seed: int) -> Record:
    """One episode without noise."""
    env = policy.task.evaluation().batch(1, 1)
    obs = env.reset(seeds=[episode_seed])
    target = env.targets[0].copy() if isinstance(env, Aiming) else None
    policy.reset()
    positions, asked, objects, total, done = [obs[0, :2]], [], [], 0.0, False
    while not done:
        objects.append(env.objects[0, env.present[0]] if isinstance(env, Gathering) else np.zeros((0, 3)))
        action = policy.act(np.concatenate([obs[0], env.context[0]]))
        asked.append(policy.target.copy())
        after = env.step(action[None])
        obs, total = after.obs, total + float(after.reward[0])
        positions.append(obs[0, :2])
        done = bool(after.terminated[0] or after.truncated[0])
    return Record(np.array(positions, np.float32), np.array(asked), total, bool(after.terminated[0]), target, objects)


def draw(policy: HostPolicy, path: Path, episode_seed: int = 0) -> None:
    """Play an episode and write its picture; blue places are judged within k steps of the agent, red ones beyond."""
    record, threshold = play(policy, episode_seed), policy.config.adjacency.threshold
    windows = np.arange(0, len(record.asked), policy.config.k)
    starts = windows[:: math.ceil(len(windows) / PANELS)].tolist()
    title = f"{policy.config.task}, seed {policy.seed}: return {record.total:.1f} in {len(record.asked)} steps"
    if policy.task.evaluation().ends_on_success:
        title += ", done" if record.success else ", not done"
    panels(functools.partial(_draw_window, policy=policy, record=record), starts, 2.2, title, threshold, path)


def _draw_window(axis: Axes, policy: HostPolicy, record: Record, start: int, norm: TwoSlopeNorm) -> None:
    (left, bottom), (right, top) = policy.space.low, policy.space.high
    margin = 0.06 * (right - left)
    extent = (left - margin, right + margin, bottom - margin, top + margin)
    x, y = np.meshgrid(np.linspace(*extent[:2], POINTS), np.linspace(*extent[2:], POINTS))
    points = np.stack([x, y], axis=-1).reshape(-1, 2)
    here = record.position[start]
    if isinstance(policy.task, BlockMaze):
        walls = policy.task.in_wall(points)
    else:
        walls = np.any((points < policy.space.low) | (points > policy.space.high), axis=1, keepdims=True)[:, 0]
    heat = np.where(walls, np.nan, _distances(policy, here, points)).reshape(POINTS, POINTS)
    wall = ListedColormap([WALL])
    axis.imshow(np.where(walls.reshape(POINTS, POINTS), 1.0, np.nan), cmap=wall, origin="lower", extent=extent)
    axis.imshow(heat, cmap="RdYlBu_r", norm=norm, origin="lower", extent=extent)
    if record.target is not None:
        radius = getattr(policy.task, "success_radius", 1.0)
        axis.add_patch(Circle(tuple(record.target), radius, fill=False, edgecolor=PATH, linestyle="--", linewidth=0.8))
    for x, y, kind in record.objects[start]:
        marker, colour = OBJECTS[int(kind)]
        axis.plot(x, y, marker, color=colour, markeredgecolor="white", markeredgewidth=0.6, markersize=6)
    walked = record.position[: start + 1]
    axis.plot(walked[:, 0], walked[:, 1], color=PATH, linewidth=1.4, solid_capstyle="round")
    axis.plot(*here, "o", color=PATH, markersize=6)
    axis.plot(*record.asked[start], "*", color=SUBGOAL, markeredgecolor=PATH, markersize=12, clip_on=False)
    axis.set_xlim(extent[:2])
    axis.set_ylim(extent[2:])


def _distances(policy: HostPolicy, here: NDArray[np.float32], points: NDArray[np.float64]) -> NDArray[np.float32]:
    """Learned distance from a place to others."""
    obs = np.broadcast_to(here, (1, len(points), 2)).astype(np.float32)
    return policy.hierarchy.distance(policy.actors, obs, (points - here).astype(np.float32)[None])[0]
