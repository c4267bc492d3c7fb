"""The methods: a row for each, with how it differs from HRAC."""

from typing import Any, NamedTuple

from hrac.config import ConfigError


class Method(NamedTuple):
    """What a name after `--method` stands for."""

    summary: str
    settings: dict[str, Any]
    """Where the method departs from the settings of its task."""


METHODS = {
    "hrac": Method("k-step adjacency constraint on the manager's subgoals (the paper's method)", {}),
}


def find(name: str) -> Method:
    """The method of a name; raises `ConfigError`."""
    if name not in METHODS:
        raise ConfigError(f"method: there is no {name!r}. Methods are: {', '.join(METHODS)}")
    return METHODS[name]
