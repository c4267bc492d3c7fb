"""Episodes for the player: the path, the subgoals and their fate, the map, the learned distances and the true ones."""

import base64
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from hrac.adjacency.network import DirectedEmbedding, Embedding
from hrac.agents.subgoals import reached
from hrac.envs.base import known_distances
from hrac.envs.sketch import Sketch
from hrac.errors import HracError
from hrac.nets import MLP
from hrac.training.policies import Policy
from hrac.worlds import numbers
from hrac.worlds.base import Episode
from hrac.worlds.numbers import FAILURES

NO_WAY = 65_535
"""Stands for a cell that cannot be reached."""


class NoMapError(HracError):
    """A task whose episodes cannot be drawn; the message says why."""


def play(policy: Policy, episodes: int) -> dict[str, Any]:
    """A policy with some of its evaluation episodes. Raises `NoMapError` if its task has no map."""
    config, space = policy.config, policy.setup.space
    watched = [policy.player.watch(seed) for seed in range(episodes)]
    if not all(sketches for _, sketches in watched):
        raise NoMapError(
            f"{config.task} has no map, so its episodes are not shown: that needs two coordinates of goal space and a `sketch`"
        )
    visited = np.concatenate([_positions(policy, episode) for episode, _ in watched])
    view = policy.view
    return {
        "seed": policy.seed,
        "k": config.k,
        "threshold": config.adjacency.threshold,
        "reach": _reach(policy),
        "scale": [1.0] * space.goal_dim if view is None else list(view.cell),
        "centre": [0.0] * space.goal_dim if view is None else list(view.centre),
        "embedding": embedding_of(policy.actors.embedding),
        "truth": _truth(policy, visited),
        "episodes": [_episode(policy, seed, *both) for seed, both in enumerate(watched)],
    }


def _positions(policy: Policy, episode: Episode) -> NDArray[np.float32]:
    """Where the agent was before each step, and after the last (time + 1, goal)."""
    phi = policy.setup.space.phi
    return np.concatenate([phi(np.asarray(episode.obs)), phi(np.asarray(episode.next_obs[-1:]))])


def _episode(policy: Policy, seed: int, episode: Episode, sketches: list[Sketch]) -> dict[str, Any]:
    positions = _positions(policy, episode)
    maps = list(dict.fromkeys(sketches))
    at = {sketch: number for number, sketch in enumerate(maps)}
    return {
        "seed": seed,
        "outcome": _outcome(policy, episode),
        "positions": _rounded(positions),
        "rewards": _rounded(np.asarray(episode.reward)),
        "windows": windows(policy, episode),
        "maps": [_map(sketch) for sketch in maps],
        "map_at": [at[sketch] for sketch in sketches],
    }


def windows(policy: Policy, episode: Episode) -> list[dict[str, Any]]:
    """Every proposed subgoal: its first step, the point it stands for, and the step after which the agent was there first.

    None of them where there are no subgoals. A subgoal is reached where the agent comes as near as the controller is asked to.
    """
    if policy.config.manager.subgoals == "none":
        return []
    positions, k = _positions(policy, episode), policy.config.k
    found = []
    for start in range(0, len(episode.reward), k):
        target = policy.setup.space.target(np.asarray(episode.subgoal[start]), positions[start])
        after = positions[start + 1 : start + k + 1]
        there = np.flatnonzero(reached(np.broadcast_to(target, after.shape), after, policy.config.controller))
        arrived = start + 1 + int(there[0]) if len(there) else None
        found.append({"start": start, "target": _rounded(target), "reached": arrived})
    return found


def _reach(policy: Policy) -> str:
    """What it means to reach a subgoal, in words."""
    controller = policy.config.controller
    where = "in a straight line" if controller.reach_measure == "euclidean" else "in every coordinate"
    return f"within {controller.reach_radius:.3g} {where}"


def _outcome(policy: Policy, episode: Episode) -> str:
    """How an episode ended, in words."""
    runs: Episode = jax.tree.map(lambda leaf: np.asarray(leaf)[None, :, None], episode)
    ended = numbers.endings(runs, policy.player.setup, policy.task.evaluation().ends_on_success)
    happened = [name for name, yes in ended.items() if bool(np.asarray(yes).all())]
    words = {"success": "success", "fallen": "ended on the back"} | {name: f"failed: {why}" for name, why in FAILURES.items()}
    told = [words[name] for name in happened if name in words]
    return told[-1] if told else "time is over"


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


def _rounded(values: NDArray[np.floating], digits: int = 4) -> Any:
    return np.asarray(values, np.float64).round(digits).tolist()
