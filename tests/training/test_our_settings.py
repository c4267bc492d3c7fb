"""Settings of our own, which are off on the paper's tasks: a training that uses all of them."""

import jax
import numpy as np

import hrac
from hrac.agents import agent as agents
from hrac.agents import manager
from hrac.experiments import tasks
from hrac.folder import log
from hrac.folder.progress import Silent
from hrac.worlds.make import make_setup
from tiny import TWO_TD3

OURS = {
    "manager__critic_layer_norm": True,
    "manager__value_scale": "mean",
    "manager__hindsight": 0.5,
    "manager__updates_per_window": 2,
    "manager__way_pull": 0.5,
    "manager__search_candidates": 3,
    "controller__action_share": 0.5,
    "training__quiet_share": 0.5,
    "training__averaging_env_steps": 100,
}


def test_a_training_with_all_of_ours_is_resumed_exactly_and_its_policy_acts(tmp_path):
    whole = hrac.train("point-maze", steps=1200, seeds=2, out=tmp_path / "whole", display=Silent(), **TWO_TD3, **OURS)
    hrac.train("point-maze", steps=800, seeds=2, out=tmp_path / "parts", display=Silent(), **TWO_TD3, **OURS)
    hrac.resume(tmp_path / "parts", steps=1200, display=Silent())
    texts = [(tmp_path / name / "metrics.csv").read_text() for name in ("whole", "parts")]
    assert texts[0] == texts[1]
    assert whole.finished
    policy = hrac.load(tmp_path / "whole", 1)
    assert policy.setup.actions.squash(np.full(2, 100.0, np.float32)).tolist() == [0.5, 0.5]  # of -1 to 1
    evaluations = hrac.evaluate(tmp_path / "whole", episodes=3)
    assert len({row.means["eval/return"] for row in evaluations}) == 2  # the seeds have their own networks


def test_each_of_ours_arrives_where_it_belongs():
    config = hrac.config.replace(
        tasks.config_for("point-maze"), {name.replace("__", "."): value for name, value in OURS.items()}
    )
    setup = make_setup(tasks.make_env(config), config)
    agent = jax.eval_shape(lambda: agents.init(jax.random.key(0), setup))
    assert [len(level.critics[0].gains) for level in (agent.manager, agent.controller)] == [2, 0]
    assert setup.actions.share == 0.5
    assert setup.has_quiet_episodes
    assert manager.settings(config).value_scale == "mean"
    assert setup.outcome is not None
    assert agent.ways.shape == (setup.grid.size,) * 2
    assert manager.settings(config).pull_weight == 0.5
    assert manager.settings(config).search_candidates == 3
    assert manager.settings(config).search_sigma == config.manager.noise_sigma
    assert config.manager_updates == 2 * config.training.round_env_steps // config.k


def test_an_average_is_evaluated_and_saved_and_changes_nothing_that_is_learned(tmp_path):
    rows, policies = [], []
    for name, steps in (("newest", 0), ("averaged", 200)):
        settings = TWO_TD3 | {"training__averaging_env_steps": steps}
        hrac.train("point-maze", steps=1200, seeds=1, out=tmp_path / name, display=Silent(), **settings)
        rows.append(log.read(tmp_path / name))
        policies.append(hrac.load(tmp_path / name))
    learned = [[row for row in run if not row.name.startswith("eval/")] for run in rows]
    assert learned[0] == learned[1]
    evaluated = [[row for row in run if row.name == "eval/return"] for run in rows]
    assert evaluated[0][0] == evaluated[1][0]  # nothing was learned yet
    assert evaluated[0][-1] != evaluated[1][-1]
    newest, averaged = (policy.actors for policy in policies)
    assert not np.array_equal(newest.controller.weights[0], averaged.controller.weights[0])
    assert not np.array_equal(newest.manager.weights[0], averaged.manager.weights[0])
    assert np.array_equal(newest.embedding.weights[0], averaged.embedding.weights[0])
    np.testing.assert_allclose(newest.controller.weights[0], averaged.controller.weights[0], atol=0.05)
