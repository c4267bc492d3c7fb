"""One evaluation episode as the paper shows it: at each new subgoal the map, the path so far and the adjacency heatmap."""

import math
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from numpy.typing import NDArray

from hrac.adjacency import network
from hrac.envs import palette
from hrac.envs.sketch import Sketch
from hrac.errors import HracError
from hrac.training.policies import Policy
from hrac.worlds.base import Episode

COLUMNS = 7
NARROWEST = 5.0
"""Inches: room for the title."""
PANELS = 18
POINTS = 80
"""Points of the heatmap along a side."""

WALL = palette.rgba(palette.WALL)
WALLS: dict[str, Any] = {"facecolor": WALL, "edgecolor": WALL, "linewidth": 0.2}
CHASMS: dict[str, Any] = {"facecolor": "none", "edgecolor": palette.rgba(palette.CHASM), "linewidth": 0.0, "hatch": "////"}
BLOCKS: dict[str, Any] = {"facecolor": palette.rgba(palette.BLOCK), "edgecolor": WALL, "linewidth": 0.6}
PATH = "#202020"
SUBGOAL = palette.rgba(palette.SUBGOAL)
THINGS = {"apple": ("o", palette.rgba(palette.APPLE)), "bomb": ("X", PATH)}
"""How things are drawn. Red already means far."""


class NoMapError(HracError):
    """A task that cannot be drawn; the message says why."""


def draw(policy: Policy, path: Path, episode_seed: int = 0) -> None:
    """Play an episode and write its picture. Blue places are judged to be within k steps of the agent, red ones beyond."""
    episode, sketches = policy.player.watch(episode_seed)
    if not sketches:
        raise NoMapError(
            f"{policy.config.task} has no map to draw: it needs two coordinates and a method `sketch` (hrac.envs.sketch)"
        )
    threshold, windows = policy.config.adjacency.threshold, np.arange(0, len(episode.reward), policy.config.k)
    starts = windows[:: math.ceil(len(windows) / PANELS)].tolist()
    rows = math.ceil(len(starts) / COLUMNS)
    columns = math.ceil(len(starts) / rows)
    left, right, bottom, top = sketches[0].extent
    row_height = 2.1 * min(abs(top - bottom) / (right - left), 2.0) + 0.25
    figure = Figure(figsize=(max(2.1 * columns + 0.5, NARROWEST), row_height * rows + 0.55), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    norm = TwoSlopeNorm(threshold, 0.0, 3 * threshold)
    for axis in axes:
        axis.set_axis_off()
    for axis, start in zip(axes, starts, strict=False):
        draw_step(axis, policy, episode, sketches[start], start, norm)
        axis.set_title(f"step {start}", fontsize=8, pad=3)
    figure.suptitle(_title(policy, episode), fontsize=11, wrap=True)
    if policy.actors.embedding is not None:
        colours = matplotlib.cm.ScalarMappable(norm, "RdYlBu_r")
        label = "learned distance from the agent"
        bar = figure.colorbar(colours, ax=axes, location="right", shrink=0.8, aspect=30, label=label)
        bar.set_ticks([0.0, threshold, 3 * threshold])
        bar.set_ticklabels(["0", "k steps", "far"])
    figure.savefig(path, dpi=110)


def _title(policy: Policy, episode: Episode) -> str:
    length, total = len(episode.reward), float(episode.reward.sum())
    title = f"{policy.config.task}, seed {policy.seed}: return {total:.1f} in {length} steps"
    if policy.task.evaluation().ends_on_success:
        title += ", success" if episode.terminated.any() else ", no success"
    return title


def draw_step(axis: Axes, policy: Policy, episode: Episode, sketch: Sketch, step: int, norm: TwoSlopeNorm) -> None:
    """One step of an episode: the map, the learned distances, the path so far, and the subgoal."""
    space = policy.setup.space
    positions = space.phi(episode.obs[: step + 1])
    here = positions[-1]
    draw_heat(axis, policy, here, sketch, norm)
    draw_map(axis, sketch)
    walked = sketch.place(positions)
    axis.plot(walked[:, 0], walked[:, 1], color=PATH, linewidth=1.4, solid_capstyle="round")
    axis.plot(*walked[-1], "o", color=PATH, markersize=6)
    if policy.config.manager.subgoals != "none":
        target = sketch.place(space.target(episode.subgoal[step], here))
        axis.plot(*target, "*", color=SUBGOAL, markeredgecolor=PATH, markersize=12, clip_on=False)


def draw_map(axis: Axes, sketch: Sketch) -> None:
    """Walls, chasms, blocks, one-way doors, marks, targets and things."""
    for boxes, style in ((sketch.walls, WALLS), (sketch.chasms, CHASMS), (sketch.blocks, BLOCKS)):
        patches = [Rectangle((x, y), width, height) for x, y, width, height in boxes]
        axis.add_collection(PatchCollection(patches, **style))
    for letter, x, y in sketch.marks:
        if letter != "A":
            axis.text(x, y, letter, ha="center", va="center", fontsize=9, fontweight="bold")
    for x, y, dx, dy in sketch.arrows:
        shaft = {"width": 0.06, "head_width": 0.5, "head_length": 0.4, "length_includes_head": True}
        axis.arrow(x - 0.35 * dx, y - 0.35 * dy, 0.7 * dx, 0.7 * dy, facecolor=WALL, edgecolor="none", **shaft)
    for x, y, radius in sketch.discs:
        axis.add_patch(Circle((x, y), radius, fill=False, edgecolor=PATH, linestyle="--", linewidth=0.8))
    for x, y, kind in sketch.things:
        marker, colour = THINGS[kind]
        axis.plot(x, y, marker, color=colour, markeredgecolor="white", markeredgewidth=0.6, markersize=6)
    axis.set_xlim(sketch.extent[:2])
    axis.set_ylim(sketch.extent[2:])
    axis.set_aspect("equal")


def draw_heat(axis: Axes, policy: Policy, here: NDArray[np.float32], sketch: Sketch, norm: TwoSlopeNorm) -> None:
    """The learned distance from a position to all points, if there is an adjacency network."""
    if policy.actors.embedding is None:
        return
    sides = [np.linspace(low, high, POINTS, dtype=np.float32) for low, high in zip(sketch.low, sketch.high, strict=True)]
    points = np.tile(here, (POINTS, POINTS, 1))
    points[..., 0], points[..., 1] = np.meshgrid(*sides, indexing="ij")
    heat = network.distance(policy.actors.embedding, here[None, None], points)  # (first, second coordinate)
    along = heat if sketch.across == 1 else heat.T
    left, right, bottom, top = sketch.extent
    low_first = (left, right, min(bottom, top), max(bottom, top))
    axis.imshow(along, cmap="RdYlBu_r", norm=norm, origin="lower", extent=low_first, interpolation="bilinear")
