"""Pictures of an ant by MuJoCo's OpenGL renderer, from above or from a camera that follows it. No screen is needed."""

import importlib
import os
import platform
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from hrac.envs import palette
from hrac.envs.ant import body
from hrac.envs.paint import THING_RADIUS, THINGS
from hrac.envs.palette import rgba
from hrac.envs.sketch import Sketch
from hrac.errors import HracError

_MAX_GEOMS = 2000
_SPHERE, _CYLINDER, _BOX = mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_CYLINDER, mujoco.mjtGeom.mjGEOM_BOX


class RenderingUnavailableError(HracError, RuntimeError):
    """OpenGL is not available; the message says what to do."""


class Renderer:
    """Draws states of one model in pictures of one size."""

    def __init__(self, model: mujoco.MjModel, camera: str, width: int, height: int) -> None:
        self.model, self.camera = model, camera
        self._context = _gl_context(width, height)
        self._context.make_current()
        self._graphics = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._graphics)
        self._frame = mujoco.MjrRect(0, 0, width, height)
        self._visible = mujoco.MjvScene(model, maxgeom=_MAX_GEOMS)

    def draw(self, data: mujoco.MjData, sketch: Sketch, subgoal: NDArray[np.float64] | None) -> NDArray[np.uint8]:
        """The picture (height, width, 3)."""
        camera = self._top(sketch) if self.camera == "top" else self._follow(sketch)
        options, everything = mujoco.MjvOption(), mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(self.model, data, options, None, camera, everything, self._visible)
        self._visible.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = self.camera != "top"
        for light in self._visible.lights[1 : self._visible.nlight]:  # the first is at the camera
            light.pos[:2] = data.body(body.TORSO).xpos[:2] - 10 * light.dir[:2]
        self._decorate(sketch, subgoal)
        self._context.make_current()
        mujoco.mjr_render(self._frame, self._visible, self._graphics)
        image = np.empty((self._frame.height, self._frame.width, 3), np.uint8)
        mujoco.mjr_readPixels(image, None, self._frame, self._graphics)
        rows_first = image[::-1]
        if sketch.downward:  # a mirror image has y downward, as the map has
            rows_first = rows_first[::-1] if self.camera == "top" else rows_first[:, ::-1]
        return rows_first.copy()

    def close(self) -> None:
        """Free the resources of the graphics driver."""
        self._context.make_current()
        self._graphics.free()
        self._context.free()

    def _top(self, sketch: Sketch) -> mujoco.MjvCamera:
        left, right, bottom, top = sketch.extent
        camera = mujoco.MjvCamera()
        camera.type = mujoco.mjtCamera.mjCAMERA_FREE.value
        camera.lookat[:] = (left + right) / 2, (bottom + top) / 2, 0.0
        camera.azimuth, camera.elevation, camera.distance = 90.0, -90.0, 50.0
        camera.orthographic = 1
        self.model.vis.global_.fovy = 1.04 * max(abs(top - bottom), (right - left) * self._frame.height / self._frame.width)
        return camera

    def _follow(self, sketch: Sketch) -> mujoco.MjvCamera:
        camera = mujoco.MjvCamera()
        camera.type = mujoco.mjtCamera.mjCAMERA_TRACKING.value
        camera.trackbodyid = self.model.body(body.TORSO).id
        # Looks along y; where y is downward, against it, so that the top of a picture is that of the map. Steeply
        # down, so that a wall beside the ant does not hide it.
        camera.distance, camera.azimuth, camera.elevation = 11.0, -100.0 if sketch.downward else 100.0, -74.0
        self.model.vis.global_.fovy = 45.0
        return camera

    def _decorate(self, sketch: Sketch, subgoal: NDArray[np.float64] | None) -> None:
        ground = sketch.floor + 0.02
        for x, y, width, height in sketch.chasms:
            self._put(_BOX, (x + width / 2, y + height / 2), (width / 2, height / 2, 0.01), rgba(palette.CHASM), 0.01)
        for x, y, radius in sketch.discs:
            self._put(_CYLINDER, (x, y), (radius, 0.01, 0.0), rgba(palette.TARGET, 0.25), ground)
            self._put(_CYLINDER, (x, y), (0.4, 0.03, 0.0), rgba(palette.TARGET), ground)
        for x, y, kind in sketch.things:
            self._put(_SPHERE, (x, y), (THING_RADIUS,) * 3, rgba(THINGS[kind]), THING_RADIUS)
        if subgoal is not None:
            self._put(_CYLINDER, subgoal, (0.06, 0.5, 0.0), rgba(palette.SUBGOAL), sketch.floor + 0.5)
            self._put(_SPHERE, subgoal, (0.35, 0.35, 0.35), rgba(palette.SUBGOAL), sketch.floor + 1.1)

    def _put(self, shape: mujoco.mjtGeom, point: Any, size: Any, colour: Any, z: float) -> None:
        if self._visible.ngeom >= _MAX_GEOMS:
            return
        geom = self._visible.geoms[self._visible.ngeom]
        where, turned, painted = np.array([*point, z]), np.eye(3).ravel(), np.array(colour, np.float32)
        mujoco.mjv_initGeom(geom, shape.value, np.array(size), where, turned, painted)
        self._visible.ngeom += 1


def _gl_context(width: int, height: int) -> Any:
    """An OpenGL context of the kind that MUJOCO_GL names, else the first kind that works."""
    requested = os.environ.get("MUJOCO_GL", "").lower()
    usual = {"Linux": ["egl", "glfw"], "Darwin": ["cgl", "glfw"]}.get(platform.system(), ["glfw"])
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) and platform.system() == "Linux":
        usual = ["egl"]
    problems = []
    for kind in [requested] if requested in ("egl", "glfw", "osmesa", "cgl") else usual:
        if kind == "egl":  # a window of pygame that uses OpenGL too would end the program, or EGL when it is closed
            os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
        try:
            return importlib.import_module(f"mujoco.{kind}").GLContext(width, height)
        except Exception as error:  # the bindings raise AttributeError, ImportError, RuntimeError, GLError
            problems.append(f"{kind}: {type(error).__name__}: {error}")
    raise RenderingUnavailableError(
        "OpenGL pictures need a graphics library that was not found here. On Debian or Ubuntu: apt install libegl1 "
        'libgl1-mesa-dri (EGL in software, no screen needed). Or draw without OpenGL: camera="map". '
        f"Tried {'; '.join(problems)}"
    )
