"""Strips of subgoals: one episode per row, as it goes on from left to right."""

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hrac.training.policies import Policy
from hrac.view import episode as view
from hrac.view.curves import title_of

COLUMNS = 5


def draw(policies: Sequence[Policy], width: float, episode_seed: int = 0) -> Figure:
    """A row per policy, `width` inches in all: the map, the path so far, the subgoal and the learned distances."""
    rows = len(policies)
    figure = Figure(figsize=(width, rows * (0.163 * width + 0.22) + 0.05), layout="constrained")
    axes = figure.subplots(rows, COLUMNS, squeeze=False)
    for row, policy in zip(axes, policies, strict=True):
        strip(row, policy, episode_seed)
    norm = TwoSlopeNorm(1.0, 0.0, 3.0)
    bar = figure.colorbar(matplotlib.cm.ScalarMappable(norm, "RdYlBu_r"), ax=axes, location="right", shrink=0.6, aspect=30)
    bar.set_ticks([0.0, 1.0, 3.0], labels=["0", "k steps", "far"])
    bar.set_label("learned distance from the agent")
    return figure


def strip(axes: NDArray[Any], policy: Policy, episode_seed: int = 0) -> NDArray[Any]:
    """Play an episode and draw some of its proposals, from the first to the last, into a row of axes; returns them."""
    episode, sketches = policy.player.watch(episode_seed)
    if not sketches:
        raise view.NoMapError(f"{policy.config.task} has no map to draw")
    windows = np.arange(0, len(episode.reward), policy.config.k)
    norm = TwoSlopeNorm(threshold := policy.config.adjacency.threshold, 0.0, 3 * threshold)
    for axis, at in zip(axes, np.linspace(0, len(windows) - 1, len(axes)).round().astype(int), strict=True):
        step = int(windows[at])
        view.draw_step(axis, policy, episode, sketches[step], step, norm)
        axis.set_title(f"step {step}", pad=2)
        axis.set_xticks([])
        axis.set_yticks([])
    axes[0].set_ylabel(title_of(policy.config.task))
    return axes
