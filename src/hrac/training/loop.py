"""Training: the only loop. `train` reads like Algorithm 1."""

from typing import Protocol, runtime_checkable

from hrac.folder.log import Row
from hrac.training.state import Training


@runtime_checkable
class Record(Protocol):
    """Where a training's numbers and states go."""

    def rows(self, rows: list[Row]) -> None:
        """Take numbers."""
        ...

    def round(self) -> None:
        """A round is over."""
        ...

    def save(self) -> None:
        """Keep the complete state."""
        ...


@runtime_checkable
class Stop(Protocol):
    """Whether to stop early."""

    def __call__(self) -> bool:
        """Whether to stop before the next round."""
        ...

    def poll(self) -> None:
        """Raise in the middle of work if somebody asked to stop."""
        ...


def train(training: Training, record: Record, stop: Stop, fresh: bool) -> None:
    """Train all runs to their last step, or until `stop` (Algorithm 1). A training that is not `fresh` was begun before.

    A last evaluation off the beat comes after the last save: a run that goes on from there does not know of it.
    """
    config = training.config
    if fresh:
        record.rows(training.pretrain(stop.poll))
        record.rows(training.evaluate())
        record.save()
    while not (training.ended or stop()):
        training.round()
        if training.due(config.adjacency.update_every_env_steps):
            record.rows(training.update_adjacency())
        if training.due(config.training.eval_every_env_steps):
            record.rows(training.evaluate())
        record.round()
        if training.due(config.training.checkpoint_every_env_steps):
            record.save()
    record.save()
    if training.ended and not training.due(config.training.eval_every_env_steps):
        record.rows(training.evaluate())
