"""The ring of raw steps: what is drawn from it is what happened."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.agents.decide import Setup
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.windows import Trajectory, manager_window
from hrac.config import Config, replace
from hrac.spaces import Discrete
from hrac.training import replay

K, COPIES = 3, 2
SPACE = SubgoalSpace(relative=False, low=(0.0,), high=(9.0,))


def _setup(windows=6):
    changes = {
        "k": K,
        "manager.buffer_windows": windows,
        "manager.batch_size": 2,
        "manager.start_fraction": 0.5,
        "manager.value_every_gradient_steps": 1,
        "training.envs_per_run": COPIES,
        "training.round_env_steps": 2 * K * COPIES,
    }
    return Setup(SPACE, Discrete(2), 2, replace(Config(), changes))


class _Recorder:
    """Makes random steps in rounds of two windows, and remembers every window of every copy as a list of steps."""

    def __init__(self, seed, end_probability=0.2):
        self.rng, self.p, self.number = np.random.default_rng(seed), end_probability, 0
        self.clock, self.open, self.windows = [0] * COPIES, [[] for _ in range(COPIES)], []

    def round(self, times=2 * K):
        rows = [[self._step(copy) for copy in range(COPIES)] for _ in range(times)]
        return Trajectory(
            *(jnp.asarray(np.array([[getattr(s, name) for s in row] for row in rows])) for name in Trajectory._fields)
        )

    def _step(self, copy):
        self.number += 1
        number, clock, done = float(self.number), self.clock[copy], bool(self.rng.random() < self.p)
        last = done or clock == K - 1
        step = Trajectory(
            obs=np.array([number, copy], np.float32),
            subgoal=np.array([number], np.float32),
            action=np.int32(number % 2),
            reward=np.float32(number),
            next_obs=np.array([number + 0.5, copy], np.float32),
            terminated=np.bool_(done and number % 2 == 0),
            truncated=np.bool_(done and number % 2 == 1),
            clock=np.int32(clock),
            last=np.bool_(last),
        )
        self.open[copy].append(step)
        self.clock[copy] = 0 if last else clock + 1
        if last:
            self.windows.append(self.open[copy])
            self.open[copy] = []
        return step


def _windows(key, ring, shape, k, copies):
    """Steps of drawn windows, and which belong to them."""
    place, inside = replay.sample_windows(key, ring, shape, k, copies)
    return replay.steps_at(ring, place), inside


def _filled(rounds, seed=0, windows=6, **options):
    setup, recorder = _setup(windows), _Recorder(seed, **options)
    ring, extend = replay.create(setup), jax.jit(replay.extend)
    for _ in range(rounds):
        ring = extend(ring, recorder.round())
    return setup, recorder, ring


@pytest.mark.parametrize("rounds", [1, 2, 7, 40])
def test_windows_that_are_drawn_are_those_that_happened_the_newest_of_them(rounds):
    setup, recorder, ring = _filled(rounds)
    steps, inside = _windows(jax.random.key(1), ring, (400,), K, COPIES)
    window = manager_window(steps, inside, setup.cfg)
    kept = {float(w[0].obs[0]): w for w in recorder.windows[-6:]}
    assert set(np.asarray(window.whole.obs[:, 0]).tolist()) == set(kept)
    for i in range(400):
        true = kept[float(window.whole.obs[i, 0])]
        assert float(window.whole.reward[i]) == sum(float(s.reward) for s in true)
        assert window.whole.action[i].tolist() == true[0].subgoal.tolist()
        assert window.whole.next_obs[i].tolist() == true[-1].next_obs.tolist()
        assert bool(window.whole.bootstrap[i]) == (not (true[-1].terminated or true[-1].truncated))
        assert inside[i].tolist() == [j < len(true) for j in range(K)]
        assert window.obs[i, : len(true), 0].tolist() == [float(s.obs[0]) for s in true]
        assert window.action[i, : len(true)].tolist() == [int(s.action) for s in true]


def test_windows_longer_than_a_round_of_a_copy_are_drawn_whole():
    setup, recorder = _setup(), _Recorder(3, end_probability=0.05)
    ring = replay.create(setup)
    for _ in range(30):
        ring = replay.extend(ring, recorder.round(times=1))
    steps, inside = _windows(jax.random.key(1), ring, (200,), K, COPIES)
    true = {float(w[0].obs[0]): len(w) for w in recorder.windows[-6:]}
    found = dict(zip(np.asarray(steps.obs[:, 0, 0]).tolist(), np.asarray(inside).sum(axis=1).tolist(), strict=True))
    assert found == true


def test_of_a_single_window_nothing_else_is_drawn():
    """Of two copies, the second one's first step ended a window."""
    recorder = _Recorder(0, end_probability=0.0)
    new = recorder.round(times=1)._replace(last=jnp.array([[False, True]]))
    ring = replay.extend(replay.create(_setup()), new)
    assert int(ring.window_count) == 1
    steps, inside = _windows(jax.random.key(1), ring, (50,), K, COPIES)
    assert (steps.obs[:, 0, 1] == 1.0).all()
    assert np.asarray(inside).sum(axis=1).tolist() == [1] * 50


def test_all_windows_of_one_step_leave_only_the_newest():
    _, recorder, ring = _filled(3, end_probability=1.0)
    steps, inside = _windows(jax.random.key(1), ring, (300,), K, COPIES)
    assert np.asarray(inside).sum(axis=1).tolist() == [1] * 300
    assert set(np.asarray(steps.obs[:, 0, 0]).tolist()) == {float(w[0].obs[0]) for w in recorder.windows[-6:]}


@pytest.mark.parametrize(("rounds", "newest", "expected"), [(1, 5, 5), (1, 100, 12), (9, 7, 7), (9, 1000, 42)])
def test_steps_are_drawn_from_the_newest_ones(rounds, newest, expected):
    setup, recorder, ring = _filled(rounds)
    assert replay.places(setup) == 42  # two copies, each 9 times for 6 windows of 3 steps, 6 for a round, and twice k
    drawn = replay.steps_at(ring, replay.sample_places(jax.random.key(2), ring, (2000,), newest))
    first = recorder.number - expected + 1
    assert set(np.asarray(drawn.obs[:, 0]).tolist()) == {float(n) for n in range(first, recorder.number + 1)}


def test_draws_are_uniform_over_steps_and_over_windows():
    _, _, ring = _filled(5)
    steps = replay.steps_at(ring, replay.sample_places(jax.random.key(3), ring, (6000,), 10))
    counts = np.unique(np.asarray(steps.reward), return_counts=True)[1]
    assert counts.min() > 500
    assert counts.max() < 700
    windows, _ = _windows(jax.random.key(4), ring, (6000,), K, COPIES)
    counts = np.unique(np.asarray(windows.reward[:, 0]), return_counts=True)[1]
    assert len(counts) == 6
    assert counts.min() > 880
    assert counts.max() < 1120


def test_recent_steps_are_the_last_rounds_with_the_tail_before_them():
    _, recorder, ring = _filled(4)
    got = replay.recent(ring, 5, COPIES)
    assert got.obs[..., 0].ravel().tolist() == [float(n) for n in range(recorder.number - 9, recorder.number + 1)]
    assert got.obs[..., 1].tolist() == [[0.0, 1.0]] * 5


def test_before_the_first_step_there_are_empty_windows():
    _, _, ring = _filled(1)
    got = replay.recent(ring, 2 * K + K, COPIES)
    assert got.last[:K].all()
    assert (got.clock[:K] == 0).all()
    assert float(jnp.abs(got.reward[:K]).max()) == 0.0


def test_a_saved_replay_has_only_what_is_filled_and_gets_its_places_back():
    setup, _, ring = _filled(1)
    runs = jax.tree.map(lambda leaf: leaf[None], {"replay": ring})
    saved = replay.trimmed(runs)
    assert saved["replay"].steps.reward.shape == (1, 12)
    assert saved["replay"].window_ends.shape[1] == min(int(ring.window_count), 6)
    names = {f"runs{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(saved)}
    blank = jax.tree.map(lambda leaf: leaf[None], {"replay": replay.create(setup)})
    back = replay.padded(names, blank, "runs")
    for path, leaf in jax.tree_util.tree_leaves_with_path(runs):
        np.testing.assert_array_equal(back[f"runs{jax.tree_util.keystr(path)}"], np.asarray(leaf))


def test_more_steps_than_the_ring_holds_are_refused():
    setup, recorder = _setup(), _Recorder(0)
    with pytest.raises(ValueError, match="48 steps at once do not fit into a ring of 42"):
        replay.extend(replay.create(setup), recorder.round(times=24))


@pytest.mark.parametrize("rounds", [1, 4])  # half full, and overwritten
def test_a_later_step_is_one_of_the_next_ones_of_the_same_episode(rounds):
    """Against the numbers of the steps: a copy's next step has a number higher by two."""
    _, recorder, ring = _filled(rounds, end_probability=0.3)
    ends = {float(w[-1].obs[0]) for w in recorder.windows if w[-1].terminated or w[-1].truncated}
    place = jnp.repeat(replay.sample_places(jax.random.key(0), ring, (60,), 30), 400)
    found = replay.later(jax.random.key(1), ring, place, 4, COPIES)
    start, later = (np.asarray(replay.steps_at(ring, at).obs[:, 0]).reshape(60, 400) for at in (place, found))
    for number, drawn in zip(start[:, 0], later, strict=True):
        possible = [number]
        while len(possible) < 4 and possible[-1] not in ends and possible[-1] + COPIES <= recorder.number:
            possible.append(possible[-1] + COPIES)
        values, counts = np.unique(drawn, return_counts=True)
        np.testing.assert_array_equal(values, possible)
        np.testing.assert_allclose(counts / 400, 1 / len(possible), atol=0.13)


@pytest.mark.parametrize("rounds", [1, 4])  # half full, and overwritten
def test_a_step_to_the_end_is_one_of_all_later_ones_of_the_same_episode(rounds):
    _, recorder, ring = _filled(rounds, end_probability=0.2)
    ends = {float(w[-1].obs[0]) for w in recorder.windows if w[-1].terminated or w[-1].truncated}
    place = jnp.repeat(replay.sample_places(jax.random.key(0), ring, (60,), 30), 400)
    found = jax.jit(replay.to_the_end, static_argnums=3)(jax.random.key(1), ring, place, COPIES)
    start, later = (np.asarray(replay.steps_at(ring, at).obs[:, 0]).reshape(60, 400) for at in (place, found))
    longest = 0
    for number, drawn in zip(start[:, 0], later, strict=True):
        possible = [number]
        while possible[-1] not in ends and possible[-1] + COPIES <= recorder.number:
            possible.append(possible[-1] + COPIES)
        values, counts = np.unique(drawn, return_counts=True)
        np.testing.assert_array_equal(values, possible)
        np.testing.assert_allclose(counts / 400, 1 / len(possible), atol=0.13)
        longest = max(longest, len(possible))
    assert longest > K  # further than a window
