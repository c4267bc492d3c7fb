"""The colours of all pictures, as (red, green, blue) from 0 to 255."""

FLOOR = (246, 246, 242)
FLOOR_SHADE = (236, 236, 231)
WALL = (74, 78, 92)
AGENT = (52, 104, 192)
TARGET = (120, 190, 120)
KEY = (242, 200, 80)
CHEST = (186, 128, 82)
BLOCK = (214, 140, 92)
CHASM = (188, 192, 202)
DOOR = (206, 212, 226)
SUBGOAL = (242, 194, 48)
APPLE = (96, 170, 80)
BOMB = (196, 64, 58)
EDGE = (32, 32, 32)


def rgba(colour: tuple[int, int, int], alpha: float = 1.0) -> tuple[float, float, float, float]:
    """A colour from 0 to 1, as OpenGL and matplotlib need it.

    >>> rgba((255, 0, 51), 0.5)
    (1.0, 0.0, 0.2, 0.5)
    """
    red, green, blue = (part / 255 for part in colour)
    return red, green, blue, alpha
