"""Whole trainings with directed adjacency on a ring of one-way doors, small enough for seconds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hrac
from hrac.adjacency import network
from hrac.adjacency.network import DirectedEmbedding
from hrac.agents.decide import judged_adjacent
from hrac.agents.manager import non_adjacent_costs, too_far
from hrac.agents.td3 import Transition
from hrac.config import Config, ConfigError, from_dict, replace, to_dict
from hrac.experiments import budget, tasks
from hrac.folder import log
from hrac.folder.progress import Silent
from hrac.nets import MLP
from hrac.scenes import story
from hrac.worlds.make import make_setup

RING = "#####\n#A>.#\n#^#v#\n#.<G#\n#####"
TINY = {
    "k": 4,
    "env__layout": RING,
    "env__time_limit": 30,
    "manager__hidden": (16,),
    "manager__buffer_windows": 200,
    "manager__start_fraction": 0.2,
    "manager__batch_size": 16,
    "controller__hidden": (16,),
    "adjacency__directed": True,
    "adjacency__hidden": (16,),
    "adjacency__pretrain_env_steps": 400,
    "adjacency__pretrain_epochs": 3,
    "adjacency__update_every_env_steps": 200,
    "adjacency__update_epochs": 2,
    "training__round_env_steps": 40,
    "training__envs_per_run": 2,
    "training__eval_every_env_steps": 200,
    "training__checkpoint_every_env_steps": 320,
    "training__eval_episodes": 3,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("directed") / "run"
    assert hrac.train("maze", steps=800, seeds=2, out=folder, display=Silent(), **TINY).finished
    return folder


def test_a_directed_run_cut_in_two_gives_the_same_metrics_to_the_byte(folder, tmp_path):
    hrac.train("maze", steps=440, seeds=2, out=tmp_path / "cut", display=Silent(), **TINY)
    hrac.resume(tmp_path / "cut", steps=800, display=Silent())
    assert (tmp_path / "cut" / "metrics.csv").read_bytes() == (folder / "metrics.csv").read_bytes()


def test_the_table_of_a_directed_run_has_one_direction(folder):
    """Eight cells on a ring of four doors: each is left in one direction only, so from each four others are within 4 steps."""
    rows = {row.name: row.value for row in log.read(folder) if row.step == 800 and row.seed == 0}
    assert rows["adjacency/cells"] == 8
    assert 8 * 4 <= rows["adjacency/pairs"] <= 8 + 8 * 4  # symmetric ones would be 8 + 28, all pairs


def test_the_policy_of_a_directed_run_acts_and_is_drawn(folder, tmp_path):
    policy = hrac.load(folder, seed=1)
    assert isinstance(policy.actors.embedding, DirectedEmbedding)
    here, there = np.float32([1, 1]), np.float32([1, 3])
    assert network.distance(policy.actors.embedding, here, there) != network.distance(policy.actors.embedding, there, here)
    assert policy.act(here) in range(4)
    hrac.evaluate(folder, episodes=2, seed=1)
    policy.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5_000


def test_the_heatmap_shows_the_distance_from_the_agent(folder):
    policy = hrac.load(folder)
    shift = [MLP((np.eye(2, dtype=np.float32),), (np.float32([0, by]),)) for by in (0, -2)]
    policy.actors = policy.actors._replace(embedding=DirectedEmbedding(*shift))  # two columns further is at distance 0
    told = story.tell(policy.player, "")._replace(positions=np.float32([[2, 1]]))
    heat = told.heat(0)
    row, column = np.unravel_index(heat.argmin(), heat.shape)
    places = np.linspace(-0.5, 4.5, story.HEAT_POINTS)
    np.testing.assert_allclose([places[row], places[column]], [2.0, 3.0], atol=0.05)


def test_the_setting_is_saved_and_older_files_have_it_off():
    config = replace(Config(), {"adjacency.directed": True})
    assert from_dict(to_dict(config)) == config
    tree = to_dict(config)
    del tree["adjacency"]["directed"]
    assert from_dict(tree) == Config()
    with pytest.raises(ConfigError, match=r"adjacency\.directed: .*boolean"):
        replace(Config(), {"adjacency.directed": 1})


def test_two_networks_need_twice_the_memory():
    one, two = (replace(tasks.config_for("maze"), {"adjacency.directed": on}) for on in (False, True))
    sizes = budget.sizes_of(tasks.make_env(one))
    assert budget.networks(two, sizes)["adjacency.hidden"] == 2 * budget.networks(one, sizes)["adjacency.hidden"]


def test_subgoals_are_judged_from_the_position_to_the_subgoal():
    """Targets move by 2 columns to the left: what is two columns further right is at distance 0, two to the left at 4."""
    config = replace(tasks.config_for("maze"), {"manager.non_adjacent_penalty": 3.0})
    setup = make_setup(tasks.make_env(config), config)
    sides = [MLP((np.eye(2, dtype=np.float32),), (np.float32([0, by]),)) for by in (0, -2)]
    embedding = DirectedEmbedding(*sides)
    here, right, left = np.float32([[5, 5]]), np.float32([[5, 7]]), np.float32([[5, 3]])
    assert judged_adjacent(embedding, right, here, setup).tolist() == [True]
    assert judged_adjacent(embedding, left, here, setup).tolist() == [False]
    embedding, here, right, left = jax.tree.map(jnp.asarray, (embedding, here, right, left))
    excess = too_far(embedding, setup)  # 0 and 4, with a hinge of 1
    assert (float(excess(here[0], right[0])), float(excess(here[0], left[0]))) == pytest.approx((-1.0, 3.0), abs=1e-5)
    window = Transition(here, right, jnp.zeros(1), here, jnp.ones(1, bool))
    assert float(non_adjacent_costs(embedding, window, setup)[0]) == 0.0
    assert float(non_adjacent_costs(embedding, window._replace(action=left), setup)[0]) == 3.0
