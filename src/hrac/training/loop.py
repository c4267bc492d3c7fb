"""Training: the only loop. `train` reads like Algorithm 1."""

from typing import Protocol, runtime_checkable

from hrac.folder.log import Row
from hrac.training.state import Training


@runtime_checkable
class Record(Protocol):
    """Receives the metrics and states of a training."""

    def rows(self, rows: list[Row]) -> None:
        """Record metrics."""
        ...

    def round(self) -> None:
        """A round is over."""
        ...

    def save(self) -> None:
        """Save the complete state."""
        ...


@runtime_checkable
class Stop(Protocol):
    """Whether to stop early."""

    def __call__(self) -> bool:
        """Whether to stop before the next round."""
        ...

    def poll(self) -> None:
        """Raise during long work if the user asked to stop."""
        ...


def train(training: Training, record: Record, stop: Stop, fresh: bool) -> None:
    """Train all runs to their last step, or until `stop` (Algorithm 1). A training that is not `fresh` continues a run.

    If the last evaluation is not due by the regular interval, it comes after the last save, so a resumed run does not have it.
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
