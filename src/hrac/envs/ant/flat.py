"""A flat picture of an ant from above, by matplotlib: needs no OpenGL."""

import mujoco
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from numpy.typing import NDArray

from hrac.envs import palette
from hrac.envs.ant import body
from hrac.envs.ant.scene import Scene
from hrac.envs.palette import rgba

_DPI = 100


class FlatRenderer:
    """Draws flat pictures of one size."""

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        self.model = model
        self._figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI)
        self._canvas = FigureCanvasAgg(self._figure)
        self._axes = self._figure.add_axes((0.0, 0.0, 1.0, 1.0))

    def draw(self, data: mujoco.MjData, scene: Scene) -> NDArray[np.uint8]:
        """The picture (height, width, 3)."""
        self._axes.clear()
        draw_room(self._axes, scene)
        draw_ant(self._axes, self.model, data)
        self._axes.set_axis_off()
        self._canvas.draw()
        return np.asarray(self._canvas.buffer_rgba())[..., :3].copy()

    def close(self) -> None:
        """Nothing is held."""


def draw_room(axes: Axes, scene: Scene) -> None:
    """Walls, target, objects and subgoal into any axes, to scale."""
    left, right, bottom, top = scene.extent
    margin = 0.02 * (right - left)
    axes.set_xlim(left - margin, right + margin)
    axes.set_ylim(bottom - margin, top + margin)
    axes.set_aspect("equal")
    axes.set_facecolor(rgba(palette.FLOOR))
    axes.add_patch(Rectangle((left, bottom), right - left, top - bottom, facecolor=rgba(palette.FLOOR), zorder=0))
    if scene.target is not None:
        axes.add_patch(Circle(tuple(scene.target), scene.target_radius, facecolor=rgba(palette.TARGET, 0.35), linewidth=0))
        axes.plot(*scene.target, "o", color=rgba(palette.TARGET), markersize=9, zorder=2)
    for wall in scene.walls:
        (x, y, _), (dx, dy, _) = wall
        axes.add_patch(Rectangle((x - dx, y - dy), 2 * dx, 2 * dy, facecolor=rgba(palette.WALL), linewidth=0, zorder=3))
    for points, colour in ((scene.apples, palette.APPLE), (scene.bombs, palette.BOMB)):
        for point in points:
            axes.add_patch(Circle(tuple(point), 0.4, facecolor=rgba(colour), linewidth=0, zorder=4))
    if scene.subgoal is not None:
        axes.plot(
            *scene.subgoal, "*", color=rgba(palette.SUBGOAL), markeredgecolor="#202020", markersize=16, zorder=6, clip_on=False
        )


def draw_ant(axes: Axes, model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Torso and legs, seen from above; `data` must have been brought up to date by `mj_forward`."""
    colour = rgba(palette.AGENT)
    for geom in range(model.ngeom):
        centre = data.geom_xpos[geom, :2]
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_CAPSULE:
            along = data.geom_xmat[geom].reshape(3, 3)[:2, 2] * model.geom_size[geom, 1]
            ends = np.stack([centre - along, centre + along])
            axes.plot(ends[:, 0], ends[:, 1], color=colour, linewidth=2.5, solid_capstyle="round", zorder=5)
        elif model.geom_bodyid[geom] == model.body(body.TORSO).id:
            axes.add_patch(Circle(tuple(centre), model.geom_size[geom, 0], facecolor=colour, linewidth=0, zorder=5))
