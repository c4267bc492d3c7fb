"""The picture of `docs/theory.md`, on Maze with k = 10:  python benchmarks/theory_picture.py [docs/images/theory.png]"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from hrac import theory
from hrac.envs import palette
from hrac.envs.grid import Maze
from hrac.scenes.drawing import EDGE, SUBGOAL, draw_map
from hrac.theory import TabularMDP

K = 10
NOISE = 0.25
"""How many of the actions are random in the last panel."""
STATE = (7, 5)
"""Row and column of s in the outer panels."""
FLOOR, NEAR, NEARER = "#f4f4f0", "#c3d8f2", "#7ba8e0"
NOTE = {"fontsize": 10, "ha": "center", "va": "center"}


class Board:
    """Maze, its MDP, and how to draw in cells by their number."""

    def __init__(self, random_action_prob: float) -> None:
        self.world = Maze(random_action_prob=random_action_prob)
        self.mdp = TabularMDP.from_grid_world(self.world)
        self.policy = theory.optimal_policy(self.mdp)

    def number(self, cell: np.ndarray | tuple[int, int]) -> int:
        return int(np.flatnonzero((self.world.cells == cell).all(axis=1))[0])

    def colour(self, axis: Axes, cells: np.ndarray, colour: str) -> None:
        for row, column in self.world.cells[cells]:
            axis.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, edgecolor="white", linewidth=0.6))

    def way(self, axis: Axes, states: np.ndarray, style: str, width: float) -> None:
        rows, columns = self.world.cells[states].T
        axis.plot(columns, rows, style, color=EDGE, linewidth=width, solid_capstyle="round")

    def star(self, axis: Axes, state: int) -> None:
        row, column = self.world.cells[state]
        axis.plot(column, row, "*", color=SUBGOAL, markeredgecolor=EDGE, markersize=14, zorder=5)

    def agent(self, axis: Axes, state: int) -> None:
        row, column = self.world.cells[state]
        axis.plot(column, row, "o", color=palette.rgba(palette.AGENT), markeredgecolor=EDGE, markersize=9, zorder=5)

    def note(self, axis: Axes, state: int, text: str, right: float = 0.0, down: float = 0.0) -> None:
        row, column = self.world.cells[state]
        axis.text(column + right, row + down, text, **NOTE)


def one_subgoal(axis: Axes, board: Board) -> None:
    state, goal = board.number(STATE), board.number(board.world.layout.marks["G"])
    surrogate = theory.surrogate_subgoal(board.mdp, board.policy, state, goal, K)
    board.colour(axis, theory.adjacent_regions(board.mdp, K)[state], NEAR)
    steps = int(board.mdp.distance[state, goal])
    whole = theory.trajectory(board.mdp, board.policy, state, goal, steps)
    board.way(axis, whole[: K + 1], "-", 2.0)
    board.way(axis, whole[K:-1], ":", 1.4)
    board.agent(axis, state)
    board.star(axis, surrogate)
    board.note(axis, state, "s", right=-0.8)
    board.note(axis, surrogate, r"$\tilde g$", down=0.9)
    axis.set_title(f"Theorem 1: for G, {steps} steps away, the controller\ndoes the same as for the star, {K} steps away")


def all_subgoals(axis: Axes, board: Board) -> None:
    start, goal = (board.number(board.world.layout.marks[letter]) for letter in "AG")
    steps = int(board.mdp.distance[start, goal])
    whole = theory.trajectory(board.mdp, board.policy, start, goal, steps)
    windows = -(-steps // K)
    plan = theory.Plan(np.full(windows, goal), np.append(whole[:-1:K], goal))
    surrogate = theory.surrogate_plan(board.mdp, board.policy, plan, K)
    board.way(axis, whole[:-1], "-", 2.0)
    board.agent(axis, start)
    for subgoal in surrogate.subgoals[:-1]:
        board.star(axis, subgoal)
    axis.set_title(f"Theorem 2: G, {steps} steps away, as a chain\nof {windows} adjacent subgoals; the last one is G")


def with_noise(axis: Axes, board: Board) -> None:
    state = board.number(STATE)
    board.colour(axis, board.world.cell_distances[state] <= K, NEAR)
    board.colour(axis, theory.adjacent_regions(board.mdp, K)[state], NEARER)
    board.agent(axis, state)
    board.note(axis, state, "s", right=-0.8)
    axis.set_title(
        f"{NOISE:.0%} of the actions are random: cells within {K} steps\nof s at best (light), and on average (dark)"
    )


def main(path: Path) -> None:
    figure = Figure(figsize=(13.2, 4.0), layout="constrained")
    still, noisy = Board(0.0), Board(NOISE)
    for axis, board, draw in zip(
        figure.subplots(1, 3), (still, still, noisy), (one_subgoal, all_subgoals, with_noise), strict=True
    ):
        board.colour(axis, np.arange(len(board.world.cells)), FLOOR)
        draw(axis, board)
        draw_map(axis, board.world.sketch())
        axis.set_axis_off()
        axis.title.set_fontsize(10.5)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "images" / "theory.png")
