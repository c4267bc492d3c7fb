"""`hrac --tyro-print-completion SHELL`: a script that completes commands, tasks, experiments and options on the tab key."""

import contextlib
import dataclasses
import functools
import io
import operator
import re
from collections.abc import Sequence
from typing import Annotated, Any

import tyro

from hrac.cli.figure import FigureOptions
from hrac.cli.pairs import PairsOptions
from hrac.cli.play import EvalOptions, PictureOptions, VideoOptions
from hrac.cli.report import ReportOptions
from hrac.cli.results import CompareOptions, CurvesOptions
from hrac.cli.sweep import SweepOptions
from hrac.cli.tasks import BenchOptions, CheckOptions, ListOptions
from hrac.cli.training import ResumeOptions, defaults
from hrac.config import ConfigError

SHELLS = ("bash", "zsh")


def completion(arguments: Sequence[str]) -> int:
    """Print the script. The parser behind it is for this only: each command parses its own options."""
    from hrac.experiments import tasks
    from hrac.experiments.sweep import EXPERIMENTS

    if tuple(arguments[1:]) not in [(shell,) for shell in SHELLS]:
        raise ConfigError(f"{arguments[0]} must be followed by {' or '.join(SHELLS)}")
    commands = {
        "train": _followed(ResumeOptions, {name: defaults(tasks.config_for(name)) for name in tasks.TASKS}),
        "eval": EvalOptions,
        "picture": PictureOptions,
        "video": VideoOptions,
        "compare": CompareOptions,
        "report": ReportOptions,
        "curves": CurvesOptions,
        "figure": FigureOptions,
        "sweep": _followed(SweepOptions, {name: SweepOptions(name) for name in EXPERIMENTS}),
        "pairs": PairsOptions,
        "check": _followed(CheckOptions, {name: CheckOptions(name) for name in tasks.TASKS}),
        "list": ListOptions,
        "bench": _followed(BenchOptions, {name: BenchOptions(name) for name in tasks.TASKS}),
    }
    with contextlib.redirect_stdout(io.StringIO()) as script, contextlib.suppress(SystemExit):
        tyro.extras.subcommand_cli_from_dict(commands, prog="hrac", args=arguments)
    # Each line of a description would be offered as a completion, so descriptions are made single lines.
    print(re.sub("^COMPLETION_SPEC = .*", lambda line: line[0].replace(r"\n", " "), script.getvalue(), flags=re.MULTILINE))
    return 0


def _followed(options: Any, names: dict[str, Any]) -> Any:
    """The options of a command that may be followed by one of these names, each with options and defaults of its own."""
    kinds: list[Any] = [
        Annotated[type(default), tyro.conf.subcommand(name, default=default, prefix_name=False)]
        for name, default in names.items()
    ]
    chosen = ("chosen", Annotated[functools.reduce(operator.or_, kinds), tyro.conf.arg(name="")])
    return dataclasses.make_dataclass(options.__name__, [chosen], bases=(options,), frozen=True, kw_only=True)
