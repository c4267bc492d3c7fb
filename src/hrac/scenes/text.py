"""An evaluation episode as text, for a terminal."""

import sys
import time
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from hrac.envs.layout import DOORS, MOVES
from hrac.envs.sketch import Sketch
from hrac.scenes.drawing import verdict
from hrac.scenes.film import caption
from hrac.scenes.story import Story

WIDEST = 40
"""Columns of a map that has no cells of its own."""
TALLEST = 2.0
"""A character is about twice as high as it is wide."""
KEY = "o agent   * subgoal   + past one, reached   x missed   : path"
KEY_WITHOUT_SUBGOALS = "o agent   : path"
_CLEAR, _HOME = "\x1b[2J", "\x1b[H"


def play(story: Story, steps_per_second: float, out: TextIO | None = None) -> None:
    """Show an episode step by step, each over the last one. Where `out` is no terminal: at each new subgoal and at the end."""
    out = out or sys.stdout
    live = out.isatty()
    steps = range(story.length + 1) if live else [*range(0, story.length, story.k), story.length]
    out.write(_CLEAR if live else "")
    for step in steps:
        out.write(f"{_HOME if live else ''}{page(story, step)}\n")
        out.flush()
        if live:
            time.sleep(1 / steps_per_second)


def page(story: Story, step: int) -> str:
    """A step: what it is, the map, the verdict on the last subgoal, and the meaning of the characters."""
    past = [window for window in story.windows if window.end <= step]
    last = f"last {verdict(past[-1])}" if past and past[-1].target is not None else ""
    sketch = story.sketches[0]
    key = KEY_WITHOUT_SUBGOALS if story.windows[0].target is None else KEY
    more = ["T target"] * bool(sketch.discs) + ["a apple   b bomb"] * bool(sketch.things)
    lines = [story.title, caption(story, step), *draw(story, step), last, "   ".join([key, *more])]
    return "\n".join(f"{line:<{len(KEY)}}" for line in lines)


def draw(story: Story, step: int) -> list[str]:
    """The map at a step, in as many lines as it has rows, or as fit."""
    sketch, window = story.sketches[step], story.window(step)
    page = _Page(sketch)
    page.put(story.place(story.positions[: step + 1]), ":")
    for past in story.past(step):
        if past.target is not None:
            page.put(story.place(past.target), "+" if past.reached else "x")
    for letter, x, y in sketch.marks:
        if letter != "A":
            page.put(np.array([x, y]), letter)
    if window.target is not None:
        page.put(story.place(window.target), "*")
    page.put(story.place(story.positions[step]), "o")
    return page.lines()


class _Page:
    """Characters over a map. A grid world has one for each cell."""

    def __init__(self, sketch: Sketch) -> None:
        left, right, bottom, top = sketch.extent
        self._corner, self._size = np.array([left, top]), np.array([right - left, bottom - top])
        cells = sketch.marks or sketch.arrows  # only the maps of grid worlds have these
        columns = round(right - left) if cells else WIDEST
        rows = round(abs(top - bottom)) if cells else max(round(WIDEST * sketch.aspect / TALLEST), 1)
        self._letters = np.full((rows, columns), ".")
        across, down = np.meshgrid((np.arange(columns) + 0.5) / columns, (np.arange(rows) + 0.5) / rows)
        x, y = left + across * self._size[0], top + down * self._size[1]
        for boxes, letter in ((sketch.chasms, "~"), (sketch.walls, "#"), (sketch.blocks, "M")):
            for box in boxes:
                inside = (x >= box.x) & (x < box.x + box.width) & (y >= box.y) & (y < box.y + box.height)
                self._letters[inside] = letter
        for disc in sketch.discs:
            free = (np.hypot(x - disc.x, y - disc.y) < disc.radius) & (self._letters == ".")
            self._letters[free] = "T"
            self.put(np.array([disc.x, disc.y]), "T")
        for thing in sketch.things:
            self.put(np.array([thing.x, thing.y]), "a" if thing.kind == "apple" else "b")
        doors = {(int(right), int(down)): door for door, (down, right) in zip(DOORS, MOVES.tolist(), strict=True)}
        for arrow in sketch.arrows:
            self.put(np.array([arrow.x, arrow.y]), doors[int(arrow.dx), int(arrow.dy)])

    def put(self, places: NDArray[np.float64], letter: str) -> None:
        """A character at places (..., 2) in drawing coordinates; those beyond the edge are put on it."""
        rows, columns = self._letters.shape
        across, down = np.moveaxis((places - self._corner) / self._size, -1, 0)
        row = np.clip(np.floor(down * rows).astype(int), 0, rows - 1)
        column = np.clip(np.floor(across * columns).astype(int), 0, columns - 1)
        self._letters[row, column] = letter

    def lines(self) -> list[str]:
        return ["".join(row) for row in self._letters.tolist()]
