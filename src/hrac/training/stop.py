"""When a training stops before its last step: a signal asks for it, or its minutes are over."""

import contextlib
import math
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType

from hrac.compiled import seconds_compiling
from hrac.errors import HracError

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGBREAK")
"""Ctrl-C, a plain `kill`, a terminal that closes, the signal of some queues before their time limit; on Windows Ctrl-Break."""
SIGNALS = tuple(signal.Signals[name] for name in NAMES if name in signal.Signals.__members__)
"""Those that this system has."""
WRITING_PER_READING = 6.0
"""A cautious estimate: the first checkpoint of a process takes several times as long to write as the last one to read."""


@contextlib.contextmanager
def interruptible() -> Iterator["Interrupted"]:
    """In this context the first request to stop (Ctrl-C or another signal) is only remembered; the second one interrupts.

    Call the returned object to find out whether there was a request.
    """
    interrupted = Interrupted()
    before = {}
    with contextlib.suppress(ValueError):  # only the main thread can handle signals
        for number in SIGNALS:
            if number.name != "SIGHUP" or signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP on purpose
                before[number] = signal.signal(number, interrupted.remember)
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Deadline:
    """Whether it is time to stop: a signal asked for it, or another round and a save would end after the given minutes.

    It is called before each round. The time between two calls counts as the time of a round, without what was compiled in it:
    that is done once.
    """

    def __init__(
        self,
        minutes: float | None,
        size: Callable[[], float],
        interrupted: Callable[[], bool] = lambda: False,
        rounds: int = 1,
    ) -> None:
        """`size` tells how large a checkpoint would be now. The slowest of the last `rounds` rounds is the estimate for the
        next. They should include an evaluation."""
        self._end = math.inf if minutes is None else time.monotonic() + 60 * minutes
        self._size, self._interrupted = size, interrupted
        self._rounds: deque[float] = deque([0.0], maxlen=rounds)
        self._round_began: float | None = None
        self._compiled = 0.0
        self._save, self._saved_size = 0.0, 1.0

    def __call__(self) -> bool:
        """Whether to stop before another round. A save is assumed to take as long for its size as the last one."""
        now, compiled = time.monotonic(), seconds_compiling()
        if self._round_began is not None:
            self._rounds.append(max(now - self._round_began - (compiled - self._compiled), 0.0))
        self._round_began, self._compiled = now, compiled
        save = self._save * max(self._size() / self._saved_size, 1.0)
        return self._interrupted() or now + max(self._rounds) + save > self._end

    def poll(self) -> None:
        """Raise `StoppedError` if a signal asked to stop: for long work that has nothing to save yet, such as pre-training."""
        if self._interrupted():
            raise StoppedError("the training was asked to stop")

    @contextlib.contextmanager
    def measuring_save(self, reading: bool = False) -> Iterator[None]:
        """Measure how long it takes to write a checkpoint, or estimate it from the time to read one."""
        start = time.monotonic()
        yield
        self._save = (time.monotonic() - start) * (WRITING_PER_READING if reading else 1.0)
        self._saved_size = self._size()
        if self._round_began is not None:  # a save is not part of a round
            self._round_began += time.monotonic() - start


class StoppedError(HracError):
    """Raised by `Deadline.poll` during work that a resumed run does again."""


class Interrupted:
    """Whether a signal asked to stop."""

    def __init__(self) -> None:
        self._times = 0

    def __call__(self) -> bool:
        """Whether there was such a signal."""
        return self._times > 0

    def remember(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        self._times += 1
        if self._times == 2:  # a third one may come while the second is handled
            raise KeyboardInterrupt
