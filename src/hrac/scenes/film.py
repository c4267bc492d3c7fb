"""An evaluation episode as a film: the map with path, subgoals and adjacency; for ants MuJoCo's view beside it."""

import contextlib
import itertools
import math
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from hrac.envs import palette
from hrac.errors import HracError, MissingExtraError
from hrac.folder import files
from hrac.scenes.drawing import DISTANCES, draw_step, legend
from hrac.scenes.story import Story, tell
from hrac.worlds.episodes import Player
from hrac.worlds.host import closing

Picture = NDArray[np.uint8]
"""(height, width, 3)"""
View = Callable[[int], Picture | None]
"""A picture of the simulation at a step; None: there is none."""

DOTS_PER_INCH = 100
INCHES, ALONE_INCHES = 3.3, 4.4
"""The width of the map with a view beside it, and of both; and of a map alone."""
FRAMES_PER_SECOND = 10
MOST_FRAMES = 130
"""A longer episode is shown by every second step, or fewer."""
HOLD_SECONDS = 2.5
"""How long the last frame stands."""
COLOURS, SHADES = 80, 12
"""Of a GIF, beside those of the palette: for all that is seen, and for learned distances within k."""
FORMATS = (".gif", ".mp4")


class FilmError(HracError, ValueError):
    """A film that cannot be made; the message says why."""


def record(
    player: Player, title: str, path: Path, episode_seed: int = 0, say: Callable[[str], None] = print, simulation: bool = True
) -> Story:
    """Play an episode and write its film, .gif or .mp4.

    `simulation` shows MuJoCo's view of an ant; `say` is told if it cannot be shown.
    """
    check(path)
    states: list[dict[str, NDArray[Any]]] = []
    story = tell(player, title, episode_seed, lambda env: states.append(env.snapshot()) if hasattr(env, "viewer") else None)
    steps = chosen_steps(story.length)
    with _simulation(player, story, states if simulation else [], say) as view:
        frames = draw(story, steps, view)
        (_write_gif if path.suffix == ".gif" else _write_mp4)(path, frames)
    return story


def check(path: Path) -> None:
    """Raise `MissingExtraError` if films of this format cannot be made here."""
    if path.suffix == ".mp4":
        _ffmpeg()


def chosen_steps(length: int) -> list[int]:
    """The steps of the frames: the first, every one or every few, and the end.

    >>> chosen_steps(3), chosen_steps(301)[:3], chosen_steps(301)[-2:]
    ([0, 1, 2, 3], [0, 3, 6], [300, 301])
    """
    stride = math.ceil(length / MOST_FRAMES)
    return [*range(0, length, stride), length]


def draw(story: Story, steps: list[int], view: View) -> Iterator[Picture]:
    """The frames, all of one size. They say which step it is, and at the end how it went."""
    seen = view(steps[0])
    columns, wide = (1, ALONE_INCHES) if seen is None else (2, INCHES)
    tall = wide * story.sketches[0].aspect
    handles = legend(story, steps)
    below = 0.22 * math.ceil(len(handles) / (2 * columns)) + 0.1
    figure = Figure(figsize=_even(wide * columns + 0.2, tall + below + 0.65), dpi=DOTS_PER_INCH)
    canvas = FigureCanvasAgg(figure)
    width, height = figure.get_size_inches()
    axes = [
        figure.add_axes(((0.1 + i * wide) / width, below / height, (wide - 0.1) / width, (tall - 0.05) / height))
        for i in range(columns)
    ]
    axes[0].set_axis_off()
    picture = None if seen is None else axes[0].imshow(seen, interpolation="nearest")
    middle: dict[str, Any] = {"ha": "center", "va": "center", "parse_math": False}
    size = min(12.0, 110 * width / max(len(story.title), 1))  # a long name in small letters
    figure.text(0.5, 1 - 0.22 / height, story.title, fontsize=size, fontweight="bold", **middle)
    words = figure.text(0.5, 1 - 0.47 / height, "", fontsize=11, **middle)
    figure.legend(handles=handles, loc="lower center", ncols=2 * columns, fontsize=9, frameon=False, borderaxespad=0.2)
    for step in steps:
        axes[-1].clear()
        axes[-1].set_axis_on()
        draw_step(axes[-1], story, step)
        if picture is not None:
            picture.set_data(view(step))
        words.set_text(caption(story, step))
        words.set_fontweight("bold" if step == story.length else "normal")
        canvas.draw()
        yield np.asarray(canvas.buffer_rgba())[..., :3].copy()


def caption(story: Story, step: int) -> str:
    """What a frame says: the step and the number of the subgoal; at the end how it went."""
    if step == story.length:
        return story.ending
    return f"step {step:,}" if story.window(step).target is None else f"step {step:,}, subgoal {step // story.k + 1}"


@contextlib.contextmanager
def _simulation(
    player: Player, story: Story, states: list[dict[str, NDArray[Any]]], say: Callable[[str], None]
) -> Iterator[View]:
    """MuJoCo's view at a step, from a camera that follows the agent, with its subgoal. Without states there is none."""
    if not states:
        yield lambda step: None
        return
    pixels = round((INCHES - 0.1) * DOTS_PER_INCH)
    task: Any = player.task.evaluation()
    with closing(task.batch(1, 1)) as copy:
        stage: Any = copy
        viewer = stage.viewer("follow", pixels, round(pixels * story.sketches[0].aspect))

        def view(step: int) -> Picture | None:
            stage.restore(states[step])
            return viewer.frame(0, story.window(step).target)

        try:
            view(0)
        except HracError as error:
            say(f"the film shows the map alone: {error}")
            yield lambda step: None
            return
        try:
            yield view
        finally:
            viewer.close()


def _even(width: float, height: float) -> tuple[float, float]:
    """A size in inches that is an even number of pixels, as MP4 needs it."""
    return tuple(2 * math.ceil(side * DOTS_PER_INCH / 2) / DOTS_PER_INCH for side in (width, height))  # type: ignore[return-value]


def _write_gif(path: Path, frames: Iterator[Picture]) -> None:
    """A GIF with one palette for all frames, so that what does not change between two of them takes no room."""
    pictures = [Image.fromarray(frame) for frame in frames]
    several = np.concatenate([np.asarray(pictures[i]) for i in (0, len(pictures) // 2, -1)])
    colours = Image.fromarray(several).quantize(COLOURS, method=Image.Quantize.MEDIANCUT)
    ours = [colour for colour in vars(palette).values() if isinstance(colour, tuple)]  # small things must keep their colours
    shades = DISTANCES(np.linspace(0.0, 0.5, SHADES), bytes=True)[:, :3]  # and the heat around the agent
    colours.putpalette([*(colours.getpalette() or [])[: 3 * COLOURS], *itertools.chain(*ours), *shades.ravel().tolist()])
    first, *rest = [picture.quantize(palette=colours, dither=Image.Dither.NONE) for picture in pictures]
    durations = [round(1000 / FRAMES_PER_SECOND)] * len(rest) + [round(1000 * HOLD_SECONDS)]
    with files.atomic(path) as file:
        first.save(file, "GIF", save_all=True, append_images=rest, duration=durations, loop=0, optimize=False)


def _write_mp4(path: Path, frames: Iterator[Picture]) -> None:
    pictures = list(frames)
    pictures += pictures[-1:] * round(HOLD_SECONDS * FRAMES_PER_SECOND)
    height, width, _ = pictures[0].shape
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(FRAMES_PER_SECOND), "-i", "-"]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "film.mp4"
        coded = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "23", "-movflags", "+faststart", str(made)]
        content = b"".join(picture.tobytes() for picture in pictures)
        done = subprocess.run([_ffmpeg(), "-loglevel", "error", *raw, *coded], input=content, capture_output=True, check=False)
        if done.returncode:
            raise FilmError(f"{path} cannot be made: ffmpeg says {done.stderr.decode(errors='replace').strip()[:200]!r}")
        files.write_atomic(path, made.read_bytes())


def _ffmpeg() -> str:
    """The program that makes MP4s."""
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise MissingExtraError("MP4 needs the extra `video`: pip install 'hrac[video]'; a .gif needs nothing more") from error
    return imageio_ffmpeg.get_ffmpeg_exe()
