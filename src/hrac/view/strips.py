"""Strips of subgoals: one episode per row, as it goes on from left to right."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hrac.scenes.drawing import draw_step, legend, title_pad
from hrac.scenes.story import Story, tell
from hrac.training.policies import Policy
from hrac.view.curves import plain, title_of

COLUMNS = 5
MARK_SIZE = 0.6
"""Of marks and lines in the small panels of a page."""


def draw(policies: Sequence[Policy], width: float, episode_seed: int = 0) -> Figure:
    """A row per policy, `width` inches in all: the map, the path so far, the subgoals and the learned distances."""
    stories = [tell(policy.player, title, episode_seed) for policy, title in zip(policies, _titles(policies), strict=True)]
    heights = [0.18 * width * min(story.sketches[0].aspect, 2.0) + 0.22 for story in stories]
    figure = Figure(figsize=(width, sum(heights) + 0.75), layout="constrained")
    axes = figure.subplots(len(stories), COLUMNS, squeeze=False, height_ratios=heights)
    entries: dict[str, Any] = {}
    for row, story in zip(axes, stories, strict=True):
        strip(row, story, MARK_SIZE)
        entries |= {str(entry.get_label()): entry for entry in legend(story, _steps(story, COLUMNS))}
    figure.legend(handles=list(entries.values()), loc="outside lower center", ncols=4, frameon=False)
    return figure


def _titles(policies: Sequence[Policy]) -> list[str]:
    """Tasks; if several policies have the same one, with what differs: the method, or all that is known."""
    forms = [
        [title_of(policy.config.task) for policy in policies],
        [f"{title_of(policy.config.task)}, {policy.config.method}" for policy in policies],
    ]
    return next((titles for titles in forms if len(set(titles)) == len(titles)), [policy.title for policy in policies])


def strip(axes: NDArray[Any], story: Story, size: float = 1.0) -> NDArray[Any]:
    """Draw some proposals of an episode (`hrac.scenes.story.tell`), from the first to the last, into a row of axes.

    If it has fewer proposals than there are axes, the last ones stay empty. `size` is that of marks
    and lines.
    """
    steps = _steps(story, len(axes))
    for axis, step in zip(axes, steps, strict=False):
        draw_step(axis, story, step, size=size)
        axis.set_title(f"step {step}", pad=title_pad(story, steps, 2.0))
    for axis in axes[len(steps) :]:
        axis.set_axis_off()
    axes[0].set_ylabel(plain(story.title))
    return axes


def _steps(story: Story, panels: int) -> list[int]:
    windows = len(story.windows)
    return [story.windows[number].start for number in np.linspace(0, windows - 1, min(panels, windows)).round().astype(int)]
