"""What is known of all cells of a sweep, and a table of it: live on a terminal, plain lines elsewhere."""

import contextlib
import math
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from rich.console import Console
from rich.live import Live
from rich.table import Table

from hrac.errors import HracError
from hrac.experiments.sweep import Cell
from hrac.sweeps import status, work
from hrac.sweeps.status import NOTHING, State, Status, SweepError
from hrac.sweeps.work import Report

SECONDS_BETWEEN_LOOKS = 1.0
COLOURS = {State.RUNNING: "yellow", State.FINISHED: "green", State.FAILED: "red", State.STOPPED: "blue"}


class CellOutcome(NamedTuple):
    """A cell of a sweep and how far it is."""

    cell: Cell
    status: Status


@runtime_checkable
class Face(Protocol):
    """Somewhere to show the cells."""

    def say(self, text: str) -> None:
        """Show a line that stays."""
        ...

    def show(self, outcomes: Sequence[CellOutcome]) -> None:
        """Show how far all cells are."""
        ...

    def close(self) -> None:
        """Called at the end."""
        ...


class Board:
    """How far all cells of a sweep are. Nothing is kept here but the errors of this sweep: the rest is in the run folders."""

    def __init__(self, cells: Sequence[Cell], face: Face) -> None:
        """Look at all cells; raises `SweepError` where a folder has a run of another configuration."""
        self._errors: dict[str, str] = {}
        self._statuses: dict[str, Status] = {}
        self._cells, self._face, self._looked = cells, face, -math.inf
        for cell in cells:
            self._look(cell, first=True)

    def wanted(self, cell: Cell) -> bool:
        """Whether a cell still has to be trained: it is neither finished, nor trained by another process, nor unreadable."""
        return self._look(cell).state in (State.NOT_STARTED, State.STOPPED)

    def ended(self, cell: Cell, report: Report) -> None:
        """A process has trained a cell."""
        if report["end"] == work.FAILED:
            self._errors[cell.name] = report["error"]
        self._look(cell)
        self._looked = -math.inf

    def say(self, text: str) -> None:
        """Show a line."""
        self._face.say(text)

    def refresh(self) -> None:
        """Look at all cells that can change, from time to time, and show them."""
        if time.monotonic() - self._looked > SECONDS_BETWEEN_LOOKS:
            for cell in self._cells:
                if self._statuses[cell.name].state not in (State.FINISHED, State.FAILED):
                    with contextlib.suppress(HracError):  # a file may be changing now; errors count when its process has ended
                        self._statuses[cell.name] = status.read(cell)
            self._face.show(self.outcomes())
            self._looked = time.monotonic()

    def outcomes(self) -> list[CellOutcome]:
        """All cells as they were last seen."""
        return [CellOutcome(cell, self._statuses[cell.name]) for cell in self._cells]

    def _look(self, cell: Cell, first: bool = False) -> Status:
        try:
            found = status.read(cell)
        except HracError as error:
            if first and isinstance(error, SweepError):
                raise
            found = Status(State.FAILED, NOTHING, str(error))
        if cell.name in self._errors and found.state not in (State.RUNNING, State.FINISHED):
            found = found._replace(state=State.FAILED, error=self._errors[cell.name])
        self._statuses[cell.name] = found
        return found


class PlainFace:
    """A line for each cell whose state or last evaluation is new."""

    def __init__(self) -> None:
        self._shown: dict[str, tuple[State, int]] = {}

    def say(self, text: str) -> None:
        """Print the line."""
        print(text, flush=True)

    def show(self, outcomes: Sequence[CellOutcome]) -> None:
        """Print what is new."""
        for cell, now in outcomes:
            news = now.state, now.numbers.step
            if self._shown.get(cell.name, (State.NOT_STARTED, 0)) != news:
                print(line(cell, now), flush=True)
            self._shown[cell.name] = news

    def close(self) -> None:
        """Do nothing."""


class LiveFace:
    """A table that stays in place."""

    def __init__(self) -> None:
        self._live = Live(refresh_per_second=2)
        self._live.start()

    def say(self, text: str) -> None:
        """Print the line above the table."""
        self._live.console.print(text, highlight=False, markup=False)

    def show(self, outcomes: Sequence[CellOutcome]) -> None:
        """Draw the table anew."""
        self._live.update(table(outcomes))

    def close(self) -> None:
        """Leave the table as it is."""
        self._live.stop()


def face() -> Face:
    """The one that suits standard output."""
    return LiveFace() if Console(file=sys.stdout).is_terminal else PlainFace()


def line(cell: Cell, now: Status) -> str:
    """A cell in one line."""
    parts = [f"step {now.numbers.step:,} of {cell.config.training.total_env_steps:,}"] if now.numbers.step else []
    parts += [part for part in (now.numbers.line(), now.error) if part]
    return f"{cell.name}: {now.state}{', ' if parts else ''}{' · '.join(parts)}"


def table(outcomes: Sequence[CellOutcome]) -> Table:
    """All cells, one row each."""
    drawn = Table("task", "method", "settings", "status", box=None, header_style="bold")
    for name in ("steps", "last evaluation", "steps/s"):
        drawn.add_column(name, justify="right")
    for cell, now in outcomes:
        colour, numbers = COLOURS.get(now.state, "dim"), now.numbers
        last = numbers._replace(steps_per_second=math.nan).line()
        pace = "" if math.isnan(numbers.steps_per_second) else f"{numbers.steps_per_second:,.0f}"
        steps = f"{numbers.step:,} of {cell.config.training.total_env_steps:,}"
        settings = described(cell.settings)
        drawn.add_row(cell.config.task, cell.config.method, settings, f"[{colour}]{now.state}[/]", steps, last, pace)
    return drawn


def described(settings: Mapping[str, object]) -> str:
    """Settings in a line."""
    return ", ".join(f"{name.rpartition('.')[2]} = {value!s:.20}" for name, value in settings.items())
