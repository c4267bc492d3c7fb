"""A flat picture of an ant from above, without OpenGL."""

import mujoco
import numpy as np
from numpy.typing import NDArray

from hrac.envs import palette
from hrac.envs.ant import body
from hrac.envs.paint import Canvas, paint
from hrac.envs.sketch import Sketch

MARGIN = 0.02
LEG_PIXELS = 3.5


class FlatRenderer:
    """Draws flat pictures of one size."""

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        self.model, self.width, self.height = model, width, height

    def draw(self, data: mujoco.MjData, sketch: Sketch, subgoal: NDArray[np.float64] | None) -> NDArray[np.uint8]:
        """The picture (height, width, 3)."""
        canvas = paint(sketch, self.width, self.height, MARGIN)
        draw_ant(canvas, self.model, data)
        if subgoal is not None:
            canvas.star(subgoal, palette.SUBGOAL, palette.EDGE)
        return canvas.picture()

    def close(self) -> None:
        """Do nothing: no resources are held."""


def draw_ant(canvas: Canvas, model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Torso and legs, seen from above. Call `mj_forward` on `data` before."""
    for geom in range(model.ngeom):
        centre = data.geom_xpos[geom, :2]
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_CAPSULE:
            along = data.geom_xmat[geom].reshape(3, 3)[:2, 2] * model.geom_size[geom, 1]
            canvas.line(centre - along, centre + along, LEG_PIXELS, palette.AGENT)
        elif model.geom_bodyid[geom] == model.body(body.TORSO).id:
            canvas.disc(centre, model.geom_size[geom, 0], palette.AGENT)
