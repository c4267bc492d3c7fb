"""Of each run the actors of its best evaluation so far."""

from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np
from numpy.typing import NDArray

from hrac.agents.decide import Actors
from hrac.folder import checkpoint

CHOSEN_BY = ("eval/success", "eval/return")
"""What a better evaluation has more of: first the one, then the other. Among equals the latest is kept."""


class Best:
    """The best evaluation of each run, and the actors that it was made with. A part of a training's state."""

    def __init__(self, runs: int) -> None:
        self.steps: NDArray[np.int64] = np.full(runs, -1)
        """(runs): when; -1: there was no evaluation yet."""
        self.scores: NDArray[np.float64] = np.full((len(CHOSEN_BY), runs), -np.inf)
        """(2, runs): by `CHOSEN_BY`; -infinity where a task has no success."""
        self.actors: Actors | None = None
        """On the host, with a run axis."""

    def see(self, means: Mapping[str, NDArray[np.floating]], actors: Actors, step: int) -> None:
        """Keep the actors of the runs that are as good as ever or better."""
        new = np.array([means.get(name, np.full(len(self.steps), -np.inf)) for name in CHOSEN_BY])
        (first, second), (most, more) = new, self.scores
        better = (first > most) | ((first == most) & (second >= more))
        if not better.any():
            return
        present = jax.device_get(actors)
        before = present if self.actors is None else self.actors
        chosen = lambda now, old: np.where(better.reshape(-1, *[1] * (now.ndim - 1)), now, old)  # noqa: E731
        self.actors = jax.tree.map(chosen, present, before)
        self.scores, self.steps = np.where(better, new, self.scores), np.where(better, step, self.steps)

    def about(self, run: int) -> dict[str, float]:
        """The step and the scores of a run, for its policy file."""
        scores = zip(CHOSEN_BY, self.scores[:, run].tolist(), strict=True)
        return {"step": float(self.steps[run])} | {name: score for name, score in scores if np.isfinite(score)}

    def snapshot(self) -> checkpoint.Arrays:
        """As named arrays."""
        if self.actors is None:
            return {}
        return checkpoint.flatten(self.actors, "best") | {"best/steps": self.steps, "best/scores": self.scores}

    def restore(self, arrays: checkpoint.Arrays, like: Actors, path: Path) -> None:
        """Go on from a snapshot. One of a version that kept no best policies has none, so they are sought from there on."""
        if "best/steps" not in arrays:
            return
        checkpoint.require_alike(arrays, {"best/steps": self.steps, "best/scores": self.scores}, path)
        self.steps, self.scores = arrays["best/steps"], arrays["best/scores"]
        self.actors = checkpoint.unflatten(arrays, like, "best", path)
