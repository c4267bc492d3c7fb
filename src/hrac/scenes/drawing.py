"""The one drawing of a map with matplotlib, and of a step of an episode on it: for pictures and films."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch, PathPatch, Rectangle
from matplotlib.patheffects import Normal, Stroke
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray

from hrac.envs import palette
from hrac.envs.palette import rgba
from hrac.envs.sketch import Sketch
from hrac.scenes.story import Story, Window

WALL, EDGE, SUBGOAL, AGENT = (rgba(colour) for colour in (palette.WALL, palette.EDGE, palette.SUBGOAL, palette.AGENT))
TARGET, CONTOUR = rgba(palette.TARGET), rgba(palette.CONTOUR)
CHASMS: dict[str, Any] = {"facecolor": "none", "edgecolor": rgba(palette.CHASM), "linewidth": 0.0, "hatch": "////"}
BLOCKS: dict[str, Any] = {"facecolor": rgba(palette.BLOCK), "edgecolor": WALL, "linewidth": 0.6}

MARKS = {"G": ("goal", palette.TARGET), "K": ("key", palette.KEY), "C": ("chest", palette.CHEST)}
"""What the letters of a layout mean, and their colours."""
LETTER_HEIGHT = 0.6
"""Of a cell."""
THINGS = {"apple": ("o", palette.APPLE), "bomb": ("^", palette.BOMB)}
"""How things are drawn. A cross is a subgoal that was missed."""
DISTANCES = LinearSegmentedColormap.from_list(
    "adjacency",
    [(0.0, rgba(palette.NEAR)), (0.5, rgba(palette.AT_K)), (0.56, rgba(palette.BEYOND)), (1.0, rgba(palette.BEYOND))],
)
"""Colours of learned distances from 0 to twice the threshold."""

STYLES: dict[str, dict[str, Any]] = {
    "path": {"color": EDGE, "linewidth": 1.8, "solid_capstyle": "round"},
    "ahead": {"color": EDGE, "linewidth": 1.3, "linestyle": (0, (1.2, 1.2))},
    "agent": {"marker": "o", "color": AGENT, "markeredgecolor": "white", "markeredgewidth": 1.6, "markersize": 10},
    "start": {"marker": "s", "color": "white", "markeredgecolor": EDGE, "markeredgewidth": 1.4, "markersize": 6},
    "subgoal": {"marker": "*", "color": SUBGOAL, "markeredgecolor": EDGE, "markeredgewidth": 1.0, "markersize": 16},
    "outside": {"marker": "*", "color": "white", "markeredgecolor": EDGE, "markeredgewidth": 1.4, "markersize": 16},
    "reached": {"marker": "o", "color": SUBGOAL, "markeredgecolor": EDGE, "markeredgewidth": 0.8, "markersize": 5},
    "missed": {"marker": "x", "color": rgba(palette.MISSED), "markeredgewidth": 1.4, "markersize": 4.5},
}
"""How the parts of an episode are drawn, and shown in a legend."""
HALOS = {"path": 4.2, "ahead": 4.2, "missed": 3.0}
"""Widths of the light lines around them on a map."""


def draw_map(axis: Axes, sketch: Sketch, size: float = 1.0) -> None:
    """Walls, chasms, blocks, one-way doors, marks, targets and things, and nothing else around them.

    `size` is that of marks which do not grow with the map; below 1 for small panels.
    """
    for x, y, radius in sketch.discs:
        axis.add_patch(Circle((x, y), radius, facecolor=(*TARGET[:3], 0.22), edgecolor=TARGET, linestyle="--", linewidth=1.4))
        axis.plot(x, y, "o", color=TARGET, markeredgecolor="white", markersize=7 * size)
    walls = [Rectangle((x, y), width, height) for x, y, width, height in sketch.walls]
    axis.add_collection(PatchCollection(walls, facecolor=WALL, edgecolor=WALL, linewidth=0.2))
    for boxes, style in ((sketch.chasms, CHASMS), (sketch.blocks, BLOCKS)):
        axis.add_collection(PatchCollection([Rectangle((x, y), width, height) for x, y, width, height in boxes], **style))
    for letter, x, y in sketch.marks:
        if letter in MARKS:
            axis.add_patch(Rectangle((x - 0.5, y - 0.5), 1.0, 1.0, facecolor=rgba(MARKS[letter][1]), edgecolor="white"))
            axis.add_patch(_letter(letter, x, y, sketch.downward))
    for x, y, dx, dy in sketch.arrows:
        shaft = {"width": 0.06, "head_width": 0.5, "head_length": 0.4, "length_includes_head": True}
        axis.arrow(x - 0.35 * dx, y - 0.35 * dy, 0.7 * dx, 0.7 * dy, facecolor=WALL, edgecolor="none", **shaft)
    for x, y, kind in sketch.things:
        marker, colour = THINGS[kind]
        axis.plot(x, y, marker, color=rgba(colour), markeredgecolor="white", markeredgewidth=0.8 * size, markersize=9 * size)
    axis.set(xlim=sketch.extent[:2], ylim=sketch.extent[2:], aspect="equal", xticks=[], yticks=[])
    axis.set_facecolor(rgba(palette.FLOOR))
    axis.spines[:].set_color(rgba(palette.CHASM))


def _letter(letter: str, x: float, y: float, downward: bool) -> PathPatch:
    """A letter in the middle of a cell, which it fits in pictures of any size."""
    path = TextPath((0, 0), letter, size=1, prop=FontProperties(weight="bold"))
    box = path.get_extents()
    middle = Affine2D().translate(-(box.x0 + box.x1) / 2, -(box.y0 + box.y1) / 2)
    sized = middle.scale(LETTER_HEIGHT / box.height, (-1 if downward else 1) * LETTER_HEIGHT / box.height)
    return PathPatch(sized.translate(x, y).transform_path(path), color="black", linewidth=0)


def outline(axis: Axes, cells: NDArray[np.bool_], colour: Any = "white", style: str = "-", width: float = 1.8) -> None:
    """Lines around those cells of a grid (rows, columns) that are true, along their borders."""
    below = [[(c - 0.5, r + 0.5), (c + 0.5, r + 0.5)] for r, c in np.argwhere(cells[1:] != cells[:-1])]
    right = [[(c + 0.5, r - 0.5), (c + 0.5, r + 0.5)] for r, c in np.argwhere(cells[:, 1:] != cells[:, :-1])]
    axis.add_collection(LineCollection(below + right, colors=colour, linestyles=style, linewidths=width, zorder=3))


def draw_heat(axis: Axes, heat: NDArray[np.float64], sketch: Sketch, size: float = 1.0) -> None:
    """Learned distances (`Story.heat`), and the line within which places are judged to be within k steps."""
    left, right, bottom, top = sketch.extent
    low_first = (left, right, min(bottom, top), max(bottom, top))
    axis.imshow(heat, cmap=DISTANCES, vmin=0.0, vmax=2.0, origin="lower", extent=low_first, interpolation="bilinear")
    if heat.min() < 1.0 < heat.max():
        xs, ys = (np.linspace(*ends, heat.shape[axis]) for ends, axis in ((low_first[:2], 1), (low_first[2:], 0)))
        axis.contour(xs, ys, heat, [1.0], colors=[CONTOUR], linewidths=1.6 * size, zorder=0.5)  # walls are drawn over it


def draw_step(axis: Axes, story: Story, step: int, ahead: bool = False, size: float = 1.0) -> None:
    """A step of an episode: the map, the learned distances, the path so far, subgoals past and present.

    `ahead` shows too how the agent goes on until the next subgoal. A subgoal outside of the map is a hollow star at its edge.
    `size` is that of marks and lines.
    """
    sketch, window = story.sketches[step], story.window(step)
    heat = story.heat(step)
    if heat is not None:
        draw_heat(axis, heat, sketch, size)
    draw_map(axis, sketch, size)
    way = story.place(story.positions)
    axis.plot(*way[: step + 1].T, **_look("path", size))
    if ahead:
        axis.plot(*way[step : window.end + 1].T, **_look("ahead", size))
    for past in story.past(step):
        if past.target is not None and sketch.shows(story.place(past.target)):
            _put(axis, story.place(past.target), "reached" if past.reached else "missed", size, zorder=3.0)
    _put(axis, way[0], "start", size)
    if window.target is not None:
        place = story.place(window.target)
        _put(axis, sketch.nearest(place), "subgoal" if sketch.shows(place) else "outside", size)
    _put(axis, way[step], "agent", size)


def _put(axis: Axes, place: NDArray[np.float64], style: str, size: float, zorder: float = 4.0) -> None:
    axis.plot(*place, linestyle="", clip_on=False, zorder=zorder, **_look(style, size))


def _look(style: str, size: float) -> dict[str, Any]:
    """A style of this size, with its halo."""
    look = STYLES[style]
    sized: dict[str, Any] = {name: size * look[name] for name in ("markersize", "markeredgewidth", "linewidth") if name in look}
    if style in HALOS:
        sized["path_effects"] = [Stroke(linewidth=size * HALOS[style], foreground="white", alpha=0.85), Normal()]
    return look | sized


def title_pad(story: Story, steps: Sequence[int], pad: float) -> float:
    """Points between panels and their titles: `pad`, or more if the star of a subgoal above the map would cover a letter."""
    targets = ((step, story.window(step).target) for step in steps)
    places = [(story.sketches[step], story.place(target)) for step, target in targets if target is not None]
    top = any(sketch.nearest(place)[1] == sketch.extent[3] for sketch, place in places)
    return STYLES["outside"]["markersize"] / 2 + 5.0 if top else pad  # letters go below the line that they stand on


def verdict(window: Window) -> str:
    """Whether a subgoal was reached, in words."""
    if window.target is None:
        return ""
    return "subgoal reached" if window.reached else f"subgoal missed by {window.miss:.1f}"


def legend(story: Story, steps: Sequence[int], ahead: bool = False) -> list[Any]:
    """An entry for everything that is seen at these steps."""
    return list(_entries(story, steps, ahead))


def _entries(story: Story, steps: Sequence[int], ahead: bool) -> Iterator[Any]:
    def mark(style: str, label: str) -> Line2D:
        line = {} if style in ("path", "ahead") else {"linestyle": ""}
        return Line2D([], [], label=label, **(line | STYLES[style]))

    def shown(windows: Iterable[Window]) -> list[tuple[bool, Window]]:
        """Windows with subgoals, and whether these are on the map."""
        targets = ((story.place(window.target), window) for window in windows if window.target is not None)
        return [(story.sketches[0].shows(place), window) for place, window in targets]

    present = {inside for inside, _ in shown(story.window(step) for step in steps)}
    past = {window.reached for inside, window in shown(story.past(max(steps))) if inside}
    yield mark("start", "start")
    yield mark("path", "path so far")
    if ahead:
        yield mark("ahead", f"its next {story.k} steps")
    yield mark("agent", "agent")
    if True in present:
        yield mark("subgoal", "subgoal")
    if False in present:
        yield mark("outside", "subgoal outside of the map")
    for style in ("reached", "missed"):
        if (style == "reached") in past:
            yield mark(style, f"past subgoal, {style}")
    if story.embedding is not None:
        label = f"judged within k = {story.k} steps"
        yield Patch(facecolor=rgba(palette.AT_K), edgecolor=CONTOUR, linewidth=1.6, label=label)
    sketch = story.sketches[0]
    if sketch.discs:
        yield Patch(facecolor=(*TARGET[:3], 0.22), edgecolor=TARGET, linestyle="--", linewidth=1.4, label="target")
    for letter in dict.fromkeys(mark.letter for mark in sketch.marks if mark.letter in MARKS):
        name, colour = MARKS[letter]
        yield Line2D([], [], linestyle="", marker="s", color=rgba(colour), markersize=9, label=f"{letter}: {name}")
    for kind in dict.fromkeys(thing.kind for thing in sketch.things):
        marker, colour = THINGS[kind]
        yield Line2D([], [], linestyle="", marker=marker, color=rgba(colour), markersize=9, label=kind)
    if sketch.chasms:
        yield Patch(label="chasm", **CHASMS)
    if sketch.blocks:
        yield Patch(label="box to push", **BLOCKS)
