"""The random streams of a run."""

import enum


class Stream(enum.IntEnum):
    """Separate random streams of a run, so that evaluating more does not change what is learned."""

    INIT = 0
    ACT = 1
    LEARN = 2
    EVAL = 3
    RANDOM_WALK = 4
    PAIRS = 5
    ACT_COPIES = 6
    RANDOM_WALK_COPIES = 7
