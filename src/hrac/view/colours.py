"""The colours of curves: one for each method, the same in all figures and reports."""

from collections.abc import Iterable

COLOURS = (
    *("#3f90da", "#e76300", "#832db6", "#bd1f01", "#717581"),
    *("#ffa90e", "#a96b59", "#92dadd", "#b9ac70", "#94a4a2"),
)
"""Petroff's ten, which also colour-blind people can tell apart (arXiv 2107.02270), the darker ones first."""
ON_DARK = tuple({"#832db6": "#9d4fd0", "#bd1f01": "#d93616"}.get(colour, colour) for colour in COLOURS)
"""The same for dark pages."""
METHODS = ("hrac", "hiro", "hrl-her", "no-adj", "vanilla", "hrac-o", "flat", "neg-reward", "hiro-b", "flat-her", "hrac-plus")
"""Each has the colour at its place; the eleventh has the first one, with other dashes."""


def places(labels: Iterable[str]) -> dict[str, int]:
    """The place of each label among the colours: a method has its own, others have the first that are left.

    Places from 10 on stand for the same colours with other dashes.

    >>> places(["mine", "HRAC", "hrl-her", "yours"])
    {'mine': 1, 'HRAC': 0, 'hrl-her': 2, 'yours': 3}
    """
    different = list(dict.fromkeys(labels))
    own = {label: METHODS.index(label.lower()) for label in different if label.lower() in METHODS}
    left = iter([place for place in range(len(METHODS) + len(different)) if place not in own.values()])
    return {label: own[label] if label in own else next(left) for label in different}
