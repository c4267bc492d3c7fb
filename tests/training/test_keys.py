"""JAX's own checker finds no random key that is used twice, where it can tell.

It takes keys whose axes are moved for used ones, so programs that scan over the keys of several copies are left out; see
`tests/worlds/test_device.py` for those.
"""

import jax
import pytest

from hrac.agents import agent as agents
from hrac.config import replace
from hrac.envs.grid import KeyChest
from hrac.envs.point import PointMaze
from hrac.experiments import tasks
from hrac.training import learn
from hrac.worlds import device
from hrac.worlds.make import make_setup

SMALL = {
    "k": 2,
    "manager.hidden": (4,),
    "manager.buffer_windows": 20,
    "manager.batch_size": 2,
    "manager.target_noise_sigma": 0.1,
    "controller.hidden": (4,),
    "adjacency.hidden": (4,),
    "training.round_env_steps": 8,
    "training.envs_per_run": 2,
}
POINT = SMALL | {"manager.start_fraction": 0.1, "controller.batch_size": 2, "controller.buffer_steps": 20}
SETUPS = {
    name: (env, make_setup(env, replace(tasks.config_for(task), changes)))
    for name, task, changes, env in (
        ("A2C", "key-chest", SMALL, KeyChest(time_limit=4)),
        ("TD3", "point-maze", POINT, PointMaze(time_limit=4).on_device()),
    )
}


def _programs(env, setup):
    """Functions of one key, by name."""
    run = jax.jit(learn.init, static_argnums=1)(jax.random.key(1), setup)
    return {
        "init": lambda key: agents.init(key, setup),
        "start": lambda key: device._start.__wrapped__(key[None], env=env, setup=setup),
        "round": lambda key: device.draw_round(key, setup),
        "learn": lambda key: learn.learn(key, run, setup),
    }


@pytest.mark.parametrize("name", SETUPS)
def test_no_key_is_used_twice(name):
    programs = _programs(*SETUPS[name])
    with jax.debug_key_reuse(True):
        for program in programs.values():
            jax.block_until_ready(jax.jit(program)(jax.random.key(7)))


def test_the_checker_does_find_keys_that_are_used_twice():
    with jax.debug_key_reuse(True), pytest.raises(jax.errors.KeyReuseError):
        jax.jit(lambda key: jax.random.normal(key) + jax.random.uniform(key))(jax.random.key(0))
