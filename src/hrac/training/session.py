"""A training in its run folder: log, checkpoints, policies, display, and when it stops."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from hrac.agents.decide import Actors
from hrac.config import Config, to_dict
from hrac.envs.base import Environment, HostTask
from hrac.envs.copies import EnvironmentFailedError
from hrac.folder import checkpoint
from hrac.folder.checkpoint import CheckpointError
from hrac.folder.files import BEST, CHECKPOINT, METRICS, POLICIES
from hrac.folder.log import Logger, Row, RunLog
from hrac.folder.log import read as read_log
from hrac.folder.progress import Display, Status
from hrac.folder.tensorboard import TensorBoard
from hrac.runs import join
from hrac.training import loop, policies, replay, state
from hrac.training.callbacks import Callback, Moment, mean_of_seeds
from hrac.training.state import Training
from hrac.training.stop import Deadline, StoppedError, interruptible
from hrac.worlds.base import DivergedError

BEST_EVERY_SECONDS = 60.0
"""At an evaluation best policies are written if they were not for so long. Checkpoints are far larger, so they may be rare."""


class Ended(NamedTuple):
    """How a training ended."""

    folder: Path
    env_steps: int
    finished: bool
    """False if it stopped before its last step."""
    interrupted: bool
    """Whether it stopped because it was asked to (Ctrl-C or another signal), not because its minutes were over."""
    last: dict[str, NDArray[np.floating]]
    """The last evaluation: a value per seed, by metric; NaN where a seed has none."""


def train(
    config: Config,
    task: Environment | HostTask,
    folder: Path,
    display: Display,
    resume: bool = False,
    minutes: float | None = None,
    begun: Callable[[], None] = lambda: None,
    callbacks: Sequence[Callback] = (),
    loggers: Sequence[Logger] = (),
) -> Ended:
    """Train all seeds of a configuration in a locked run folder, from the start or from its checkpoint.

    With `minutes`, it stops with a checkpoint before they are over, as estimated from the rounds and saves so far. `begun` is
    called once the training can start: if there is a checkpoint, it has been read and fits. Each callback is called after each
    evaluation and may stop the training; loggers receive what is written to `metrics.csv`. If one of them raises, the training
    stops with a checkpoint and the error is raised again.
    """
    if resume:
        _require_checkpoint(folder, config)
    with contextlib.closing(display), interruptible() as interrupted, contextlib.ExitStack() as stack:
        training = Training(config, task)
        stack.callback(getattr(training.world, "close", lambda: None))
        rounds = 2 * config.training.eval_every_env_steps // config.training.round_env_steps + 1
        listeners = _Listeners(callbacks, loggers)
        stack.callback(listeners.close)
        deadline = Deadline(minutes, checkpoint_size(training), lambda: interrupted() or listeners.stop, rounds)
        fresh = not (resume and (folder / CHECKPOINT).exists())
        with deadline.measuring_save(reading=True):
            log = RunLog(folder) if fresh else RunLog(folder, state.load(training, folder / CHECKPOINT), training.env_steps)
        begun()
        board = TensorBoard(folder, to_dict(config), None if fresh else training.env_steps)
        with contextlib.closing(log), _naming_the_checkpoint(folder):
            record = _FolderRecord(training, folder, log, board, display, deadline, listeners)
            for line in _first_words(training, fresh):
                display.say(line)
            try:
                loop.train(training, record, deadline, fresh)
                record.save_best()
            except EnvironmentFailedError as error:
                if training.env_steps == 0:
                    raise
                record.save()
                raise EnvironmentFailedError(f"{error}; {_saved(training, folder)}") from error
            except StoppedError:  # there is nothing to save in pre-training: a resumed run starts again
                return Ended(folder, 0, False, True, {})
            if listeners.error is not None:
                listeners.error.add_note(_saved(training, folder))
                raise listeners.error
            last = {name: values for name, values in record.last.items() if name.startswith("eval/")}
            return Ended(folder, training.env_steps, training.ended, interrupted(), last)


def checkpoint_size(training: Training) -> Callable[[], float]:
    """How many bytes a checkpoint of a training has about: all networks, and the filled part of the replays."""
    leaves = {name: jax.tree.leaves([getattr(part, name) for part in training.runs]) for name in ("agent", "replay")}
    learned, stored = (sum(leaf.nbytes for leaf in leaves[name]) for name in ("agent", "replay"))
    places = replay.places(training.setup)
    return lambda: learned + stored * min(training.env_steps / places, 1.0)


def _first_words(training: Training, fresh: bool) -> Iterator[str]:
    """What a user should know before a training starts or goes on."""
    config = training.config
    if fresh:
        if training.sources:
            walk = f"random behaviour for {config.first_env_steps:,} steps, " if config.first_env_steps else ""
            yield f"{walk}first adjacency network ..."
        yield _when_learning_starts(config)
    elif not training.world.exact:
        yield "new episodes begin: the state of this environment cannot be saved"


def _saved(training: Training, folder: Path) -> str:
    return f"what was learned up to step {training.env_steps:,} is saved: hrac train --resume {folder}"


def _when_learning_starts(config: Config) -> str:
    start, end = config.learning_env_steps, config.training.total_env_steps
    if start < end:
        return f"learning starts at about step {start:,}"
    return f"nothing will be learned: learning starts at about step {start:,}, and the run ends at {end:,} (--steps)"


class _Listeners:
    """The callbacks and loggers of a user. One that raises stops the training, as a signal does."""

    def __init__(self, callbacks: Sequence[Callback], loggers: Sequence[Logger]) -> None:
        self._callbacks, self._loggers = callbacks, loggers
        self._asked = False
        self.error: Exception | None = None
        """The first that one of them raised."""

    @property
    def stop(self) -> bool:
        """Whether a callback asked to stop, or one of them raised."""
        return self._asked or self.error is not None

    def write(self, rows: Sequence[Row]) -> None:
        """Tell the loggers."""
        for logger in self._loggers:
            with self._keeping_errors():
                logger.write(rows)

    def evaluated(self, moment: Callable[[], Moment]) -> None:
        """Tell the callbacks."""
        for callback in self._callbacks:
            with self._keeping_errors():
                self._asked |= bool(callback(moment()))

    @contextlib.contextmanager
    def _keeping_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self.error is None:
                self.error = error

    def close(self) -> None:
        """The training has ended. A logger that raises does not keep the others from closing."""
        with contextlib.ExitStack() as stack:
            for logger in self._loggers:
                stack.callback(logger.close)


class _FolderRecord:
    """Writes metrics to the logs and the display, with their timing, and states to the folder."""

    def __init__(
        self,
        training: Training,
        folder: Path,
        log: RunLog,
        board: TensorBoard,
        display: Display,
        deadline: Deadline,
        listeners: _Listeners,
    ) -> None:
        self._training, self._folder, self._display, self._deadline = training, folder, display, deadline
        self._log, self._board, self._listeners = log, board, listeners
        self._mark = time.monotonic()
        self._began = self._mark - log.seconds
        self._mark_step = training.env_steps
        self._pace = float("nan")
        self._saved_step: int | None = None
        self._best_steps: dict[int, float] = {}
        """When the best policies that are written were evaluated, by seed."""
        self._best_written = self._mark
        self.last: dict[str, NDArray[np.floating]] = {}

    def rows(self, rows: list[Row]) -> None:
        """Log them, and display an evaluation."""
        self._log.write(rows)
        self._board.write(rows)
        self._listeners.write(rows)
        self.last |= by_seed(rows, self._training.config.seeds)
        if any(row.name == "eval/return" for row in rows):
            now, step = time.monotonic(), self._training.env_steps
            self._pace = (step - self._mark_step) * len(self._training.config.seeds) / max(now - self._mark, 1e-9)
            self._mark, self._mark_step = now, step
            self._log.write_timing(step, now - self._began, self._pace)
            self._board.write_speed(step, self._pace)
            if now - self._best_written >= BEST_EVERY_SECONDS:
                self.save_best()
            self._display.evaluation(self._status())
            self._listeners.evaluated(self._moment)

    def round(self) -> None:
        """Update the display."""
        self._display.round(self._status())

    def save(self) -> None:
        """Write the policies and a checkpoint, unless those of this step are written."""
        if self._saved_step == self._training.env_steps:
            return
        with self._deadline.measuring_save():
            training = self._training
            training.settle()
            # first: if the process is killed in between, a resume writes them again
            self._save_policies(self._folder / POLICIES, join(training.policies()))
            self.save_best()
            state.save(training, self._folder / CHECKPOINT, self._log.offset)
        self._saved_step = self._training.env_steps

    def save_best(self) -> None:
        """Write the best policies that are not written yet."""
        best = self._scores()
        new = {seed: scores for seed, scores in best.items() if self._best_steps.get(seed) != scores["step"]}
        if self._training.best.actors is not None and new:
            self._save_policies(self._folder / BEST, self._training.best.actors, new)
        self._best_steps = {seed: scores["step"] for seed, scores in best.items()}
        self._best_written = time.monotonic()

    def _save_policies(self, folder: Path, actors: Actors, scores: dict[int, dict[str, float]] | None = None) -> None:
        training = self._training
        policies.save(folder, actors, training.config, training.setup, training.view, scores)

    def _scores(self) -> dict[int, dict[str, float]]:
        return {seed: self._training.best.about(run) for run, seed in enumerate(self._training.config.seeds)}

    def _moment(self) -> Moment:
        training = self._training

        def save(folder: str | Path) -> None:
            Path(folder).parent.mkdir(parents=True, exist_ok=True)
            self._save_policies(Path(folder), join(training.policies()))

        return Moment(self._folder, training.env_steps, training.config.seeds, dict(self.last), self._scores(), save)

    def _status(self) -> Status:
        return_, success, accuracy = (
            mean_of_seeds(self.last, name) for name in ("eval/return", "eval/success", "adjacency/accuracy")
        )
        return Status(self._training.env_steps, self._pace, return_, success, accuracy)


def by_seed(rows: Sequence[Row], seeds: Sequence[int]) -> dict[str, NDArray[np.float64]]:
    """The numbers of one step by metric: a value for each of the seeds, NaN where one has none.

    >>> by_seed([Row(3, 100, "x", 1.5), Row(7, 100, "y", 2.5), Row(7, 100, "x", 0.5)], (3, 7))
    {'x': array([1.5, 0.5]), 'y': array([nan, 2.5])}
    """
    values = {name: np.full(len(seeds), np.nan) for name in dict.fromkeys(row.name for row in rows)}
    for row in rows:
        values[row.name][seeds.index(row.seed)] = row.value
    return values


@contextlib.contextmanager
def _naming_the_checkpoint(folder: Path) -> Iterator[None]:
    """The error of a training that diverged names the last good checkpoint."""
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


def _require_checkpoint(folder: Path, config: Config) -> None:
    """Raise if a run is past its pre-training but has no checkpoint."""
    if (folder / METRICS).exists() and not (folder / CHECKPOINT).exists():
        last = max((row.step for row in read_log(folder)), default=0)
        if last > config.adjacency.pretrain_env_steps:
            raise CheckpointError(f"{folder} has metrics up to step {last:,} but no {CHECKPOINT}: it cannot be resumed")
