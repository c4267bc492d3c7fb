"""Online goal-conditioned hierarchical reinforcement learning with k-step adjacency constraints.

`train` a method on a task, `load` the policy of a run folder, `evaluate` it, `resume` a training, `plot` its `metrics`,
`compare` runs, `sweep` over many, write a `report` on them; importing this package registers its environments with Gymnasium
(docs/environments.md).
`reachability` learns what is within k steps of what from anybody's trajectories (docs/analyses.md).
"""

from importlib import metadata as _metadata

from hrac import reachability
from hrac.api import check_task, evaluate, load, pretrained, resume, run, train
from hrac.config import Config, ConfigError
from hrac.envs import gym as _gym
from hrac.envs.look import TaskError
from hrac.errors import HracError
from hrac.experiments.check import Report
from hrac.experiments.compare import CompareError, Comparison, compare
from hrac.experiments.own import task as own_task
from hrac.experiments.task import Task
from hrac.experiments.tasks import register
from hrac.folder.checkpoint import CheckpointError
from hrac.folder.log import Logger, Row
from hrac.folder.opening import RunFolderError
from hrac.folder.progress import Silent
from hrac.reports import report
from hrac.results import Evaluation, Outcome, metrics, plot
from hrac.sweeps.board import CellOutcome
from hrac.sweeps.run import sweep
from hrac.sweeps.status import SweepError
from hrac.training.callbacks import Callback, Moment, StopAt
from hrac.training.policies import Policy

__version__ = _metadata.version("hrac")

_gym.register()

__all__ = [
    "Callback",
    "CellOutcome",
    "CheckpointError",
    "CompareError",
    "Comparison",
    "Config",
    "ConfigError",
    "Evaluation",
    "HracError",
    "Logger",
    "Moment",
    "Outcome",
    "Policy",
    "Report",
    "Row",
    "RunFolderError",
    "Silent",
    "StopAt",
    "SweepError",
    "Task",
    "TaskError",
    "check_task",
    "compare",
    "evaluate",
    "load",
    "metrics",
    "own_task",
    "plot",
    "pretrained",
    "reachability",
    "register",
    "report",
    "resume",
    "run",
    "sweep",
    "train",
]
