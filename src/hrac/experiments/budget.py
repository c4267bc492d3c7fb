"""A rough estimate of the memory of a training, so that one that cannot fit is refused before it starts.

Each line of `needs` is a setting and the bytes that it needs. Only what can become large is counted.
"""

import contextlib
import itertools
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import jax

from hrac.adjacency.learn import CHUNK_GRADIENT_STEPS
from hrac.adjacency.ways import Grid
from hrac.config import Config, value_of
from hrac.envs.base import Environment, HostTask
from hrac.errors import HracError
from hrac.settings import TD3
from hrac.worlds.host import closing
from hrac.worlds.make import Interface

FLOAT = 4
LEARNED = 5
"""Numbers stored per parameter: itself, a slow copy, two moments of Adam, its gradient."""
COPY_BYTES = 20_000
"""One copy of an environment on the host."""
DRAWN = 150
"""Random keys and numbers of one step of an evaluation on the device, which are drawn for whole episodes at once."""


class OutOfMemoryError(HracError, MemoryError):
    """A training that does not fit into memory; the message names the settings that need most of it."""


class Sizes(NamedTuple):
    """The sizes of observations, goals and actions, and of a copy of the environment."""

    obs: int
    goal: int
    action: int
    time_limit: int
    copy_bytes: int
    low: tuple[float, ...] = ()
    """Bounds of goal space, where something learns."""
    high: tuple[float, ...] = ()


def sizes_of(world: Environment | HostTask) -> Sizes:
    """The sizes of an environment."""
    if isinstance(world, HostTask):
        with closing(world.batch(1, 1)) as copy:
            noise = 2 * 8 * copy.time_limit  # drawn at the start of an episode
            dims = copy.obs_dim + copy.context_dim, len(copy.position_low), copy.actions.outputs
            rest = copy.time_limit, getattr(world, "copy_bytes", COPY_BYTES) + noise
            return Sizes(*dims, *rest, copy.position_low, copy.position_high)
    dims = world.obs_dim, len(world.position_low), world.actions.outputs
    return Sizes(*dims, world.time_limit, 16 * FLOAT, world.position_low, world.position_high)


def sizes_to_act(interface: Interface) -> Sizes:
    """The sizes that matter for networks that act."""
    return Sizes(interface.obs_dim, len(interface.position_low), interface.actions.outputs, 0, 0)


def needs(config: Config, size: Sizes) -> dict[str, int]:
    """Bytes by the setting that needs them, all seeds together."""
    manager, controller, adjacency, train = config.manager, config.controller, config.adjacency, config.training
    td3 = controller if isinstance(controller, TD3) else None
    action = size.action if td3 else 1
    step = FLOAT * (2 * size.obs + size.goal + action + 2) + 3
    window = FLOAT * (2 * size.obs + size.goal + 2 + config.k * (size.obs + action + 1))
    pair = 2 * (8 + FLOAT * size.goal)
    updates = round(config.controller_updates)
    kept = manager.buffer_windows * config.k if manager.learns else 0
    episode = (size.time_limit + config.k) * (step + DRAWN)
    copies, walks = train.envs_per_run, -(-adjacency.pretrain_env_steps // size.time_limit)
    round_steps = train.round_env_steps + config.k * copies
    tried = (manager.correction_candidates + 2) * config.k * _work(controller.hidden) if manager.correction_candidates else 0
    searched = _work(manager.hidden) + _work(adjacency.hidden)
    one_run = networks(config, size) | {
        "manager.buffer_windows": kept * step,
        "manager.batch_size": manager.batch_size * (config.manager_updates * window + _work(manager.hidden)),
        "manager.correction_candidates": manager.batch_size * tried,
        "manager.search_candidates": manager.batch_size * manager.search_candidates * searched,
        "manager.candidates": copies * manager.candidates * _work(adjacency.hidden),
        "adjacency.batch_size": adjacency.batch_size * (CHUNK_GRADIENT_STEPS * pair + _work(adjacency.hidden)),
        "adjacency.pretrain_env_steps": walks * ((size.time_limit + 1) * 8 * size.obs + size.copy_bytes),
        "adjacency.update_every_env_steps": min(adjacency.update_every_env_steps, train.total_env_steps) * step,
        "training.round_env_steps": round_steps * (step + (0 if td3 else _work(controller.hidden))),
        "training.envs_per_run": copies * size.copy_bytes,
        "training.eval_episodes": train.eval_episodes * (size.copy_bytes if td3 else episode),
    }
    if manager.way_pull > 0:  # on the device, and while they are found
        one_run["manager.way_pull"] = 2 * FLOAT * Grid.over(size.low, size.high, adjacency.cell_size).size ** 2
    if td3:
        one_run["controller.buffer_steps"] = max(td3.buffer_steps - kept, 0) * step
        one_run["controller.batch_size"] = td3.batch_size * (updates * step + _work(controller.hidden))
    return {name: len(config.seeds) * count for name, count in one_run.items()}


def networks(config: Config, size: Sizes) -> dict[str, int]:
    """Bytes of one run's networks while they learn, and of actors that are kept beside them: those of its best evaluation, and
    the average if there is one."""
    manager, controller, adjacency, seen = config.manager, config.controller, config.adjacency, size.obs + size.goal
    embeddings, critics = 2 if adjacency.directed else 1, 2 if isinstance(controller, TD3) else 1
    counts = {  # parameters of actors and of critics
        "manager": (_parameters(size.obs, manager.hidden, size.goal), 2 * _parameters(seen, manager.hidden, 1)),
        "controller": (
            _parameters(seen, controller.hidden, size.action),
            critics * _parameters(seen + size.action, controller.hidden, 1),
        ),
        "adjacency": (embeddings * _parameters(size.goal, adjacency.hidden, adjacency.embedding_dim), 0),
    }
    kept = 2 if config.training.averaging_env_steps else 1  # of the adjacency network one would do
    return {f"{level}.hidden": FLOAT * (LEARNED * (actor + critic) + kept * actor) for level, (actor, critic) in counts.items()}


def _parameters(inputs: int, hidden: tuple[int, ...], outputs: int) -> int:
    return sum((a + 1) * b for a, b in itertools.pairwise((inputs, *hidden, outputs)))


def _work(hidden: tuple[int, ...]) -> int:
    """Bytes of a network's activations and their gradients per sample."""
    return 2 * FLOAT * sum(hidden)


def require(config: Config, counts: Mapping[str, int]) -> None:
    """Raise `OutOfMemoryError` if it does not fit into free memory."""
    require_bytes(sum(counts.values()), _largest(config, counts))


def require_bytes(need: int, largest: str) -> None:
    """Raise `OutOfMemoryError` if so many bytes are not free. `largest` says what needs most of them."""
    if need > (free := available()):
        about = f"this needs about {_gigabytes(need)} of memory, and {_gigabytes(free)} are free"
        raise OutOfMemoryError(f"{about}. Most of it is for {largest}")


@contextlib.contextmanager
def explaining(config: Config, counts: Mapping[str, int]) -> Iterator[None]:
    """The estimate can be wrong: if memory runs out anyway, the error names the settings that need most of it."""
    try:
        yield
    except OutOfMemoryError:
        raise
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or any(sign in str(error) for sign in ("RESOURCE_EXHAUSTED", "Out of memory")):
            raise OutOfMemoryError(f"there is no more memory. Most of it is for {_largest(config, counts)}") from error
        raise


def available() -> int:
    """Free bytes on this machine, or on its accelerator if that has fewer."""
    free = _host_memory()
    for name in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory"):  # a container may have less memory than the machine
        free = min(free, _container_memory(Path(name), free))
    stats = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        free = min(free, stats["bytes_limit"] - stats.get("bytes_in_use", 0))
    return free


def _host_memory() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        if sys.platform == "win32":
            return sys.maxsize  # it is not known, so nothing is refused
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _container_memory(folder: Path, otherwise: int) -> int:
    """Free bytes of a control group, without its cached files."""
    version_2, version_1 = ("memory.max", "memory.current", "file"), ("memory.limit_in_bytes", "memory.usage_in_bytes", "cache")
    for most, used, cache in (version_2, version_1):
        with contextlib.suppress(OSError, ValueError, StopIteration):
            stat = (folder / "memory.stat").read_text().splitlines()
            cached = next(int(line.split()[1]) for line in stat if line.split()[0] == cache)
            return int((folder / most).read_text()) - int((folder / used).read_text()) + cached
    return otherwise


def _largest(config: Config, counts: Mapping[str, int]) -> str:
    """The settings that need a tenth of the memory or more, with their values."""
    first = [name for name in sorted(counts, key=lambda name: -counts[name]) if counts[name] * 10 >= sum(counts.values())]
    listed = " and ".join(f"{name} = {value_of(config, name)} ({_gigabytes(counts[name])})" for name in first)
    return f"{listed}, for {len(config.seeds)} seed{'s' if len(config.seeds) > 1 else ''}"


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"
