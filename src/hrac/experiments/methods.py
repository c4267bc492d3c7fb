"""The methods: one row per method, with its differences from HRAC."""

from typing import Any, NamedTuple

from hrac.config import ConfigError


class Method(NamedTuple):
    """The meaning of a name after `--method`."""

    summary: str
    settings: dict[str, Any]
    """Settings in which the method differs from its task."""


METHODS = {
    "hrac": Method("k-step adjacency constraint on the manager's subgoals (the paper's method)", {}),
}


def find(name: str) -> Method:
    """The method of a name; raises `ConfigError`."""
    if name not in METHODS:
        raise ConfigError(f"method: there is no {name!r}. Methods are: {', '.join(METHODS)}")
    return METHODS[name]
