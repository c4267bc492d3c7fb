"""Speed of training with an environment on the host: `hrac bench ant-maze`, with a breakdown of where the time goes."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from hrac.agents import continuous
from hrac.compiled import jit_learner
from hrac.config import Config, replace
from hrac.envs.base import HostTask
from hrac.experiments import tasks
from hrac.experiments.bench import best, flops, large_product, machine, matmul_rate, peak_gigabytes, timed
from hrac.runs import over_runs
from hrac.spaces import Box
from hrac.training import replay
from hrac.training.acting import Actors, undivided
from hrac.training.host import HostRun, HostTraining


def training(config: Config, measured_rounds: int) -> Iterator[str]:
    """Lines about the speed of training, compilation apart, with both levels learning."""
    yield machine()
    config = replace(config, {"adjacency.pretrain_env_steps": 10_000, "adjacency.pretrain_epochs": 1})
    task = tasks.make_env(config)
    assert isinstance(task, HostTask)
    run = HostTraining(config, task)
    run.pretrain()
    steps, seeds, copies = config.training.round_env_steps, len(config.seeds), config.training.envs_per_run
    for _ in range(config.manager.start_windows * config.k // steps + 4):
        run.round()
    run.settle()

    def some_rounds() -> None:
        for _ in range(measured_rounds):
            run.round()
        run.settle()

    seconds, _ = timed(some_rounds)
    each = seconds / measured_rounds
    overlap = ", collecting while learning" if config.training.overlap else ""
    yield f"rounds of {steps} steps, {seeds} seed(s) of {copies} copies{overlap}: {steps * seeds / each:,.0f} steps/s in all"
    yield f"a round takes {1e3 * each:,.0f} ms; its parts, measured apart:"
    yield from _parts(run)
    eval_seconds, _ = timed(run.evaluate)
    adjacency_seconds, _ = timed(run.update_adjacency)
    run.round()
    adjacency_seconds, _ = timed(run.update_adjacency)
    often = config.training.eval_every_env_steps, config.adjacency.update_every_env_steps
    total = each / steps + eval_seconds / often[0] + adjacency_seconds / often[1]
    yield f"evaluation {eval_seconds:.1f} s every {often[0]:,} steps, adjacency {adjacency_seconds:.1f} s every {often[1]:,}"
    cells = max(len(table.cells) for table in run.tables)
    yield f"everything included: {seeds / total:,.0f} steps/s in all, with only {cells} cells in the adjacency table"
    yield f"peak memory: {peak_gigabytes():.2f} GB resident"


def _parts(run: HostTraining) -> Iterator[str]:
    """Where a round's time goes."""
    length = run.config.training.round_env_steps // run.config.training.envs_per_run
    collecting, copies = _collecting(run)
    for name, seconds, about in (
        ("collecting", collecting, "by the present policies, all of it: more than the next two together where threads compete"),
        ("physics", _physics(run, length), "shaken at random"),
        ("acting", _acting(run, length), "without the environment"),
        ("copies", copies, "policies to the host, experience to the device"),
    ):
        yield f"  {name:<20} {1e3 * seconds:8.1f} ms   {about}"
    yield from _updates(run)


def _updates(run: HostTraining) -> Iterator[str]:
    """A round's updates, and how near they come to the machine's matrix-multiply rate."""
    level, runs = run.config.controller, len(run.parts[0].steps.size)
    all_work, all_seconds = 0.0, 0.0
    for name, count, function in _learners(run, round(run.config.training.round_env_steps * level.updates_per_env_step)):
        program = jit_learner(function)
        seconds = sum(best(functools.partial(program, part), 3) for part in run.parts)
        work = sum(flops(function, part) for part in run.parts)
        all_work, all_seconds = all_work + work, all_seconds + seconds
        speed = f"{count} updates, {1e3 * seconds / count:.2f} ms each, {work / seconds / 1e9:,.0f} GFLOP/s"
        yield f"  {name:<20} {1e3 * seconds:8.1f} ms   {speed}"
    reached = all_work / all_seconds
    yield f"  {'all updates':<20} {1e3 * all_seconds:8.1f} ms   {all_work / 1e9:,.0f} GFLOP, {reached / 1e9:,.0f} GFLOP/s:"
    large, width = large_product(), max(level.hidden)
    for rows, size, count in ((large, large, 1), (level.batch_size, width, runs)):
        rate = matmul_rate(rows, size, count)
        products = "one product" if count == 1 else f"{count} products at once"
        yield f"    {reached / rate:.0%} of {rate / 1e9:,.0f} GFLOP/s, the rate of {products} of {rows} x {size} x {size}"


def _physics(run: HostTraining, length: int) -> float:
    env = run.collector.env
    assert isinstance(env.actions, Box)
    actions = np.random.default_rng(0).uniform(*env.actions, (length, env.num_envs, env.actions.outputs))
    saved = env.snapshot()
    seconds, _ = timed(lambda: [env.step(action) for action in actions] and None)
    env.restore(saved)
    return seconds


def _acting(run: HostTraining, length: int) -> float:
    collector, actors = run.collector, run.actors()
    obs, subgoal = collector._runs(collector.obs), collector._runs(collector.subgoal)

    @undivided
    def act() -> None:
        for step in range(length):
            if step % run.config.k == 0:
                run.hierarchy.propose(actors, obs)
            run.hierarchy.act(actors, obs, subgoal)

    return timed(act)[0]


def _collecting(run: HostTraining) -> tuple[float, float]:
    """Seconds for a round's experience, and for the copies between host and device that belong to it."""
    actors, ready = run.actors(), np.ones(len(run.config.seeds), bool)
    collecting, experience = timed(lambda: run.collector.round(actors, ready, 0))
    copies, _ = timed(lambda: ([Actors.of(part.agent) for part in run.parts], jax.device_put(experience)))
    return collecting, copies


def _learners(run: HostTraining, updates: int) -> Iterator[tuple[str, int, Callable[..., Any]]]:
    """Name, updates a round, and a function of a part that makes them all."""
    config, space, actions = run.config, run.space, run.actions
    key, windows = jax.random.key(0), updates // config.k
    without = replace(config, {"manager.correction_candidates": 0})

    def controller(one: HostRun, count: int) -> Any:
        batches = replay.sample(key, one.steps, (count, config.controller.batch_size))
        return continuous.learn_controller(key, one.agent.controller, batches, actions, config)  # type: ignore[arg-type]

    def manager(one: HostRun, count: int) -> Any:
        batches = replay.sample(key, one.windows, (count, config.manager.batch_size))
        return continuous.learn_manager(key, one.agent, batches, space, actions, without)

    def correction(one: HostRun, count: int) -> Any:
        batches = replay.sample(key, one.windows, (count, config.manager.batch_size))

        def some(_: None, batch: Any) -> tuple[None, Any]:
            draws = continuous.draw_candidates(key, batch, space, config)
            return None, continuous.correct(draws, one.agent.controller.actor, batch, space, actions)

        return jax.lax.scan(some, None, batches)[1]

    def mapped(function: Callable[..., Any], count: int) -> Callable[..., Any]:
        return lambda part: over_runs(lambda _, one: function(one, count), part)

    yield "controller updates", updates, mapped(controller, updates)
    yield "manager updates", windows, mapped(manager, windows)
    if config.manager.correction_candidates:
        yield "correction", windows, mapped(correction, windows)
