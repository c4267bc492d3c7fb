"""Cells as tasks of a Ray cluster: one whose process or machine dies is tried again and goes on from its checkpoint."""

import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

from hrac.experiments.sweep import Cell
from hrac.sweeps import work
from hrac.sweeps.board import Board
from hrac.sweeps.status import SweepError

RETRIES = 10
PATIENCE = 120.0
"""Seconds until a shared file system has released the lock of a machine that died."""


def run(
    cells: Sequence[Cell],
    board: Board,
    stop: Callable[[], bool],
    end: float | None = None,
    address: str | None = None,
    num_cpus: float = 1.0,
    num_gpus: float = 0.0,
) -> None:
    """Train cells on a cluster until all have ended or `stop()`. Cells that others train are left alone.

    Without an address the cluster is the one that this process is connected to, that of RAY_ADDRESS, the last one that was
    started on this machine, or a new one.
    """
    ray = _imported()
    ours = not ray.is_initialized()
    if address is not None and not ours:
        raise SweepError(f"address must be None, because this process is connected to a Ray cluster already, got {address!r}")
    if ours:
        before = signal.getsignal(signal.SIGTERM)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        if threading.current_thread() is threading.main_thread():  # no other may set handlers
            signal.signal(signal.SIGTERM, before)  # Ray puts one of its own in its place
    try:
        _warn_if_too_large(ray, board, num_cpus, num_gpus)
        task = ray.remote(num_cpus=num_cpus, num_gpus=num_gpus, max_retries=RETRIES, max_calls=1)(obey)
        _watch(ray, {task.remote(work.order(cell, end, PATIENCE)): cell for cell in cells if board.wanted(cell)}, board, stop)
    finally:
        if ours:
            ray.shutdown()


def obey(order: work.Order) -> work.Report:
    """What a task does, in a process of its own (`max_calls`), so that memory is returned."""
    from hrac.compiled import keep_compiled

    keep_compiled()
    return work.obey(order)


def _watch(ray: Any, waiting: dict[Any, Cell], board: Board, stop: Callable[[], bool]) -> None:
    told = False
    while waiting:
        done, _ = ray.wait(list(waiting), timeout=0.5)
        for task in done:
            board.ended(waiting.pop(task), _report(ray, task))
        if stop() and not told:
            told = True
            board.say("stopping: each cell writes a checkpoint ...")
            for task in waiting:
                ray.cancel(task)  # interrupts its process once, as Ctrl-C does
        board.refresh()


def _report(ray: Any, task: Any) -> work.Report:
    try:
        return dict(ray.get(task))
    except ray.exceptions.TaskCancelledError:
        return {"end": work.STOPPED, "error": ""}
    except (
        ray.exceptions.RayError
    ) as error:  # its process died more often than it is tried again, or its machine lacks something
        return {"end": work.FAILED, "error": " ".join(str(error).split())[:500]}


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise SweepError("the engine 'ray' needs Ray: pip install 'hrac[ray]'") from None
    return ray


def _warn_if_too_large(ray: Any, board: Board, num_cpus: float, num_gpus: float) -> None:
    """A cell that fits on no machine waits for one without an end."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(machine.get("CPU", 0) >= num_cpus and machine.get("GPU", 0) >= num_gpus for machine in machines):
        board.say(f"no machine of the cluster has {num_cpus:g} CPUs and {num_gpus:g} GPUs: cells wait until there is one")
