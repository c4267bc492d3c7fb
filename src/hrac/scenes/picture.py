"""An evaluation episode as a picture: a few panels, chosen by what happens, that need no caption."""

import math
import textwrap
from pathlib import Path

from matplotlib.figure import Figure

from hrac.folder import files
from hrac.scenes.drawing import draw_step, legend, title_pad, verdict
from hrac.scenes.story import Story, choose

PANEL_INCHES = 2.65
"""Three panels in a row are as wide as a page."""
CHARACTERS = 24
"""Of the title that fit above a panel."""
DOTS_PER_INCH = 150
PANELS = 6
"""Unless asked for more or fewer."""
FORMATS = (".png", ".pdf", ".svg")


def draw(story: Story, path: Path, panels: int = PANELS) -> None:
    """Write the picture of an episode."""
    figure = paint(story, panels)
    with files.atomic(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=DOTS_PER_INCH)


def paint(story: Story, panels: int = PANELS) -> Figure:
    """The picture of an episode: at most this many panels, each at the proposal of a subgoal, the last at the end."""
    steps = choose(story, panels)
    columns = 2 if len(steps) in (2, 4) else min(len(steps), 3)
    rows = math.ceil(len(steps) / columns)
    height = 0.96 * PANEL_INCHES * story.sketches[0].aspect + 0.3
    handles = legend(story, steps, ahead=True)
    below = 0.25 * math.ceil(len(handles) / columns) + 0.15
    figure = Figure(figsize=(PANEL_INCHES * columns, height * rows + below + 0.45), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, step in zip(axes, steps, strict=False):
        draw_step(axis, story, step, ahead=True)
        axis.set_title(_caption(story, step), fontsize=11, pad=title_pad(story, steps, 4.0))
    for axis in axes[len(steps) :]:
        axis.set_axis_off()
    title = textwrap.fill(f"{story.title}: {story.ending}", CHARACTERS * columns)
    figure.suptitle(title, fontsize=13, fontweight="bold", parse_math=False)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=10.5, frameon=False)
    return figure


def _caption(story: Story, step: int) -> str:
    told = "end" if step == story.length else verdict(story.window(step))
    return f"step {step:,}" + (f": {told}" if told else "")
