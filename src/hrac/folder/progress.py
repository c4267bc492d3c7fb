"""What a user sees during training: a live line on a terminal, plain lines elsewhere."""

import math
import sys
import time
from typing import NamedTuple, Protocol, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


class Status(NamedTuple):
    """The state of a training after a round. Numbers are means over seeds, NaN if not known yet."""

    step: int
    steps_per_second: float
    eval_return: float
    success: float
    accuracy: float

    def line(self) -> str:
        """The numbers in words."""
        parts = [] if math.isnan(self.steps_per_second) else [f"{self.steps_per_second:,.0f} steps/s"]
        if not math.isnan(self.eval_return):
            parts.append(f"return {self.eval_return:.2f}")
        if not math.isnan(self.success):
            parts.append(f"success {self.success:.0%}")
        if not math.isnan(self.accuracy):
            parts.append(f"adjacency accuracy {self.accuracy:.3f}")
        return " · ".join(parts)


@runtime_checkable
class Display(Protocol):
    """Somewhere to show progress."""

    def say(self, text: str) -> None:
        """Show a line that stays."""
        ...

    def round(self, status: Status) -> None:
        """Called after each round."""
        ...

    def evaluation(self, status: Status) -> None:
        """Called after each evaluation."""
        ...

    def close(self) -> None:
        """Called at the end."""
        ...


class Silent:
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""

    def round(self, status: Status) -> None:
        """Do nothing."""

    def evaluation(self, status: Status) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Plain:
    """One line per evaluation: reads well in a file, a pipe or a notebook."""

    def __init__(self, total_env_steps: int) -> None:
        self._total = total_env_steps
        self._start: tuple[float, int] | None = None

    def say(self, text: str) -> None:
        """Print the line."""
        print(text, flush=True)

    def round(self, status: Status) -> None:
        """Remember when the first round ended, to estimate the time left."""
        self._start = self._start or (time.monotonic(), status.step)

    def evaluation(self, status: Status) -> None:
        """Print the state of the training."""
        left = ""
        if self._start and status.step > self._start[1]:
            pace = (time.monotonic() - self._start[0]) / (status.step - self._start[1])
            left = f" · {_duration(pace * max(self._total - status.step, 0))} left"
        print(f"step {status.step:>9,} of {self._total:,} · {status.line()}{left}", flush=True)

    def close(self) -> None:
        """Do nothing."""


class Live:
    """A progress bar that stays in place."""

    def __init__(self, total_env_steps: int) -> None:
        self._progress = Progress(
            TextColumn("{task.completed:>9,} steps"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.description}"),
            refresh_per_second=4,
        )
        self._task = self._progress.add_task("compiling ...", total=total_env_steps)
        self._progress.start()

    def say(self, text: str) -> None:
        """Print the line above the bar."""
        self._progress.console.print(text, highlight=False)

    def round(self, status: Status) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=status.step, description=status.line())

    def evaluation(self, status: Status) -> None:
        """Move the bar."""
        self.round(status)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._progress.stop()


def display(total_env_steps: int) -> Display:
    """The display that suits standard output."""
    return Live(total_env_steps) if Console(file=sys.stdout).is_terminal else Plain(total_env_steps)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
