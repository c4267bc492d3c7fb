"""Draws copies of a batch for Gymnasium's `render`."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from hrac.envs.ant import body
from hrac.envs.ant.batch import AntBatch

CAMERAS = ("top", "follow", "map")
RENDER_MODES = ["rgb_array"]
FPS = round(1 / (body.TIME_STEP * body.FRAME_SKIP))


class Viewer:
    """Draws pictures. The renderer is made when it is first needed, and is not pickled."""

    def __init__(self, batch: AntBatch, render_mode: str | None, camera: str, width: int, height: int) -> None:
        if render_mode not in (None, *RENDER_MODES):
            raise ValueError(f"render_mode must be None or one of {RENDER_MODES}, got {render_mode!r}")
        if camera not in CAMERAS:
            raise ValueError(f"camera must be one of {', '.join(CAMERAS)}, got {camera!r}")
        if not (1 <= width <= body.MAX_PIXELS and 1 <= height <= body.MAX_PIXELS):
            raise ValueError(f"width and height must be from 1 to {body.MAX_PIXELS}, got {width} and {height}")
        self.batch, self.render_mode, self.camera, self.size = batch, render_mode, camera, (width, height)
        self._renderer: Any = None

    def frame(self, copy: int, subgoal: ArrayLike | None) -> Any:
        """A picture (height, width, 3) of one copy."""
        if self.render_mode is None:
            gymnasium.logger.warn('nothing is rendered: make the environment with render_mode="rgb_array"')
            return None
        if self.batch.episodes[copy] < 0:
            raise gymnasium.error.ResetNeeded("call reset() before render()")
        if self._renderer is None:
            self._renderer = self._make()
        shown = None if subgoal is None else np.asarray(subgoal, np.float64)[:2]
        return self._renderer.draw(self.batch.data(copy), self.batch.sketch(copy), shown)

    def _make(self) -> Any:
        if self.camera == "map":
            from hrac.envs.ant.flat import FlatRenderer

            return FlatRenderer(self.batch.model, *self.size)
        from hrac.envs.ant.opengl import Renderer

        return Renderer(self.batch.model, self.camera, *self.size)

    def close(self) -> None:
        """Free the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_renderer": None}
