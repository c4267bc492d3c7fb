"""One evaluation episode as the paper shows it: at each new subgoal the map, the path so far and the adjacency heatmap."""

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hrac.adjacency import network
from hrac.envs import palette
from hrac.envs.grid import GridWorld
from hrac.training.evaluate import Episode, play
from hrac.training.policies import Policy

COLUMNS = 7
WALL = palette.rgba(palette.WALL)
PATH = "#202020"
SUBGOAL = palette.rgba(palette.SUBGOAL)


def draw(policy: Policy, path: Path, episode_seed: int = 0) -> None:
    """Play an episode and write its picture; blue cells are judged within k steps of the agent, red ones beyond."""
    if not isinstance(policy.env, GridWorld):
        raise NotImplementedError("pictures are drawn of grid worlds only")
    play_once = jax.jit(lambda key: play(key, policy.agent, policy.env, policy.space, policy.config))
    episode: Episode = jax.device_get(play_once(jax.random.key(episode_seed)))
    length, k = int(episode.alive.sum()), policy.config.k
    result = "done" if episode.terminated[:length].any() else "not done"
    total = float(episode.reward[:length].sum())
    title = f"{policy.config.task}, seed {policy.seed}: return {total:.1f} in {length} steps, {result}"
    draw_window = functools.partial(_draw_window, policy=policy, episode=episode)
    panels(draw_window, range(0, length, k), 1.68, title, policy.config.adjacency.threshold, path)


def panels(
    draw_window: Callable[..., None], starts: Sequence[int], row_height: float, title: str, threshold: float, path: Path
) -> None:
    """A picture of windows of an episode, each drawn by `draw_window(axis, start=..., norm=...)`, and a bar for the colours."""
    rows = math.ceil(len(starts) / COLUMNS)
    columns = math.ceil(len(starts) / rows)
    figure = Figure(figsize=(2.1 * columns + 0.5, row_height * rows + 0.55), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    norm = TwoSlopeNorm(threshold, 0.0, 3 * threshold)
    for axis, start in zip(axes, starts, strict=False):
        draw_window(axis, start=int(start), norm=norm)
        axis.set_title(f"step {start}", fontsize=8, pad=3)
        axis.set_xticks([])
        axis.set_yticks([])
    for axis in axes[len(starts) :]:
        axis.set_axis_off()
    figure.suptitle(title, fontsize=11)
    colours = matplotlib.cm.ScalarMappable(norm, "RdYlBu_r")
    bar = figure.colorbar(colours, ax=axes, location="right", shrink=0.8, aspect=30, label="learned distance from the agent")
    bar.set_ticks([0.0, threshold, 3 * threshold])
    bar.set_ticklabels(["0", "k steps", "far"])
    figure.savefig(path, dpi=110)


def _draw_window(axis: Axes, policy: Policy, episode: Episode, start: int, norm: TwoSlopeNorm) -> None:
    env, space = policy.env, policy.space
    assert isinstance(env, GridWorld)
    position = episode.obs[start, : space.dimensions]
    target = np.asarray(space.target(jnp.asarray(episode.subgoal[start]), jnp.asarray(position)))
    walls = env.layout.walls
    heat = np.full(walls.shape, np.nan)
    heat[tuple(env.cells.T)] = _distances(policy, np.asarray(position))
    axis.imshow(np.where(walls, 1.0, np.nan), cmap=matplotlib.colors.ListedColormap([WALL]))
    axis.imshow(heat, cmap="RdYlBu_r", norm=norm)
    path = episode.obs[: start + 1, : space.dimensions]
    axis.plot(path[:, 1], path[:, 0], color=PATH, linewidth=1.4, solid_capstyle="round")
    axis.plot(position[1], position[0], "o", color=PATH, markersize=6)
    axis.plot(target[1], target[0], "*", color=SUBGOAL, markeredgecolor=PATH, markersize=12, clip_on=False)
    for letter, cell in env.layout.marks.items():
        if letter != "A":
            axis.text(cell[1], cell[0], letter, ha="center", va="center", fontsize=9, fontweight="bold")


def _distances(policy: Policy, position: NDArray[np.float32]) -> NDArray[np.float32]:
    """Learned distance from a position to every free cell."""
    assert isinstance(policy.env, GridWorld)
    cells = jnp.asarray(policy.env.cells, jnp.float32)
    distance = jax.vmap(network.distance, (None, None, 0))
    return np.asarray(distance(policy.agent.adjacency.embedding, jnp.asarray(position), cells))
