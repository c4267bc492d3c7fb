"""Sketches of maps as pixels, in NumPy. Edges are smooth: a pixel's colour depends on the share of it that is covered."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hrac.envs import palette
from hrac.envs.sketch import Places, Rectangle, Sketch

Colour = tuple[int, int, int]
Numbers = NDArray[np.float64]
Window = tuple[slice, slice]
"""Rows and columns of a part of a picture."""

EVERYWHERE = (slice(None), slice(None))

MARKS = {"G": palette.TARGET, "K": palette.KEY, "C": palette.CHEST}
"""Marks that fill a cell. Others, such as the start, are not painted."""
THINGS = {"apple": palette.APPLE, "bomb": palette.BOMB}
THING_RADIUS = 0.4
DOT_PIXELS = 6.0
STAR_PIXELS = 11.0


class Canvas:
    """A picture in the drawing coordinates of a sketch, scaled and centred. It is white around the map."""

    def __init__(self, sketch: Sketch, width: int, height: int, margin: float = 0.0) -> None:
        left, right, bottom, top = sketch.extent
        beyond = 2 * margin * (right - left)
        across, along = right - left + beyond, abs(top - bottom) + beyond
        self.scale = min(width / across, height / along)
        """Pixels per unit."""
        self._centre = np.array([(left + right) / 2, (bottom + top) / 2])
        self._axes = self.scale * np.array([1.0, 1.0 if sketch.downward else -1.0])
        self._middle = np.array([width / 2, height / 2])
        self._shown = np.array([across, along]) * self.scale / 2
        self.image: Numbers = np.full((height, width, 3), 255.0)

    def picture(self) -> NDArray[np.uint8]:
        """The picture (height, width, 3)."""
        return np.rint(self.image).astype(np.uint8)

    def fill(self, rectangles: Iterable[Rectangle], colour: Colour) -> None:
        """Fill rectangles that do not overlap. There is no seam where two of them meet."""
        covered = np.zeros(self.image.shape[:2])
        for x, y, dx, dy in rectangles:
            corners = self._pixels([[x, y], [x + dx, y + dy]])
            (left, upper), (right, lower) = corners.min(axis=0), corners.max(axis=0)
            rows, columns = window = self._window(corners, 0.0)
            covered[window] += np.outer(_share(rows, upper, lower), _share(columns, left, right))
        self._blend(EVERYWHERE, np.minimum(covered, 1.0), colour)

    def disc(self, place: Places, radius: float, colour: Colour, alpha: float = 1.0) -> None:
        """Draw a disc with a radius in units."""
        self.line(place, place, 2 * radius * self.scale, colour, alpha)

    def line(self, start: Places, end: Places, pixels: float, colour: Colour, alpha: float = 1.0) -> None:
        """Draw a line with round ends, this many pixels wide."""
        ends = self._pixels(np.stack([np.asarray(start), np.asarray(end)]))
        window = self._window(ends, pixels / 2 + 1)
        self._blend(window, alpha * _inside(_distance(_centres(window), *ends) - pixels / 2), colour)

    def star(self, place: Places, colour: Colour, edge: Colour) -> None:
        """Draw a star of a fixed size with an edge."""
        turns = np.pi * (np.arange(10) / 5 - 0.5)
        radii = STAR_PIXELS * np.where(np.arange(10) % 2 == 0, 1.0, 0.4)
        corners = self._pixels(place) + radii[:, None] * np.stack([np.cos(turns), np.sin(turns)], axis=1)
        window = self._window(corners, 2.0)
        distance = _polygon(_centres(window), corners)
        self._blend(window, _inside(distance - 0.7), edge)
        self._blend(window, _inside(distance + 0.7), colour)

    def clear_around(self) -> None:
        """Paint everything outside the map and its margin white."""
        for axis, (middle, half) in enumerate(zip(self._middle, self._shown, strict=True)):
            pixels = np.swapaxes(self.image, 0, 1 - axis)
            centres = np.arange(len(pixels)) + 0.5
            pixels[np.abs(centres - middle) > half] = 255.0

    def _pixels(self, places: Places) -> Numbers:
        return self._middle + (np.asarray(places, np.float64) - self._centre) * self._axes

    def _window(self, points: Numbers, beyond: float) -> Window:
        """The part of the picture around some points."""
        size = self.image.shape[1::-1]
        left, upper = np.clip(np.floor(points.min(axis=0) - beyond), 0, size).astype(int).tolist()
        right, lower = np.clip(np.ceil(points.max(axis=0) + beyond), 0, size).astype(int).tolist()
        return slice(upper, lower), slice(left, right)

    def _blend(self, window: Window, covered: Numbers, colour: Colour) -> None:
        part = self.image[window]
        part += covered[..., None] * (np.array(colour, np.float64) - part)


def paint(sketch: Sketch, width: int, height: int, margin: float = 0.0) -> Canvas:
    """A canvas with a map, and a margin around it that is a share of its width."""
    canvas = Canvas(sketch, width, height, margin)
    canvas.image[:] = palette.FLOOR
    canvas.fill(sketch.chasms, palette.CHASM)
    for x, y, radius in sketch.discs:
        canvas.disc((x, y), radius, palette.TARGET, alpha=0.35)
        canvas.disc((x, y), DOT_PIXELS / canvas.scale, palette.TARGET)
    for letter, x, y in sketch.marks:
        if letter in MARKS:
            canvas.fill([Rectangle(x - 0.5, y - 0.5, 1.0, 1.0)], MARKS[letter])
    canvas.fill(sketch.walls, palette.WALL)
    for block in sketch.blocks:
        canvas.fill([block], palette.BLOCK)
    for x, y, dx, dy in sketch.arrows:
        canvas.fill([Rectangle(x - 0.5, y - 0.5, 1.0, 1.0)], palette.DOOR)
        tip = (x + 0.3 * dx, y + 0.3 * dy)
        for begin in ((x - 0.3 * dx, y - 0.3 * dy), (x + 0.25 * dy, y + 0.25 * dx), (x - 0.25 * dy, y - 0.25 * dx)):
            canvas.line(begin, tip, 0.12 * canvas.scale, palette.EDGE)
    for x, y, kind in sketch.things:
        canvas.disc((x, y), THING_RADIUS, THINGS[kind])
    canvas.clear_around()
    return canvas


def _share(pixels: slice, low: float, high: float) -> Numbers:
    """The share of each pixel of a row or column that is between two places."""
    return np.diff(np.clip(np.arange(pixels.start, pixels.stop + 1), low, high))


def _centres(window: Window) -> tuple[Numbers, Numbers]:
    """Columns (1, width) and rows (height, 1) of the pixels' centres."""
    rows, columns = window
    across, along = (np.arange(part.start, part.stop, dtype=np.float64) + 0.5 for part in (columns, rows))
    return across[None], along[:, None]


def _inside(distance: Numbers) -> Numbers:
    """The share of a pixel that is inside, from the distance of its centre to the edge (negative inside)."""
    return np.clip(0.5 - distance, 0.0, 1.0)


def _distance(points: tuple[Numbers, Numbers], first: Numbers, last: Numbers) -> Numbers:
    """Distance of every pixel to a segment."""
    x, y = points[0] - first[0], points[1] - first[1]
    dx, dy = last - first
    along = np.clip((x * dx + y * dy) / max(dx * dx + dy * dy, 1e-12), 0.0, 1.0)
    return np.hypot(x - along * dx, y - along * dy)


def _polygon(points: tuple[Numbers, Numbers], corners: Numbers) -> Numbers:
    """Distance of every pixel to the edge of a polygon; negative inside."""
    nearest = np.full(np.broadcast_shapes(points[0].shape, points[1].shape), np.inf)
    inside = np.zeros(nearest.shape, bool)
    for first, last in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        nearest = np.minimum(nearest, _distance(points, first, last))
        # A point is inside if a line from it to the right crosses the edge an odd number of times.
        crosses = (first[1] > points[1]) != (last[1] > points[1])
        slope = (last[0] - first[0]) / ((last[1] - first[1]) or 1e-12)
        inside ^= crosses & (points[0] < first[0] + (points[1] - first[1]) * slope)
    return np.where(inside, -nearest, nearest)
