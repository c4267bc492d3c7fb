"""Mazes of blocks that other papers are measured on, as rows of data: `AntMaze(**MAZES["u-small"].fields)`.

The origin is the centre of the first start block, lengths are those of the sources. docs/environments.md says where each number
comes from.
"""

from typing import Any, NamedTuple

from hrac.envs import blocks


class Row(NamedTuple):
    """A maze by name."""

    summary: str
    fields: dict[str, Any]
    """Those of `BlockMaze`. None of what the map, the reward and the ends depend on is left to the defaults of an agent."""
    agents: tuple[str, ...] = ("ant", "point")
    """Those that can do it: a point cannot push, nor fall."""
    settings: dict[str, Any] = {}  # noqa: RUF012  a NamedTuple's default
    """Settings of training in which it differs from Ant Maze."""

    @property
    def dense(self) -> bool:
        """Whether the reward is minus the distance."""
        return self.fields["reward"] == "distance"


COMPLEX = """\
#########
#A..#...#
###.#...#
#...##.##
#.###..##
#.#.#.###
#.....#.#
#.#.#...#
#########
"""

FOUR_ROOMS = """\
###########
#....#....#
#.A..#....#
#.........#
#....#....#
##.#####.##
#....#....#
#....#....#
#.........#
#....#....#
###########
"""

MEDIUM = """\
########
#A.##..#
#..#...#
##...###
#..#...#
#.#..#.#
#...#..#
########
"""

LARGE = """\
############
#A...#.....#
#.##.#.#.#.#
#......#...#
#.####.###.#
#..#.#.....#
##.#.#.#.###
#..#...#...#
############
"""


PUSH = """\
#####
#.A##
#.M.#
##.##
#####
"""

FALL = """\
####
#A.#
#.M#
#~~#
#..#
####
"""


def _pairs(block_size: float, *blocks: tuple[tuple[int, int], tuple[int, int]]) -> tuple[Any, ...]:
    """Pairs of (row, column) as pairs of (x, y), for a layout with its first start in row 1 and column 1."""
    return tuple(tuple(((column - 1) * block_size, (row - 1) * block_size) for row, column in pair) for pair in blocks)


_BIG = {"block_size": 8.0, "reward": "steps", "success_radius": 5.0}
_BIG_U = _BIG | {"layout": blocks.U, "evaluation_target": (0.0, 16.0)}
_OGBENCH = {"block_size": 4.0, "reward": "sparse", "success_radius": 0.5, "time_limit": 1000}
_OGBENCH |= {"pair_noise": 1.0, "ends_on_success": True}
_RARE = {"manager.hindsight": 0.8}
"""Settings where only the target pays, which an agent hardly ever finds by chance."""
_HIRO = {"block_size": 8.0, "reward": "distance", "success_radius": 5.0, "time_limit": 500}

MAZES = {
    "u-small": Row(
        "the U in blocks of 4, dense reward; success within 2.5 of (0, 8) in evaluation",
        {
            "layout": blocks.U,
            "block_size": 4.0,
            "target": ((-2.0, -2.0), (10.0, 10.0)),
            "evaluation_target": (0.0, 8.0),
            "reward": "distance",
            "success_radius": 2.5,
            "time_limit": 500,
        },
    ),
    "u-sparse": Row(
        "the U of Ant Maze, reward -1 until within 5 of the target",
        _BIG_U | {"target": ((-4.0, -4.0), (20.0, 20.0)), "time_limit": 500},
    ),
    "w": Row(
        "the maze of Ant Maze Sparse, random starts, target (2, 9) shown, dense reward",
        blocks.SPARSE | {"reward": "distance", "shows_target": True, "time_limit": 500},
    ),
    "complex": Row(
        "a branching maze of 56 x 56, reward -1 until within 5; evaluated on four targets",
        _BIG
        | {
            "layout": COMPLEX,
            "target": "free",
            "evaluation_target": ((40.0, 8.0), (16.0, 48.0), (40.0, 48.0), (16.0, 32.0)),
            "time_limit": 2000,
        },
    ),
    "bottleneck": Row(
        "the U of Ant Maze with a passage of 1.6 at its bend, reward -1 until within 5",
        _BIG_U
        | {
            "thin_walls": (((12.0, 7.0), (15.4, 9.0)), ((17.0, 7.0), (20.0, 9.0))),
            "target": "free",
            "time_limit": 600,
        },
    ),
    "four-rooms": Row(
        "four rooms in blocks of 2, reward -1 until within 1.5 of (14, 14)",
        {
            "layout": FOUR_ROOMS,
            "block_size": 2.0,
            "target": (14.0, 14.0),
            "reward": "steps",
            "success_radius": 1.5,
            "ends_on_success": True,
            "time_limit": 1000,
        },
    ),
    "medium": Row(
        "a maze of 24 x 24 in blocks of 4, five starts with their targets, reward 1 within 0.5",
        _OGBENCH
        | {
            "layout": MEDIUM,
            "pairs": _pairs(4.0, ((1, 1), (6, 6)), ((6, 1), (1, 6)), ((5, 3), (4, 2)), ((6, 5), (6, 1)), ((2, 6), (1, 1))),
        },
        settings=_RARE,
    ),
    "large": Row(
        "a maze of 40 x 28 in blocks of 4, five starts with their targets, reward 1 within 0.5",
        _OGBENCH
        | {
            "layout": LARGE,
            "pairs": _pairs(4.0, ((1, 1), (7, 10)), ((5, 4), (7, 1)), ((7, 4), (1, 10)), ((3, 8), (5, 4)), ((1, 1), (5, 4))),
        },
        settings=_RARE,
    ),
    "push": Row(
        "a maze whose way is blocked by a box: walk around and push it aside; dense reward, success within 5 of (0, 19)",
        _HIRO | {"layout": PUSH, "slides": "xy", "target": (0.0, 19.0)},
        ("ant",),
    ),
    "fall": Row(
        "a maze with a chasm: push the box into it and walk over; dense reward, success within 5 of (0, 27, 4.5)",
        _HIRO | {"layout": FALL, "slides": "yz", "target": (0.0, 27.0), "target_height": 4.5},
        ("ant",),
        {"manager.subgoal_range": (10.0, 10.0, 0.5), "manager.noise_sigma": (1.0, 1.0, 0.05)},
    ),
}
"""By name, without the agent: `ant-w` is an ant in "w", `point-w` a point."""


def gym_name(name: str) -> str:
    """The name of an ant in a maze in Gymnasium's registry.

    >>> gym_name("u-small")
    'hrac/AntUSmall-v0'
    """
    return f"hrac/Ant{name.title().replace('-', '')}-v0"
