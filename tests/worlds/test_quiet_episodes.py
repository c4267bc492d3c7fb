"""Episodes of training that are played without exploration noise, on the device and on the host."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.agents import agent as agents
from hrac.agents.decide import Noise, SubgoalState, decide, draw_quiet
from hrac.config import replace
from hrac.experiments import tasks
from hrac.runs import Parts
from hrac.spaces import Box
from hrac.worlds.make import make_setup, make_world
from hrac.worlds.streams import Stream, run_keys
from tiny import TWO_TD3

LIMIT = 14
"""Steps of an episode. Rounds have 40 per run, so episodes and windows of 4 steps go on from one to the next."""
POINT = TWO_TD3 | {"env__layout": "####\n#A.#\n##.#\n####", "env__time_limit": LIMIT}
MAZE = {name: value for name, value in POINT.items() if name not in ("controller__batch_size", "controller__buffer_steps")}
MAZE |= {"env__layout": "#####\n#A..#\n#.G.#\n#####", "manager__candidates": 1}
WORLDS = {
    "device": ("maze", MAZE | {"training__envs_per_run": 1, "controller__hindsight": 0.5}, {}),
    "host": ("point-maze", POINT, {"ends_on_success": True, "success_radius": 6.0}),
}
SILENT = {"device": ("point-maze-jax", POINT, {}), "host": ("point-maze", POINT, {})}
"""In these, training does not tell success."""


def _world(name, share, worlds=WORLDS):
    """A world, and untrained actors for its one run."""
    task, settings, more = worlds[name]
    changes = {field.replace("__", "."): value for field, value in settings.items()} | {"training.quiet_share": share}
    config = replace(tasks.config_for(task), changes)
    env = tasks.make_env(config)
    env = dataclasses.replace(env, **more) if more else env
    setup = make_setup(env, config)
    init = jax.jit(lambda keys: jax.vmap(lambda key: agents.init(key, setup).actors)(keys))
    return make_world(env, setup, config, Parts(1)), [init(run_keys(config.seeds, Stream.INIT))]


def _collected(world, actors, ready, rounds):
    """The steps of some rounds (time, copies, ...)."""
    parts = [jax.device_get(world.collect(actors, np.array([ready]), index)[0].trajectory) for index in rounds]
    return jax.tree.map(lambda *leaves: np.concatenate([leaf[0] for leaf in leaves]), *parts)


def _without_noise(world, actors, steps):
    """At which steps the subgoal is what the manager proposes there, and at which the action is the controller's."""
    alone = jax.device_get(jax.tree.map(lambda leaf: leaf[0], actors[0]))
    space, actions = world.setup.space, world.setup.actions
    action = actions.choose(alone.controller(space.controller_input(steps.obs, steps.subgoal)), None)
    same = lambda one, other: (np.abs(one - other).reshape(*steps.reward.shape, -1) < 1e-4).all(axis=-1)  # noqa: E731
    return same(space.squash(alone.manager(steps.obs)), steps.subgoal), same(action, steps.action)


def _episodes(steps):
    """Where the whole episodes are, and whether the one before succeeded: those of the first copy, then those of the next."""
    for copy, done in enumerate((steps.terminated | steps.truncated).T):
        ends = [0, *(np.flatnonzero(done) + 1)]
        for first, end in itertools.pairwise(ends):
            yield (slice(first, end), copy), first > 0 and bool(steps.terminated[first - 1, copy])


@pytest.mark.parametrize("name", WORLDS)
def test_an_episode_is_quiet_as_a_whole_or_not_at_all(name):
    world, actors = _world(name, share=0.4)
    steps = _collected(world, actors, True, range(40))
    by_manager, by_controller = _without_noise(world, actors, steps)
    after: dict[bool, list[bool]] = {False: [], True: []}
    actions: dict[bool, list[np.ndarray]] = {False: [], True: []}
    for where, after_success in _episodes(steps):
        proposed = by_manager[where][steps.clock[where] == 0]
        quiet = bool(proposed[0])
        assert proposed.all() if quiet else not proposed.any()
        after[after_success].append(quiet)
        actions[quiet].append(by_controller[where])
    assert not any(after[False])  # the very first episode explores, and so does one after a failure
    assert len(after[False]) > 20
    assert len(after[True]) > 40
    assert 0.25 < np.mean(after[True]) < 0.55
    # vectors have noise in noisy episodes only; discrete actions are drawn from the policy in all
    assert np.concatenate(actions[True]).all() == isinstance(world.setup.actions, Box)
    assert not np.concatenate(actions[False]).all()


@pytest.mark.parametrize("name", SILENT)
def test_nothing_is_quiet_where_training_does_not_tell_success(name):
    world, actors = _world(name, 1.0, SILENT)
    steps = _collected(world, actors, True, range(4))
    assert len(list(_episodes(steps))) > 8
    assert not _without_noise(world, actors, steps)[0].any()


def test_an_environment_may_tell_success_that_ends_no_episode():
    world, actors = _world("host", 1.0, SILENT)
    world.env.succeeded = np.array([True, False])  # two copies: the one always, the other never
    steps = _collected(world, actors, True, range(4))
    by_manager, _ = _without_noise(world, actors, steps)
    for (span, copy), _ in _episodes(steps):
        assert (by_manager[span, copy][steps.clock[span, copy] == 0] == (copy == 0 and span.start > 0)).all()


@pytest.mark.parametrize("name", ["device", "host"])
def test_nothing_is_quiet_before_learning_and_an_episode_that_began_then_stays_noisy(name):
    world, actors = _world(name, share=1.0)
    before, after = _collected(world, actors, False, range(2)), _collected(world, actors, True, range(2, 5))
    steps = jax.tree.map(lambda *leaves: np.concatenate(leaves), before, after)
    by_manager, _ = _without_noise(world, actors, steps)
    began = [(*episode, episode[0][0].start >= len(before.reward)) for episode in _episodes(steps)]
    assert {later for _, after_success, later in began if after_success} == {False, True}
    assert any(where[0].start < len(before.reward) < where[0].stop for where, *_ in began)  # one lasts over the start
    for where, after_success, later in began:
        assert (by_manager[where][steps.clock[where] == 0] == (later and after_success)).all()


@pytest.mark.parametrize("name", ["device", "host"])
def test_without_a_share_nothing_is_drawn_or_saved(name):
    off, on = (list(_world(name, share)[0].snapshot()) for share in (0.0, 0.1))
    assert [array for array in on if array not in off] == [array for array in on if array.endswith("quiet")]
    assert len(on) == len(off) + 1


@pytest.mark.parametrize("xp", [np, jnp], ids=["host", "device"])
def test_in_a_quiet_episode_both_levels_decide_as_without_noise(xp):
    world, parts = _world("host", share=0.5)
    actors = jax.tree.map(lambda leaf: xp.asarray(leaf[0]), parts[0])
    obs = xp.asarray(np.random.default_rng(0).normal(size=(2, world.setup.obs_dim)), dtype=np.float32)
    state = SubgoalState(xp.zeros((2, 2), dtype=np.float32), xp.zeros(2, dtype=np.int32), quiet=xp.asarray([False, True]))
    number = lambda *shape: xp.full(shape, 0.5, dtype=np.float32)  # noqa: E731
    explored = decide(
        actors,
        state,
        obs,
        world.setup,
        number(2, 2),
        Noise(number(2, 2), number(2, 1, 2), number(2, 1)),
        xp.ones(2, dtype=bool),
    )
    plain = decide(actors, state._replace(quiet=None), obs, world.setup)
    for noisy, quiet in zip(explored, plain, strict=True):
        np.testing.assert_allclose(noisy[1], quiet[1], atol=1e-6)
        assert (np.abs(np.asarray(noisy[0] - quiet[0])) > 0.1).all()


@pytest.mark.parametrize("xp", [np, jnp], ids=["host", "device"])
def test_it_is_drawn_where_an_episode_is_over_by_success(xp):
    world, _ = _world("host", share=0.5)
    state = SubgoalState(
        xp.zeros((7, 2)), xp.zeros(7, dtype=np.int32), quiet=xp.asarray([False, True, True, False, True, True, True])
    )
    done = xp.asarray([False, False, True, True, True, True, True])
    success = xp.asarray([False, False, True, True, True, True, False])
    ready = xp.asarray([True, False, True, True, True, False, True])
    chance = xp.asarray([0.1, 0.9, 0.1, 0.4, 0.6, 0.1, 0.1], dtype=np.float32)
    drawn = draw_quiet(state, done, success, ready, chance, world.setup).quiet
    assert drawn.tolist() == [False, True, True, True, False, False, False]


@pytest.mark.parametrize("name", WORLDS)
def test_a_restored_world_goes_on_in_its_quiet_episodes(name):
    (world, actors), (again, _) = (_world(name, share=1.0) for _ in range(2))
    _collected(world, actors, True, range(2))
    kept = world.snapshot()
    assert any(array.any() for name, array in kept.items() if name.endswith("quiet"))
    again.restore(kept)
    whole, resumed = (_collected(one, actors, True, range(2, 4)) for one in (world, again))
    jax.tree.map(np.testing.assert_array_equal, whole, resumed)
