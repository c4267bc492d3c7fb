"""What happened in an episode: the way, the subgoals reached and missed, and the end in words. All drawings tell this."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from hrac.adjacency import network
from hrac.adjacency.network import Embedding
from hrac.agents.decide import Setup
from hrac.agents.subgoals import reached
from hrac.config import Config
from hrac.envs.sketch import Sketch
from hrac.errors import HracError
from hrac.worlds.base import Episode
from hrac.worlds.episodes import Player
from hrac.worlds.numbers import FAILURES, Played, endings

Numbers = NDArray[np.floating[Any]]

HEAT_POINTS = 80
"""Points of a heatmap along a side."""
DULL = 0.25
"""The weight of a window in which nothing happens, in the choice of panels."""


class NoMapError(HracError):
    """A task that cannot be drawn; the message says why."""


class Window(NamedTuple):
    """The steps for one subgoal."""

    start: int
    """The step at which it is proposed."""
    end: int
    """The step before which the next one is proposed, or the episode is over."""
    target: Numbers | None
    """The point of goal space that it stands for. None: the agent has no subgoals."""
    arrived: int | None
    """The steps after which the agent first came near enough to it (`arrival`). None: it never did."""
    miss: float
    """How near it came, in a straight line, in the units of goal space."""

    @property
    def reached(self) -> bool:
        """Whether the agent came near enough to it."""
        return self.arrived is not None


class Story(NamedTuple):
    """An episode of T steps."""

    title: str
    k: int
    positions: Numbers
    """In goal space, before each step and at the end (T + 1, goal)."""
    rewards: Numbers
    """(T)"""
    windows: tuple[Window, ...]
    sketches: tuple[Sketch, ...]
    """The map before each step and at the end."""
    embedding: Embedding | None
    """The adjacency network, if there is one."""
    threshold: float
    """Below this learned distance a place is judged to be within k steps."""
    succeeded: bool | None
    """None: the task has no success."""
    ending: str
    """How the episode ended, in words."""

    @property
    def length(self) -> int:
        """T, the number of steps."""
        return len(self.rewards)

    def window(self, step: int) -> Window:
        """The window that a step belongs to; the last one at the end."""
        return self.windows[min(step // self.k, len(self.windows) - 1)]

    def past(self, step: int) -> list[Window]:
        """The windows before the one that a step belongs to."""
        return list(self.windows[: min(step // self.k, len(self.windows) - 1)])

    def place(self, points: Numbers) -> NDArray[np.float64]:
        """Points of goal space in the drawing coordinates of the map: two of their coordinates."""
        return self.sketches[0].place(points)

    def heat(self, step: int) -> NDArray[np.float64] | None:
        """The learned distance from the agent to places all over the map, as a share of the threshold; None: there is none.

        Rows go from the least to the greatest y that is shown, columns from the least x. Other coordinates of goal space than
        the two that are shown are the agent's own.
        """
        if self.embedding is None:
            return None
        sketch, here = self.sketches[step], self.positions[step].astype(np.float32)
        sides = [np.linspace(*ends, HEAT_POINTS, dtype=np.float32) for ends in zip(sketch.low, sketch.high, strict=True)]
        places = np.tile(here, (HEAT_POINTS**2, 1))  # in one row: products of stacks of matrices are slow
        places[:, :2] = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 2)
        distance = np.asarray(network.distance(self.embedding, here[None], places), np.float64) / self.threshold
        square = distance.reshape(HEAT_POINTS, HEAT_POINTS)
        return square if sketch.across == 1 else square.T


def tell(player: Player, title: str, episode_seed: int = 0, look: Callable[[Any], None] | None = None) -> Story:
    """Play an episode and tell it. `look` is given the copy of an environment on the host before each step and at the end."""
    episode, sketches = player.watch(episode_seed, look)
    setup = player.setup
    if not sketches:
        raise NoMapError(
            f"{setup.cfg.task} has no map to draw: it needs two coordinates and a method `sketch` (hrac.envs.sketch)"
        )
    phi = setup.space.phi
    succeeded, ending = _ending(episode, setup, player.task.evaluation())
    return Story(
        title="".join(letter if letter.isprintable() else " " for letter in title),  # it may be shown in a terminal
        k=setup.cfg.k,
        positions=np.concatenate([phi(episode.obs), phi(episode.next_obs[-1:])]),
        rewards=np.asarray(episode.reward),
        windows=_windows(episode, setup),
        sketches=tuple(sketches),
        embedding=player.actors.embedding,
        threshold=setup.cfg.adjacency.threshold,
        succeeded=succeeded,
        ending=ending,
    )


def _windows(episode: Episode, setup: Setup) -> tuple[Window, ...]:
    space, cfg, length = setup.space, setup.cfg, len(episode.reward)
    after = space.phi(episode.next_obs)
    windows = []
    for start in range(0, length, cfg.k):
        end = min(start + cfg.k, length)
        if cfg.manager.subgoals == "none":
            windows.append(Window(start, end, None, None, 0.0))
            continue
        target, way = np.asarray(space.target(episode.subgoal[start], space.phi(episode.obs[start]))), after[start:end]
        miss = float(np.linalg.norm(way - target, axis=-1).min())
        after_steps = arrival(target, way, cfg)
        windows.append(Window(start, end, target, None if after_steps is None else start + after_steps, miss))
    return tuple(windows)


def arrival(target: Numbers, way: Numbers, cfg: Config) -> int | None:
    """The number of steps after which a way (n, goal) first reaches a subgoal; None: it does not.

    If the controller is rewarded for reaching subgoals, its reward says so. If not, the diagonal of a cell of the adjacency
    table is near enough: sqrt(2) on the ants.
    """
    if cfg.controller.intrinsic_reward == "reached":
        there = reached(np.broadcast_to(target, way.shape), way, cfg.controller)
    else:
        there = np.linalg.norm(way - target, axis=-1) <= math.sqrt(2.0) * cfg.adjacency.cell_size
    return 1 + int(np.argmax(there)) if np.any(there) else None


def reach_in_words(cfg: Config) -> str:
    """How near `arrival` is.

    >>> reach_in_words(Config())
    'within 0.5 in every coordinate'
    """
    controller = cfg.controller
    if controller.intrinsic_reward != "reached":
        return f"within {math.sqrt(2.0) * cfg.adjacency.cell_size:.3g} in a straight line"
    where = "in a straight line" if controller.reach_measure == "euclidean" else "in every coordinate"
    return f"within {controller.reach_radius:.3g} {where}"


def _ending(episode: Episode, setup: Setup, task: Played) -> tuple[bool | None, str]:
    steps = f"{len(episode.reward):,} steps"
    alone = jax.tree.map(lambda leaf: leaf[:, None], episode)  # (time, episodes, ...)
    happened = {name for name, each in endings(alone, setup, task).items() if each[0]}
    if not task.ends_on_success:
        fallen = ", on the back at the end" if "fallen" in happened else ""
        return None, f"return {float(episode.reward.sum()):.4g} in {steps}{fallen}"
    if "success" in happened:
        return True, f"success after {steps}"
    return False, f"no success in {steps}: {next(words for name, words in FAILURES.items() if name in happened)}"


def choose(story: Story, panels: int) -> list[int]:
    """The steps to show: the first, the end, and the windows between them in which most happens, far from one another.

    A window counts for a turn, for a missed subgoal if most are reached, and for a reward where rewards are rare.

    >>> quiet = Story("", 2, np.array([[x, 0.0] for x in range(9)]), np.zeros(8), tuple(
    ...     Window(start, start + 2, np.zeros(2), start + 2, 0.0) for start in range(0, 8, 2)), (), None, 1.0, None, "")
    >>> choose(quiet, 3)  # nothing happens: the one in the middle
    [0, 4, 8]
    """
    starts = [window.start for window in story.windows]
    reached = np.array([window.reached for window in story.windows])
    weights = DULL + _turns(story) + _rare_rewards(story) + 0.5 * reached.mean() * ~reached
    chosen = [0, story.length]
    while len(chosen) < min(panels, len(starts) + 1):
        apart = np.abs(np.subtract.outer(starts, chosen)).min(axis=1)
        chosen.append(starts[int(np.argmax(weights * apart))])
    return sorted(chosen)[: max(panels, 1)]


def _turns(story: Story) -> NDArray[np.float64]:
    """For each window, by how much its way turns from that of the one before: from 0 to 1 (back)."""
    moved = np.array([story.positions[window.end] - story.positions[window.start] for window in story.windows], np.float64)
    length = np.linalg.norm(moved, axis=1)
    before, now = np.maximum(length[:-1], 1e-9), np.maximum(length[1:], 1e-9)
    cosine = (moved[:-1] * moved[1:]).sum(axis=1) / (before * now)
    moving = (before > 0.5 * length.mean()) & (now > 0.5 * length.mean())  # who stands still does not turn
    return np.concatenate([[0.0], np.where(moving, np.arccos(np.clip(cosine, -1.0, 1.0)) / np.pi, 0.0)])


def _rare_rewards(story: Story) -> NDArray[np.float64]:
    """For each window, 1 if there is a reward in it, and if most windows have none."""
    events = np.array([np.any(story.rewards[window.start : window.end] != 0) for window in story.windows], np.float64)
    return events if events.mean() < 0.5 else np.zeros(len(events))
