"""Episodes of training that are played without exploration noise, on the device and on the host."""

import jax
import numpy as np
import pytest

from hrac.config import replace
from hrac.experiments import tasks
from hrac.spaces import Box
from hrac.training.state import Training
from tiny import TWO_TD3

MAZE = TWO_TD3 | {"env__layout": "#####\n#A..#\n###.#\n#G..#\n#####", "env__time_limit": 14, "training__envs_per_run": 1}
MAZE = {name: value for name, value in MAZE.items() if name not in ("controller__batch_size", "controller__buffer_steps")}
POINT = TWO_TD3 | {"env__layout": "####\n#A.#\n##.#\n####", "env__time_limit": 14}
WORLDS = {
    "device, one copy": ("maze", MAZE),
    "device, hindsight": ("maze", MAZE | {"controller__hindsight": 0.5}),
    "device, TD3": ("point-maze-jax", POINT),
    "host": ("point-maze", POINT),
}


def _training(task, settings, **more):
    config = replace(tasks.config_for(task), {name.replace("__", "."): value for name, value in (settings | more).items()})
    return Training(config, tasks.make_env(config))


def _played(training, ready, rounds):
    """The steps of the one run's rounds, copy after copy (copies, time, ...), and where their subgoals and actions are quiet.

    A subgoal is, if it is what the manager proposes at the window's first step, and an action, if it is the controller's.
    """
    parts = [training.world.collect(training.actors(), np.array([ready]), index) for index in range(rounds)]
    joined = jax.tree.map(lambda *leaves: np.concatenate([leaf[0] for leaf in leaves]), *[part[0].trajectory for part in parts])
    steps = jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), joined)
    space, actions = training.setup.space, training.setup.actions
    actors = jax.device_get(jax.tree.map(lambda leaf: leaf[0], training.actors()[0]))
    by_manager = np.abs(space.squash(actors.manager(steps.obs)) - steps.subgoal).max(axis=-1) < 1e-4
    raw = actors.controller(space.controller_input(steps.obs, steps.subgoal))
    chosen = actions.choose(raw, None)
    by_controller = np.abs(chosen - steps.action) < 1e-4
    return steps, by_manager, by_controller.all(axis=-1) if isinstance(actions, Box) else by_controller


def _episodes(steps):
    """The slices of whole episodes: (copy, first step, step after the last)."""
    for copy, done in enumerate(steps.terminated | steps.truncated):
        ends = [0, *(np.flatnonzero(done) + 1)]
        yield from zip([copy] * len(ends), ends[:-1], ends[1:], strict=False)


@pytest.mark.parametrize("world", WORLDS)
def test_an_episode_is_quiet_as_a_whole_or_not_at_all(world):
    task, settings = WORLDS[world]
    training = _training(task, settings, training__quiet_share=0.4)
    steps, by_manager, by_controller = _played(training, ready=True, rounds=40)  # 1,600 steps
    vectors, quiet = isinstance(training.setup.actions, Box), []
    for copy, first, end in _episodes(steps):
        proposed = by_manager[copy, first:end][steps.clock[copy, first:end] == 0]
        quiet.append(proposed[0])
        assert proposed.all() == proposed[0]
        if quiet[-1]:
            assert by_controller[copy, first:end].all() == vectors
        else:
            assert not proposed.any() or not vectors
