"""Copies of a Gymnasium environment, stepped one after the other, in processes, or by the environment's own vector form.

None of them resets itself. Every exception of an environment becomes an `EnvironmentFailedError` that names the copy.
"""

import contextlib
import functools
import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv
from numpy.typing import NDArray

from hrac.errors import HracError

MakeEnv = Callable[[], gymnasium.Env[Any, Any]]
MakeVector = Callable[[int], VectorEnv[Any, Any, Any]]
Rows = NDArray[np.int64]


class EnvironmentFailedError(HracError, RuntimeError):
    """An environment raised an exception, or did not answer in time; the message names the copy."""


class Moved(NamedTuple):
    """The result of one copy's step."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


@runtime_checkable
class Copies(Protocol):
    """Some copies of an environment."""

    def reset(self, rows: Rows, seeds: Sequence[int] | None) -> list[Any]:
        """Begin episodes in these copies; returns their first observations."""
        ...

    def step(self, rows: Rows, actions: Sequence[Any]) -> list[Moved]:
        """Step these copies."""
        ...

    def sources(self) -> list[Any]:
        """The environments themselves, where they are in this process."""
        ...

    def close(self) -> None:
        """They are not needed any more."""
        ...


class OneByOne:
    """Copies in this process. They come from a pool and go back to it, because making one can take long.

    A copy that raised an error does not go back.
    """

    def __init__(self, make: MakeEnv, pool: list[gymnasium.Env[Any, Any]], count: int) -> None:
        self._pool = pool
        self._busy: int | None = None
        self._envs = [pool.pop() if pool else make() for _ in range(count)]

    def reset(self, rows: Rows, seeds: Sequence[int] | None) -> list[Any]:
        """Begin episodes in these copies."""
        first = []
        for place, row in enumerate(rows.tolist()):
            self._busy = row
            with naming(f"copy {row}", "reset"):
                first.append(self._envs[row].reset(seed=None if seeds is None else seeds[place])[0])
        self._busy = None
        return first

    def step(self, rows: Rows, actions: Sequence[Any]) -> list[Moved]:
        """Step these copies."""
        moved = []
        for row, action in zip(rows.tolist(), actions, strict=True):
            self._busy = row
            with naming(f"copy {row}", "step"):
                moved.append(Moved(*self._envs[row].step(action)))
        self._busy = None
        return moved

    def sources(self) -> list[Any]:
        """The environments."""
        return self._envs

    def close(self) -> None:
        """Give the environments back, but for one that has failed."""
        if self._busy is not None and self._envs:
            with contextlib.suppress(Exception):
                self._envs.pop(self._busy).close()
        self._pool.extend(self._envs)
        self._envs = []


class Vectorised:
    """Copies in a vector environment that does not reset by itself. It steps all copies, also those that nobody asked for."""

    def __init__(self, make: MakeVector, count: int, timeout: float | None, pool: list["Vectorised"]) -> None:
        with naming(f"{count} copies", "make_vec"):
            self._vector = make(count)
        self._pool, self._busy = pool, False
        self._timeout, self._count = timeout, count
        self._ended = np.ones(count, bool)
        self._spare = self._vector.action_space.sample()
        if (mode := self._vector.metadata.get("autoreset_mode")) is not AutoresetMode.DISABLED:
            raise EnvironmentFailedError(
                f'env.stepping: its own vector form resets itself ({mode}) and cannot be told not to; use "async" or "sync"'
            )

    def reset(self, rows: Rows, seeds: Sequence[int] | None) -> list[Any]:
        """Begin episodes in these copies."""
        mask = np.zeros(self._count, bool)
        mask[rows] = True
        everyones: Any = [None] * self._count
        for row, seed in zip(rows.tolist(), seeds or (), strict=seeds is not None):
            everyones[row] = seed
        self._busy = True
        with naming("a copy", "reset"):
            observations, _ = self._reset(everyones, {"reset_mask": mask})
        self._busy = False
        self._ended[rows] = False
        return [_row(observations, row) for row in rows.tolist()]

    def step(self, rows: Rows, actions: Sequence[Any]) -> list[Moved]:
        """Step these copies. The others make a move of no meaning, in a new episode where theirs has ended."""
        if self._ended.any():
            self.reset(np.flatnonzero(self._ended), None)
        everyones = np.array(self._spare)
        everyones[rows] = np.asarray(actions)
        self._busy = True
        with naming("a copy", "step"):
            observations, reward, terminated, truncated, info = self._step(everyones)
        self._busy = False
        self._ended = np.asarray(terminated) | np.asarray(truncated)
        return [
            Moved(_row(observations, row), float(reward[row]), bool(terminated[row]), bool(truncated[row]), _row_of(info, row))
            for row in rows.tolist()
        ]

    def _step(self, actions: NDArray[Any]) -> Any:
        if not isinstance(self._vector, AsyncVectorEnv):
            return self._vector.step(actions)
        self._vector.step_async(actions)
        with self._in_time():
            return self._vector.step_wait(self._timeout)

    def _reset(self, seeds: Any, options: dict[str, Any]) -> Any:
        if not isinstance(self._vector, AsyncVectorEnv):
            return self._vector.reset(seed=seeds, options=options)
        self._vector.reset_async(seed=seeds, options=options)
        with self._in_time():
            return self._vector.reset_wait(self._timeout)

    @contextlib.contextmanager
    def _in_time(self) -> Iterator[None]:
        try:
            yield
        except multiprocessing.TimeoutError:
            raise EnvironmentFailedError(
                f"a copy did not answer within env.step_seconds = {self._timeout:g} seconds: it hangs, or needs more time"
            ) from None

    def sources(self) -> list[Any]:
        """None: the environments are elsewhere."""
        return []

    def close(self) -> None:
        """Give the copies back, unless one of them has failed."""
        self._ended[:] = True
        if self._busy:
            self.end(terminate=True)
        else:
            self._pool.append(self)

    def end(self, terminate: bool = False) -> None:
        """End its processes; one that has failed must be terminated."""
        with contextlib.suppress(Exception):
            self._vector.close(**({"terminate": True} if terminate and isinstance(self._vector, AsyncVectorEnv) else {}))


def processes(make: MakeEnv) -> MakeVector:
    """Copies in processes of their own. They are not forked, because a process that has used JAX cannot be."""
    start = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    deaf = functools.partial(_made_deaf, make)
    return lambda count: AsyncVectorEnv([deaf] * count, context=start, autoreset_mode=AutoresetMode.DISABLED)


def _made_deaf(make: MakeEnv) -> gymnasium.Env[Any, Any]:
    """An environment in a process that leaves Ctrl-C to the one that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return make()


@contextlib.contextmanager
def naming(whose: str, what: str) -> Iterator[None]:
    """An exception of an environment names the copy and the function."""
    try:
        yield
    except (HracError, KeyboardInterrupt):
        raise
    except (Exception, SystemExit) as error:
        raise EnvironmentFailedError(f"{whose} of the environment failed in {what}: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def answering(step_seconds: float | None, more: float) -> Iterator[None]:
    """What an environment in this process does here takes at most one step and `more` seconds, else an error is raised.

    Only the main thread can watch, and only where there is an alarm, which Windows has not.
    """
    if sys.platform == "win32" or step_seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: Any) -> None:
        raise EnvironmentFailedError(
            f"the first copy did not answer within env.step_seconds = {step_seconds:g} seconds: it hangs, or needs more time"
        )

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, step_seconds + more)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _row(batch: Any, row: int) -> Any:
    return {name: part[row] for name, part in batch.items()} if isinstance(batch, dict) else batch[row]


def _row_of(info: dict[str, Any], row: int) -> dict[str, Any]:
    """The information of one copy: entries with a mask (`_name`) where it holds."""
    present = {name: value for name, value in info.items() if not name.startswith("_") and f"_{name}" in info}
    return {name: value[row] for name, value in present.items() if info[f"_{name}"][row]}
