"""When a training ends before its last step: somebody asks for it, or its minutes are over."""

import contextlib
import math
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Protocol, runtime_checkable

from hrac.errors import HracError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
"""Ctrl-C, a polite kill, a terminal that closes, and what some queues send before their time limit."""
WRITING_PER_READING = 6.0
"""A guess on the safe side: a process's first checkpoint takes several times as long to write as its last one to read."""


@contextlib.contextmanager
def interruptible() -> Iterator["Interrupted"]:
    """Within, the first request to stop (Ctrl-C, or a signal that queues send) is only remembered; the second interrupts.

    What is remembered can be asked for by calling what comes back.
    """
    interrupted = Interrupted()
    before = {}
    with contextlib.suppress(ValueError):  # signals belong to the main thread
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup means it
                before[number] = signal.signal(number, interrupted.remember)
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@runtime_checkable
class Steps(Protocol):
    """What a training has come to."""

    env_steps: int


class Deadline:
    """Whether it is time to stop: somebody asked for it, or what is still to be done would end after some minutes of now.

    Called before each round. The time between two calls is taken for a round's.
    """

    def __init__(
        self, minutes: float | None, training: Steps, interrupted: Callable[[], bool] = lambda: False, rounds: int = 1
    ) -> None:
        """Go by so many rounds before: enough to have an evaluation among them, few enough to forget the first, when programs
        are compiled."""
        self._end = math.inf if minutes is None else time.monotonic() + 60 * minutes
        self._training, self._interrupted = training, interrupted
        self._rounds: deque[float] = deque([0.0], maxlen=rounds)
        self._round_began: float | None = None
        self._save, self._saved_at = 0.0, 1

    def __call__(self) -> bool:
        """Whether to stop before another round: a checkpoint grows no faster than the number of steps."""
        now = time.monotonic()
        if self._round_began is not None:
            self._rounds.append(now - self._round_began)
        self._round_began = now
        save = self._save * max(self._training.env_steps / self._saved_at, 1.0)
        return self._interrupted() or now + max(self._rounds) + save > self._end

    def poll(self) -> None:
        """Raise `StoppedError` if somebody asked to stop: for long work that has nothing to save yet, such as pre-training."""
        if self._interrupted():
            raise StoppedError("the training was asked to stop")

    @contextlib.contextmanager
    def measuring_save(self, reading: bool = False) -> Iterator[None]:
        """Remember how long it takes to write a checkpoint, or to read one, from which that is guessed."""
        start = time.monotonic()
        yield
        self._save = (time.monotonic() - start) * (WRITING_PER_READING if reading else 1.0)
        self._saved_at = max(self._training.env_steps, 1)
        if self._round_began is not None:  # a save is no part of a round
            self._round_began += time.monotonic() - start


class StoppedError(HracError):
    """Raised by `Deadline.poll` in the middle of work that is done again when the run goes on."""


class Interrupted:
    """Whether somebody asked to stop."""

    def __init__(self) -> None:
        self._times = 0

    def __call__(self) -> bool:
        """Whether it happened."""
        return self._times > 0

    def remember(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        self._times += 1
        if self._times == 2:  # a third one comes while the second is being obeyed
            raise KeyboardInterrupt
