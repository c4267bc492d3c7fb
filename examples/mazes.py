"""All mazes of `hrac.envs.mazes` in one picture, each with an ant in its true size:  python examples/mazes.py mazes.png"""

import sys

import matplotlib.patches as patches
import numpy as np
from matplotlib.figure import Figure

from hrac.envs import palette
from hrac.envs.ant.maze import AntMaze
from hrac.envs.mazes import MAZES
from hrac.scenes.drawing import draw_map

ANT, TARGET = palette.rgba(palette.AGENT), palette.rgba(palette.APPLE)
LEG, TORSO = 0.8, 0.25
PAIRS = ("#4269d0", "#a463f2", "#ff725c", "#9c6b4e", "#3ca951")


def draw_ant(axis, x, y, colour=ANT):
    for dx, dy in ((LEG, LEG), (LEG, -LEG)):
        axis.plot((x - dx, x + dx), (y - dy, y + dy), color=colour, linewidth=1.2, solid_capstyle="round", zorder=3)
    axis.add_patch(patches.Circle((x, y), TORSO, color=colour, zorder=3))


def draw_pairs(axis, maze):
    for (start, target), colour, aside in zip(maze.pairs, PAIRS, np.linspace(-0.8, 0.8, 5), strict=True):
        start, target = np.array(start) + aside, np.array(target) + aside  # so that no two cover each other
        draw_ant(axis, *start, colour)
        axis.add_patch(patches.Circle(target, maze.success_radius, color=colour, alpha=0.8, linewidth=0, zorder=2))
        curve = "arc3,rad=0.12"
        line = {"arrowstyle": "-", "connectionstyle": curve, "linestyle": ":", "color": colour, "linewidth": 0.9}
        axis.add_patch(patches.FancyArrowPatch(start, target, shrinkA=0, shrinkB=0, **line))


def draw_targets(axis, maze):
    for x, y, radius in maze.evaluation().sketch().discs:
        axis.add_patch(patches.Circle((x, y), radius, color=TARGET, alpha=0.35, linewidth=0))
        axis.plot(x, y, "+", color="#1b5e20", markersize=6)
    if len(maze.starts) > 1:
        axis.plot(*maze.starts.T, ".", color=ANT, markersize=3)
    draw_ant(axis, *maze.starts[0])


figure = Figure(figsize=(13.0, 6.2), layout="constrained")
for axis, (name, row) in zip(figure.subplots(2, 5).ravel(), MAZES.items(), strict=True):
    maze = AntMaze(**row.fields)
    sketch = maze.sketch()
    draw_map(axis, sketch._replace(discs=()))
    (draw_pairs if maze.pairs else draw_targets)(axis, maze)
    low, high = np.array(maze.bounds)
    axis.set_title(f"{name}\n{high[0] - low[0]:g} x {high[1] - low[1]:g}, {maze.time_limit:,} steps", fontsize=10)
    axis.set_xticks([low[0], high[0]])
    axis.set_yticks([low[1], high[1]])
    axis.tick_params(labelsize=7, length=2)
figure.savefig(sys.argv[1], dpi=130)
