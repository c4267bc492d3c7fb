"""The options of commands that take settings. A value that is not allowed is one line per problem, as in Python."""

import contextlib
import io
import sys
from collections.abc import Sequence
from typing import Any, TypeVar

import tyro
from pydantic import ValidationError

from hrac import config as configs
from hrac.config import ConfigError

Options = TypeVar("Options")

GROUPS = {
    "EnvConfig": "env",
    "ManagerConfig": "manager",
    "A2C": "controller",
    "TD3": "controller",
    "AdjacencyConfig": "adjacency",
    "TrainingConfig": "training",
}
"""By the name of a class of settings, which pydantic gives to its errors: the word before its fields."""


def parse(kind: type[Options], arguments: Sequence[str], prog: str, default: Options | None = None) -> Options:
    """The options that were given; raises `ConfigError` where a setting refuses its value."""
    said = io.StringIO()
    given: dict[str, Any] = {} if default is None else {"default": default}
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(kind, args=arguments, prog=prog, **given)
    except SystemExit as ended:
        if (refused := _refusal(ended)) is not None:
            raise ConfigError(configs.explain(refused, GROUPS.get(refused.title, ""))) from None
        sys.stderr.write(said.getvalue())
        raise


def _refusal(error: BaseException | None) -> ValidationError | None:
    """The error of a setting behind the end of the program, if there is one."""
    while error is not None and not isinstance(error, ValidationError):
        error = error.__context__
    return error
