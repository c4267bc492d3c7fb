"""Episodes for the player: the path, the subgoals and their fate, the map, the learned distances and the true ones."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hrac.adjacency.network import DirectedEmbedding, Embedding
from hrac.envs.base import known_distances
from hrac.envs.sketch import Sketch
from hrac.errors import HracError
from hrac.nets import MLP
from hrac.scenes.story import Story, reach_in_words, tell
from hrac.training.policies import Policy

NO_WAY = 65_535
"""Stands for a cell that cannot be reached."""


def play(policy: Policy, episodes: int) -> dict[str, Any]:
    """A policy with some of its evaluation episodes. Raises `NoMapError` if its task has no map."""
    config, space, view = policy.config, policy.setup.space, policy.view
    stories = [tell(policy.player, "", seed) for seed in range(episodes)]
    return {
        "seed": policy.seed,
        "best": policy.scored.get("step"),
        "k": config.k,
        "threshold": config.adjacency.threshold,
        "reach": reach_in_words(config),
        "scale": [1.0] * space.goal_dim if view is None else list(view.cell),
        "centre": [0.0] * space.goal_dim if view is None else list(view.centre),
        "embedding": embedding_of(policy.actors.embedding),
        "truth": _truth(policy, np.concatenate([_round(story.positions) for story in stories])),
        "episodes": [{"seed": seed} | sent(story) for seed, story in enumerate(stories)],
    }


def sent(story: Story) -> dict[str, Any]:
    """An episode as the page is given it. Maps that are the same are given once."""
    maps = list(dict.fromkeys(story.sketches))
    at = {sketch: number for number, sketch in enumerate(maps)}
    return {
        "ending": story.ending,
        "positions": _rounded(story.positions),
        "rewards": _rounded(story.rewards),
        "windows": [
            {"start": window.start, "target": _rounded(window.target), "arrived": window.arrived}
            for window in story.windows
            if window.target is not None
        ],
        "maps": [_map(sketch) for sketch in maps],
        "map_at": [at[sketch] for sketch in story.sketches],
    }


def _map(sketch: Sketch) -> dict[str, Any]:
    """A sketch as numbers, in its drawing coordinates."""
    names = ("walls", "chasms", "blocks", "marks", "discs", "things", "arrows")
    parts = {name: [list(part) for part in getattr(sketch, name)] for name in names if getattr(sketch, name)}
    return {"extent": list(sketch.extent), "across": sketch.across, **parts}


def embedding_of(embedding: Embedding | None) -> dict[str, Any] | None:
    """The weights of the adjacency network: the page computes distances from them, exactly."""
    if embedding is None:
        return None
    both = embedding if isinstance(embedding, DirectedEmbedding) else (embedding, embedding)
    source, target = map(_layers, both)
    return {"source": source, "target": None if both[0] is both[1] else target}


def _layers(network: MLP) -> list[dict[str, Any]]:
    return [
        {"inputs": weight.shape[0], "weight": packed(weight, "<f4"), "bias": packed(bias, "<f4")}
        for weight, bias in zip(map(np.asarray, network.weights), map(np.asarray, network.biases), strict=True)
    ]


def _truth(policy: Policy, visited: NDArray[np.floating]) -> dict[str, Any] | None:
    """True steps from every cell that was visited to all cells; None where they are not known."""
    task: Any = policy.task
    if not hasattr(type(task), "cell_distances"):
        return None
    try:
        cells, steps = np.asarray(task.cells), np.asarray(task.cell_distances)
    except HracError:  # ways that can change
        return None
    here = np.unique(nearest(cells, visited[:, : cells.shape[1]]))
    rows = np.where(steps[here] < 0, NO_WAY, np.minimum(steps[here], NO_WAY))
    return {
        "exact": known_distances(task) is not None,
        "cells": cells.tolist(),
        "from": here.tolist(),
        "steps": packed(rows, "<u2"),
    }


def nearest(cells: NDArray[np.number[Any]], points: NDArray[np.floating]) -> NDArray[np.int64]:
    """The number of the cell nearest to each point.

    >>> nearest(np.array([[0, 0], [0, 1]]), np.array([[0.2, 0.9], [0.0, 0.1]])).tolist()
    [1, 0]
    """
    return ((cells[None] - points[:, None]) ** 2).sum(axis=-1).argmin(axis=-1)


def packed(values: NDArray[Any], kind: str) -> str:
    """Numbers as text: their bytes in base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()


def _round(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Numbers as the page has them."""
    return np.asarray(values, np.float64).round(4)


def _rounded(values: NDArray[np.floating]) -> Any:
    return _round(values).tolist()
