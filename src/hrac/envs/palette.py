"""The colours of all pictures, as (red, green, blue) from 0 to 255.

Things that must be told apart differ in lightness, or between blue and yellow, which the colour-blind see too.
"""

FLOOR = (246, 246, 242)
FLOOR_SHADE = (236, 236, 231)
WALL = (74, 78, 92)
AGENT = (52, 104, 192)
TARGET = (0, 158, 115)
KEY = (242, 200, 80)
CHEST = (186, 128, 82)
BLOCK = (214, 140, 92)
CHASM = (188, 192, 202)
DOOR = (206, 212, 226)
SUBGOAL = (242, 194, 48)
APPLE = (0, 158, 115)
BOMB = (213, 94, 0)
EDGE = (32, 32, 32)
MISSED = (160, 29, 61)
"""A subgoal that was not reached."""
NEAR = (118, 170, 220)
"""Judged to be here: the agent's own place in a heatmap."""
AT_K = (221, 234, 246)
"""Judged to be k steps away."""
BEYOND = (238, 238, 236)
"""Judged to be farther."""
CONTOUR = (22, 66, 128)
"""The line at k steps."""


def rgba(colour: tuple[int, int, int], alpha: float = 1.0) -> tuple[float, float, float, float]:
    """A colour from 0 to 1, as OpenGL and matplotlib need it.

    >>> rgba((255, 0, 51), 0.5)
    (1.0, 0.0, 0.2, 0.5)
    """
    red, green, blue = (part / 255 for part in colour)
    return red, green, blue, alpha
