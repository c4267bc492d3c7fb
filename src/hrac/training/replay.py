"""Experience as it was collected: one ring of raw steps per run, and the places where windows end.

Everything else is derived when a sample is drawn: goals, intrinsic rewards, the controller's inputs, whole windows with their
sums of rewards. So another intrinsic reward, or other goals in hindsight, is one function of a sample.

The copies of a run step together. A ring of S places holds their steps in order of time: a copy's next step after the one at
place i is at place i + copies. S is a multiple of the number of copies.
"""

from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray
from numpy.typing import NDArray

from hrac.agents.decide import Setup
from hrac.agents.windows import Trajectory, empty_steps
from hrac.settings import TD3

Tree = TypeVar("Tree")


class Replay(NamedTuple):
    """Stored steps, and the places where windows ended."""

    steps: Trajectory
    """(places, ...)"""
    window_ends: Int[Array, "*windows"]
    """Places of the last steps of windows; also a ring."""
    step_count: Int[Array, ""]
    """Steps stored so far, overwritten ones included. The newest is at place (step_count - 1) modulo the number of places."""
    window_count: Int[Array, ""]
    """Windows that have ended so far."""


def places(setup: Setup) -> int:
    """Places in a ring: for the steps of all windows that are kept, and of those that have not ended yet."""
    training, k = setup.cfg.training, setup.cfg.k
    kept = setup.cfg.manager.buffer_windows * k if setup.has_manager else 0
    if isinstance(setup.cfg.controller, TD3):
        kept = max(kept, setup.cfg.controller.buffer_steps)
    times = -(-kept // training.envs_per_run) + training.round_env_steps // training.envs_per_run + 2 * k
    return times * training.envs_per_run


def create(setup: Setup) -> Replay:
    """An empty replay."""
    nothing = jnp.zeros((), jnp.int32)
    ends = jnp.zeros(setup.cfg.manager.buffer_windows, jnp.int32)
    return Replay(empty_steps(setup, places(setup)), ends, nothing, nothing)


def extend(replay: Replay, new: Trajectory) -> Replay:
    """Add steps (time, copies, ...) of all copies. They overwrite the oldest ones."""
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), new)
    room, count = len(replay.steps.reward), len(flat.reward)
    if count > room:
        raise ValueError(f"{count} steps at once do not fit into a ring of {room}")
    place = (replay.step_count + jnp.arange(count)) % room
    steps = jax.tree.map(lambda ring, leaf: ring.at[place].set(leaf), replay.steps, flat)
    ended = jnp.cumsum(flat.last.astype(jnp.int32))
    capacity = len(replay.window_ends)
    kept = flat.last & (ended > ended[-1] - capacity)  # if there are too many, the newest
    slot = jnp.where(kept, (replay.window_count + ended - 1) % capacity, capacity)  # a slot past the end is dropped
    ends = replay.window_ends.at[slot].set(place, mode="drop")
    return Replay(steps, ends, replay.step_count + count, replay.window_count + ended[-1])


def recent(replay: Replay, times: int, copies: int) -> Trajectory:
    """The newest steps (time, copies, ...) of all copies. Places before the first step are empty."""
    room = len(replay.steps.reward)
    place = (replay.step_count + jnp.arange(-times * copies, 0)) % room
    return jax.tree.map(lambda ring: ring[place].reshape(times, copies, *ring.shape[1:]), replay.steps)


def sample_places(key: PRNGKeyArray, replay: Replay, shape: tuple[int, ...], newest: int) -> Int[Array, "*n"]:
    """Places of steps drawn uniformly, with replacement, from the `newest` ones, in an array of a shape."""
    room = len(replay.steps.reward)
    stored = jnp.clip(replay.step_count, 1, min(newest, room))
    age = jax.random.randint(key, shape, 0, stored)
    return (replay.step_count - 1 - age) % room


def steps_at(replay: Replay, place: Int[Array, "*n"]) -> Trajectory:
    """The steps at some places, in an array of their shape."""
    return jax.tree.map(lambda ring: ring[place], replay.steps)


def later(key: PRNGKeyArray, replay: Replay, place: Int[Array, "*n"], within: int, copies: int) -> Int[Array, "*n"]:
    """For each place, that of a random step of the same episode among the next `within`, itself included."""
    room = len(replay.steps.reward)
    age = (replay.step_count - 1 - place) % room
    ahead = jnp.arange(within).reshape(*[1] * place.ndim, within)
    following = (place[..., None] + ahead * copies) % room
    done = (replay.steps.terminated[following] | replay.steps.truncated[following]).astype(jnp.int32)
    ends_before = jnp.cumsum(done, axis=-1) - done
    same_episode = (ends_before == 0) & (ahead <= (age // copies)[..., None])
    chosen = jax.random.randint(key, place.shape, 0, jnp.sum(same_episode, axis=-1))
    return (place + chosen * copies) % room


def to_the_end(key: PRNGKeyArray, replay: Replay, place: Int[Array, "*n"], copies: int) -> Int[Array, "*n"]:
    """For each place, that of a random step among it and all later ones of the same episode that are stored."""
    room = len(replay.steps.reward)
    times = jnp.arange(room // copies, dtype=jnp.int32)[:, None]
    in_order = (replay.step_count + jnp.arange(room)) % room  # from the oldest step to the newest
    done = (replay.steps.terminated | replay.steps.truncated)[in_order].reshape(-1, copies)
    end = jax.lax.cummin(jnp.where(done, times, len(times) - 1), reverse=True)
    left = (end - times).reshape(-1)[(place - replay.step_count) % room]
    return (place + jax.random.randint(key, place.shape, 0, left + 1) * copies) % room


def sample_windows(
    key: PRNGKeyArray, replay: Replay, shape: tuple[int, ...], k: int, copies: int
) -> tuple[Int[Array, "*n k"], Bool[Array, "*n k"]]:
    """Windows drawn uniformly, with replacement: places of their steps (*shape, k) in order, and which of these belong to them.

    A window that is shorter than k steps repeats its last step.
    """
    room, capacity = len(replay.steps.reward), len(replay.window_ends)
    drawn = jax.random.randint(key, shape, 0, jnp.clip(replay.window_count, 1, capacity))
    end = replay.window_ends[drawn][..., None]
    clock = replay.steps.clock[end]
    step = jnp.arange(k).reshape(*[1] * len(shape), k)
    place = (end - (clock - jnp.minimum(step, clock)) * copies) % room
    return place, step <= clock


def trimmed(runs: Tree) -> Tree:
    """A pytree of runs whose replays are cut to their filled places, for saving."""

    def trim(node: Any) -> Any:
        if not isinstance(node, Replay):
            return node
        steps, windows = (int(np.max(np.asarray(count))) for count in (node.step_count, node.window_count))
        rows = jax.tree.map(lambda leaf: leaf[:, :steps], node.steps)
        return node._replace(steps=rows, window_ends=node.window_ends[:, :windows])

    return jax.tree.map(trim, runs, is_leaf=lambda node: isinstance(node, Replay))


def padded(arrays: dict[str, NDArray[Any]], like: Tree, prefix: str) -> dict[str, NDArray[Any]]:
    """Saved arrays in which replays have all their places again, as in `like`, a pytree of runs."""
    result = dict(arrays)
    for path, replay in jax.tree_util.tree_leaves_with_path(like, is_leaf=lambda node: isinstance(node, Replay)):
        for inner, leaf in jax.tree_util.tree_leaves_with_path(replay) if isinstance(replay, Replay) else []:
            name = prefix + jax.tree_util.keystr(path) + jax.tree_util.keystr(inner)
            rows = arrays.get(name)
            if rows is not None and rows.ndim == leaf.ndim >= 2 and rows.shape[1] < leaf.shape[1]:
                result[name] = np.concatenate([rows, np.asarray(leaf)[:, rows.shape[1] :]], axis=1)
    return result
