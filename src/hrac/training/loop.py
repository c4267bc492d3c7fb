"""Training: the only loop. `train` reads like Algorithm 1."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hrac.config import Config
from hrac.envs.base import Environment, HostTask
from hrac.folder import checkpoint
from hrac.folder.checkpoint import CheckpointError
from hrac.folder.files import CHECKPOINT, METRICS
from hrac.folder.log import Row, RunLog
from hrac.folder.log import read as read_log
from hrac.folder.progress import Display, Status
from hrac.training.device import DeviceTraining
from hrac.training.host import HostTraining
from hrac.training.state import DivergedError, Training
from hrac.training.stop import Deadline, StoppedError, interruptible


class Outcome(NamedTuple):
    """How a training ended."""

    folder: Path
    env_steps: int
    finished: bool
    """False if it stopped before its last step."""
    interrupted: bool
    """Whether it stopped because somebody asked for it (Ctrl-C, a polite kill), not because its minutes were over."""
    last: dict[str, NDArray[np.floating]]
    """The last evaluation: a value per seed, by metric."""


def prepare(config: Config, world: Environment | HostTask) -> Training:
    """A training at its beginning, in the form that the environment asks for."""
    return HostTraining(config, world) if isinstance(world, HostTask) else DeviceTraining(config, world)


def train(
    config: Config,
    world: Environment | HostTask,
    folder: Path,
    display: Display,
    resume: bool = False,
    minutes: float | None = None,
    begun: Callable[[], None] = lambda: None,
) -> Outcome:
    """Train all seeds of a configuration in a locked run folder, from the start or from its checkpoint (Algorithm 1).

    With `minutes`, it stops with a checkpoint before this many are over, as far as it can tell from rounds and saves so far.
    `begun` is called when nothing stands in the way any more: a checkpoint to go on from has been read and fits.
    """
    deadline = Deadline(minutes, rounds=2 * config.training.eval_every_env_steps // config.training.round_env_steps + 1)
    if resume:
        _require_checkpoint(folder, config)
    with contextlib.closing(display), interruptible() as interrupted:
        training = prepare(config, world)
        with deadline.measuring_save(training, reading=True):
            log = _open_log(training, folder, resume)
        begun()
        with contextlib.closing(log), _naming_the_checkpoint(folder):
            watch = _Watch(training, log, display)
            if training.env_steps == 0:
                display.say(f"random behaviour for {config.adjacency.pretrain_env_steps:,} steps, first adjacency network ...")
                try:
                    watch.record(training.pretrain())
                except StoppedError:  # there is nothing to save: a run that goes on begins anew
                    return Outcome(folder, 0, False, True, {})
                with deadline.measuring_round():
                    watch.record(training.evaluate())
                with deadline.measuring_save(training):
                    training.save(folder, log)
            while not (_ended(training) or interrupted() or deadline.near(training)):
                with deadline.measuring_round():
                    training.round()
                    if _due(training, config.adjacency.update_every_env_steps):
                        watch.record(training.update_adjacency())
                    if _due(training, config.training.eval_every_env_steps) or _ended(training):
                        watch.record(training.evaluate())
                watch.tick()
                if _due(training, config.training.checkpoint_every_env_steps) or _ended(training):
                    with deadline.measuring_save(training):
                        training.save(folder, log)
            if not _ended(training):
                training.save(folder, log)
            last = {name: values for name, values in watch.last.items() if name.startswith("eval/")}
            return Outcome(folder, training.env_steps, _ended(training), interrupted(), last)


@contextlib.contextmanager
def _naming_the_checkpoint(folder: Path) -> Iterator[None]:
    """A training that diverged says where its last good state is."""
    try:
        yield
    except DivergedError as error:
        good = folder / CHECKPOINT
        where = f"The last good checkpoint is {good}" if good.exists() else "There is no checkpoint yet"
        raise DivergedError(f"{error}. {where}") from None


def steps_reached(folder: Path) -> int:
    """The step of a run folder's checkpoint, 0 if it has none; raises `CheckpointError`."""
    path = folder / CHECKPOINT
    if not path.exists():
        return 0
    with checkpoint.understanding(path):
        return int(checkpoint.load_facts(path, "checkpoint")["env_steps"])


def _due(training: Training, every_env_steps: int) -> bool:
    """Whether the last round crossed a multiple of a number of steps."""
    before = training.env_steps - training.config.training.round_env_steps
    return training.env_steps // every_env_steps > before // every_env_steps


def _ended(training: Training) -> bool:
    return training.env_steps >= training.config.training.total_env_steps


def _open_log(training: Training, folder: Path, resume: bool) -> RunLog:
    if resume and (folder / CHECKPOINT).exists():
        with checkpoint.understanding(folder / CHECKPOINT):
            keep = training.restore(folder / CHECKPOINT)
            train = training.config.training
            if keep < 0 or not 0 < training.env_steps < train.total_env_steps + train.round_env_steps:
                raise ValueError(f"{training.env_steps} steps and {keep} bytes of metrics cannot be")
        return RunLog(folder, keep, training.env_steps)
    return RunLog(folder)


def _require_checkpoint(folder: Path, config: Config) -> None:
    """A run that has come further than its beginning must have one to go on from."""
    if (folder / METRICS).exists() and not (folder / CHECKPOINT).exists():
        last = max((row.step for row in read_log(folder)), default=0)
        if last > config.adjacency.pretrain_env_steps:
            raise CheckpointError(f"{folder} has metrics up to step {last:,} but no {CHECKPOINT}: it cannot be resumed")


class _Watch:
    """Passes rows on to the log and the display, with the time they took."""

    def __init__(self, training: Training, log: RunLog, display: Display) -> None:
        self._training, self._log, self._display = training, log, display
        self._mark = time.monotonic()
        self._began = self._mark - log.seconds
        self._mark_step = training.env_steps
        self._pace = float("nan")
        self.last: dict[str, NDArray[np.floating]] = {}

    def record(self, rows: list[Row]) -> None:
        self._log.write(rows)
        for name in {row.name for row in rows}:
            self.last[name] = np.array([row.value for row in rows if row.name == name])
        if any(row.name == "eval/return" for row in rows):
            now, step = time.monotonic(), self._training.env_steps
            self._pace = (step - self._mark_step) * len(self._training.config.seeds) / max(now - self._mark, 1e-9)
            self._mark, self._mark_step = now, step
            self._log.write_timing(step, now - self._began, self._pace)
            self._display.evaluation(self._status())

    def tick(self) -> None:
        self._display.round(self._status())

    def _status(self) -> Status:
        mean = lambda name: float(np.mean(self.last.get(name, np.nan)))  # noqa: E731
        step = self._training.env_steps
        return Status(step, self._pace, mean("eval/return"), mean("eval/success"), mean("adjacency/accuracy"))
