import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from hrac import config
from hrac.config import Config, ConfigError, field_names, from_dict, parse, replace, to_dict, value_of
from hrac.experiments.tasks import config_for, make_env
from hrac.settings import A2C
from hrac.worlds.make import make_setup


def test_a_configuration_survives_json():
    config = replace(
        Config(), {"seeds": [3, 1], "manager.eta": 5.0, "manager.hidden": [8], "env.layout": "###", "task": "mine"}
    )
    again = from_dict(json.loads(json.dumps(to_dict(config))))
    assert again == config
    assert again.seeds == (3, 1)
    assert again.manager.hidden == (8,)


def test_what_is_left_out_is_a_default():
    assert from_dict({}) == Config()
    assert from_dict({"manager": {"eta": 5.0}}) == replace(Config(), {"manager.eta": 5.0})


def test_replace_changes_the_named_fields_of_a_copy_only():
    before = Config()
    after = replace(before, {"k": 5, "controller.discount": 0.5})
    changed = {name for name in field_names() if value_of(before, name) != value_of(after, name)}
    assert changed == {"k", "controller.discount"}
    assert (after.k, after.controller.discount) == (5, 0.5)
    assert (before.k, before.controller.discount) == (10, 0.99)


def test_field_names_are_dotted_and_can_all_be_replaced_by_their_own_values():
    names = field_names()
    assert {"task", "k", "env.layout", "manager.eta", "adjacency.delta", "training.total_env_steps"} <= set(names)
    assert replace(Config(), {name: value_of(Config(), name) for name in names}) == Config()


@pytest.mark.parametrize("name", ["manager.nothing", "nothing", "nothing.eta", "env.layout.eta", "k.eta", ""])
def test_replacing_an_unknown_field_names_it_and_lists_the_fields(name):
    with pytest.raises(ConfigError) as caught:
        replace(Config(), {name: 1})
    assert str(caught.value).startswith(f"{name}: no such field")
    assert ", manager.eta, " in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("manager.eta", -1.0, "greater than or equal to 0"),
        ("manager.eta", math.nan, "a finite number"),
        ("manager.hinge", 0.0, "greater than or equal to 0.000001"),
        ("manager.discount", 1.5, "less than or equal to 1"),
        ("env.random_action_prob", math.nan, "less than or equal to 1"),
        ("manager.subgoals", "up", "'absolute', 'relative', 'task' or 'none'"),
        ("controller.subgoals_shown_as", 1, "'given' or 'displacement'"),
        ("k", "ten", "a valid integer"),
        ("k", "10", "a valid integer"),
        ("k", 10.0, "a valid integer"),
        ("k", True, "a valid integer"),
        ("k", 1, "greater than or equal to 2"),
        ("manager.bootstrap_at_time_limit", 1, "a valid boolean"),
        ("adjacency.batch_size", 7, "a multiple of 2"),
        ("manager", 5, "an object"),
        ("seeds", 3, "a valid array"),
    ],
)
def test_a_bad_value_is_told_with_its_field_and_what_is_allowed(name, value, allowed):
    with pytest.raises(ConfigError) as caught:
        replace(Config(), {name: value})
    assert str(caught.value) == f"{name}: Input should be {allowed} (got {value!r})"


def test_a_bad_seed_is_told_with_its_place():
    with pytest.raises(ConfigError, match=r"^seeds\.1: .* greater than or equal to 0 \(got -1\)$"):
        replace(Config(), {"seeds": [0, -1]})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": [0, 1, 0]}, "seeds must be all different, got (0, 1, 0)"),
        (
            {"training.round_env_steps": 205},
            "training.round_env_steps must be a multiple of k = 10, got 205 (near: 200)",
        ),
        (
            {"k": 3, "training.envs_per_run": 7},
            "training.round_env_steps must be a multiple of training.envs_per_run = 7, got 200 (near: 210)",
        ),
        (
            {"training.total_env_steps": 50_000},
            "training.total_env_steps (short: steps) must be more than adjacency.pretrain_env_steps = 50000, which are "
            "counted, got 50000",
        ),
        ({"manager.batch_size": 5_001}, "manager.batch_size must be at most manager.start_fraction * manager.buffer_windows"),
    ],
)
def test_an_impossible_combination_is_told_with_its_field_and_what_is_allowed(changes, message):
    with pytest.raises(ConfigError) as caught:
        replace(Config(), changes)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "changes",
    [{"training.round_env_steps": 220}, {"training.total_env_steps": 50_001}, {"manager.batch_size": 5_000}],
    ids=str,
)
def test_the_last_possible_value_is_allowed(changes):
    (name, value), *_ = changes.items()
    assert value_of(replace(Config(), changes), name) == value


def test_an_impossible_configuration_cannot_be_made_directly_either():
    with pytest.raises(ValueError, match="seeds must be all different"):
        Config(seeds=(1, 1))


def test_all_bad_fields_are_told_at_once_one_per_line():
    with pytest.raises(ConfigError) as caught:
        replace(Config(), {"k": "ten", "manager.eta": -1.0})
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["k", "manager.eta"]


@pytest.mark.parametrize("tree", [{"nothing": 1}, {"manager": {"nothing": 1}}], ids=["top", "group"])
def test_an_unknown_field_of_a_dictionary_is_told(tree):
    with pytest.raises(ConfigError, match=r"^(manager\.)?nothing: Unexpected"):
        from_dict(tree)


def test_no_seeds_at_all_is_told_in_a_sentence():
    with pytest.raises(ConfigError, match=r"^seeds must be at least one"):
        replace(Config(), {"seeds": []})


@pytest.mark.parametrize(
    ("name", "value", "expected"), [("seeds", range(3), (0, 1, 2)), ("k", np.int64(5), 5), ("seeds", np.arange(2), (0, 1))]
)
def test_ranges_and_numpy_numbers_are_taken_as_what_they_say(name, value, expected):
    changes = {name: value} | ({"training.round_env_steps": 200} if name == "k" else {})
    assert getattr(replace(Config(), changes), name) == expected


def test_a_value_that_json_does_not_know_is_a_configuration_error():
    with pytest.raises(ConfigError, match=r"manager\.eta: Input should be a valid number"):
        replace(Config(), {"manager.eta": object()})


def test_load_reads_the_configuration_of_a_run_folder(tmp_path):
    config = replace(Config(), {"k": 5, "seeds": [7]})
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"config": to_dict(config), "version": "0"}))
    assert parse(path.read_bytes(), path) == config


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"config": {', "JSONDecodeError"),
        (b"{\xff", "UnicodeDecodeError"),
        (b"[" * 100_000, "RecursionError"),
        (b"1" * 10_000, "ValueError"),
        (b'{"other": 1}', "KeyError"),
        (b"[1, 2]", "TypeError"),
    ],
    ids=["broken", "binary", "nested", "long number", "other", "list"],
)
def test_load_of_something_else_names_the_file(tmp_path, content, message):
    path = tmp_path / "config.json"
    with pytest.raises(ConfigError) as caught:
        parse(content, path)
    assert str(caught.value).startswith(f"{path} is not a readable configuration: {message}")


@pytest.mark.parametrize("tree", [{"k": 0}, [1]], ids=["value", "shape"])
def test_load_of_a_bad_configuration_says_what_is_allowed(tmp_path, tree):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"config": tree}))
    with pytest.raises(ConfigError, match=r"Input should be (greater than or equal to 2)|a configuration has fields"):
        parse(path.read_bytes(), path)


def test_a_saved_configuration_has_a_version_and_one_without_is_the_first():
    tree = to_dict(Config())
    assert tree["config_version"] == 1 + len(config.MIGRATIONS)
    assert "config_version" not in field_names()
    assert from_dict(tree) == Config()


def test_older_versions_are_migrated_step_by_step(monkeypatch):
    def second(tree):
        return tree | {"manager": {**tree["manager"], "hinge": tree["manager"]["hinge"] + 1}}

    def third(tree):
        return tree | {"k": tree["k"] * 2}

    old = {name: value for name, value in to_dict(Config()).items() if name != "config_version"}
    monkeypatch.setattr(config, "MIGRATIONS", (second, third))
    assert (from_dict(old).manager.hinge, from_dict(old).k) == (2.0, 20)
    assert (from_dict(old | {"config_version": 2}).manager.hinge, from_dict(old | {"config_version": 2}).k) == (1.0, 20)
    assert from_dict(to_dict(Config())) == Config()


@pytest.mark.parametrize("version", [999, 0, -1, "2", None, 1.5, True])
def test_a_newer_or_odd_version_is_refused(version):
    with pytest.raises(ConfigError, match="this program knows versions up to"):
        from_dict(to_dict(Config()) | {"config_version": version})


@pytest.mark.parametrize(
    ("settings", "differs"),
    [
        ({}, False),
        ({"search_adjacent": False}, False),  # nothing was searched
        ({"search_candidates": 20}, True),
        ({"search_candidates": 20, "search_adjacent": False}, True),
        ({"search_candidates": 20, "search_adjacent": True}, False),
    ],
)
def test_a_search_of_the_second_version_is_not_repeated_unless_it_was_within_the_hinge(settings, differs):
    tree = to_dict(config_for("maze")) | {"config_version": 2}
    tree["manager"] |= settings
    assert config.recorded(tree).removed == ((("manager.search_adjacent", False),) if differs else ())
    if not differs:
        assert from_dict(tree).manager.search_candidates == settings.get("search_candidates", 0)


def test_a_search_of_this_version_is_repeated_and_one_of_the_first_version_is_not():
    searching = config_for("maze", "hrac-plus")
    assert from_dict(to_dict(searching)) == searching
    assert config.recorded(to_dict(searching) | {"config_version": 1}).removed == (("manager.search_adjacent", False),)


@pytest.mark.parametrize("name", ["maze-search-adjacent", "maze-search-adjacent-faster", "key-chest-search-adjacent-faster"])
def test_runs_whose_search_was_within_the_hinge_can_be_repeated(name):
    path = Path(__file__).parents[1] / "benchmarks" / "choices" / name / "config.json"
    assert parse(path.read_bytes(), path).removed == ()


def test_files_of_the_first_version_lose_the_fields_of_the_other_learner():
    """Then one type had the fields of both learners."""
    tree = to_dict(config_for("ant-maze")) | {"config_version": 1}
    tree["controller"] |= {"entropy_weight": 0.01}
    assert from_dict(tree) == config_for("ant-maze")
    tree = to_dict(config_for("maze")) | {"config_version": 1}
    tree["controller"] |= {"batch_size": 128, "noise_sigma": 1.0, "ends_with_window": False}
    assert from_dict(tree) == config_for("maze")
    tree["controller"] |= {"nonsense": 1}
    with pytest.raises(ConfigError, match="nonsense"):
        from_dict(tree)


def test_the_first_files_name_no_learner_since_there_was_one():
    tree = to_dict(config_for("maze")) | {"config_version": 1}
    del tree["controller"]["learner"]
    assert from_dict(tree) == config_for("maze")
    with pytest.raises(ConfigError, match="controller"):
        from_dict(tree | {"controller": "a2c"})


@pytest.mark.parametrize("folder", ["results", "choices"])
def test_the_configurations_of_all_benchmarks_can_be_read(folder):
    paths = sorted((Path(__file__).parents[1] / "benchmarks" / folder).rglob("config.json"))
    assert len(paths) > 10
    for path in paths:
        parse(path.read_bytes(), path)


@pytest.mark.parametrize("start", [Config(), config_for("ant-maze")], ids=["a2c", "td3"])
def test_every_number_has_an_upper_bound(start):
    for name in field_names(start):
        value = value_of(start, name)
        for huge in (10**18, 1e300):
            if isinstance(value, bool | str):
                continue
            with pytest.raises(ConfigError):
                replace(start, {name: [huge] if isinstance(value, tuple) else huge})


PAPER = {  # Table 1 (discrete tasks: Maze where it differs), Table 3 (adjacency), Network Architecture, Environment Details
    "manager.actor_learning_rate": 0.0001,
    "manager.critic_learning_rate": 0.001,
    "manager.buffer_windows": 10_000,
    "manager.batch_size": 64,
    "manager.soft_update_rate": 0.001,
    "manager.value_every_gradient_steps": 2,
    "manager.discount": 0.99,
    "k": 10,
    "manager.reward_scale": 1.0,
    "manager.noise_sigma": 3.0,
    "manager.eta": 20.0,
    "manager.hinge": 1.0,
    "manager.hidden": (300, 300),
    "controller.learning_rate": 0.0001,
    "controller.entropy_weight": 0.01,
    "controller.discount": 0.99,
    "controller.reach_radius": 0.5,
    "controller.hidden": (300, 300),
    "adjacency.learning_rate": 0.0002,
    "adjacency.batch_size": 64,
    "adjacency.epsilon": 1.0,
    "adjacency.delta": 0.2,
    "adjacency.pretrain_env_steps": 50_000,
    "adjacency.pretrain_epochs": 50,
    "adjacency.update_every_env_steps": 50_000,
    "adjacency.update_epochs": 25,
    "adjacency.embedding_dim": 32,
}


def _values(config, names):
    return {name: value_of(config, name) for name in names}


def test_defaults_are_the_papers():
    assert _values(Config(), PAPER) == PAPER


def test_key_chest_has_the_papers_own_buffer_and_noise():
    manager = config_for("key-chest", "hrac").manager
    assert (manager.buffer_windows, manager.noise_sigma) == (20_000, 5.0)


@pytest.mark.parametrize(
    ("task", "field"),
    [
        ("maze", "controller.batch_size"),
        ("maze", "controller.updates_per_env_step"),
        ("maze", "controller.noise_sigma"),
        ("maze", "controller.action_share"),
        ("ant-maze", "controller.entropy_weight"),
    ],
)
def test_a_learner_has_no_fields_of_the_other(task, field):
    with pytest.raises(ConfigError, match=f"{field}: no such field. Fields are: .*controller.learner"):
        replace(config_for(task), {field: 1})


def test_the_correction_needs_relative_subgoals():
    message = 'manager.correction_candidates must be 0 unless manager.subgoals are "relative", got 10'
    with pytest.raises(ConfigError, match=message):
        replace(config_for("ant-maze"), {"manager.subgoals": "absolute", "manager.subgoal_range": None})


def test_a_penalty_for_subgoals_needs_a_judge():
    message = 'manager.non_adjacent_penalty must be 0 where adjacency.source is "none", because nothing judges then, got 1'
    with pytest.raises(ConfigError, match=message):
        replace(config_for("maze", "neg-reward"), {"adjacency.source": "none"})


@pytest.mark.parametrize("source", ["trajectories", "none"])
def test_a_pull_along_ways_needs_a_table(source):
    message = 'manager.way_pull must be 0 unless adjacency.source is "table" or "oracle", which ways lead over, got 2'
    with pytest.raises(ConfigError, match=message):
        replace(config_for("ant-maze"), {"manager.way_pull": 2.0, "adjacency.source": source})


@pytest.mark.parametrize("sigma", [0.0, (1.0, 0.0)])
def test_a_search_needs_noise_in_all_coordinates(sigma):
    message = re.escape(f"manager.noise_sigma must be more than 0 where manager.search_candidates is, got {sigma}")
    with pytest.raises(ConfigError, match=message):
        replace(config_for("ant-maze"), {"manager.search_candidates": 5, "manager.noise_sigma": sigma})


def test_another_learner_begins_with_its_own_defaults():
    config = replace(config_for("ant-maze"), {"controller.learner": "a2c", "controller.entropy_weight": 0.1})
    assert config.controller == A2C(entropy_weight=0.1)


def test_both_learners_may_have_either_kind_of_subgoal_and_reward():
    changes = {"manager.candidates": 20, "controller.intrinsic_reward": "reached", "controller.reach_radius": 1.4}
    ants = replace(config_for("ant-maze"), changes | {"manager.value_every_gradient_steps": 3})
    assert _values(ants, changes) == changes
    changes = {"controller.sees_position": False, "training.overlap": True, "controller.intrinsic_reward": "distance"}
    assert _values(replace(config_for("maze"), changes), changes) == changes


def test_without_adjacency_there_is_no_random_phase_to_be_longer_than():
    changes = {"training.total_env_steps": 20_000}
    assert replace(Config(), changes | {"adjacency.source": "none"}).first_env_steps == 0
    assert replace(Config(), changes | {"adjacency.source": "oracle"}).first_env_steps == 0
    with pytest.raises(ConfigError, match="more than adjacency"):
        replace(Config(), changes | {"adjacency.source": "trajectories"})


def test_absolute_subgoals_have_no_range_of_their_own():
    with pytest.raises(ConfigError, match=r"manager\.subgoal_range must be None where manager\.subgoals are absolute"):
        replace(config_for("maze"), {"manager.subgoal_range": 5.0})


ANTS = {  # Table 2 (continuous tasks), HRAC details, and what only the published code says
    "manager.subgoals": "relative",
    "manager.subgoal_range": 10.0,
    "manager.actor_learning_rate": 0.0001,
    "manager.critic_learning_rate": 0.001,
    "manager.buffer_windows": 200_000,
    "manager.batch_size": 128,
    "manager.soft_update_rate": 0.005,
    "manager.value_every_gradient_steps": 1,
    "manager.discount": 0.99,
    "manager.noise_sigma": 1.0,
    "manager.eta": 20.0,
    "manager.critic_loss": "huber",
    "manager.critic_weight_decay": 1e-4,
    "manager.target_noise_sigma": 0.2,
    "manager.target_noise_clip": 0.5,
    "manager.correction_candidates": 10,
    "controller.learner": "td3",
    "controller.learning_rate": 0.0001,
    "controller.critic_learning_rate": 0.001,
    "controller.buffer_steps": 200_000,
    "controller.batch_size": 128,
    "controller.soft_update_rate": 0.005,
    "controller.discount": 0.95,
    "controller.noise_sigma": 1.0,
    "controller.target_noise_sigma": 0.2,
    "controller.target_noise_clip": 0.5,
    "controller.critic_weight_decay": 1e-4,
    "controller.sees_position": False,
    "controller.intrinsic_reward": "distance",
    "controller.updates_per_env_step": 1.0,
    "k": 10,
    "training.eval_episodes": 50,
}


@pytest.mark.parametrize("task", ["ant-maze", "ant-maze-sparse", "ant-gather"])
def test_the_ants_have_the_papers_settings(task):
    assert _values(config_for(task, "hrac"), ANTS) == ANTS


@pytest.mark.parametrize(
    ("task", "reward_scale", "ends_with_window"),
    [("ant-maze", 0.1, False), ("ant-maze-sparse", 1.0, False), ("ant-gather", 1.0, True)],
)
def test_the_ants_differ_where_the_paper_says_so(task, reward_scale, ends_with_window):
    config = config_for(task, "hrac")
    assert (config.manager.reward_scale, config.controller.ends_with_window) == (reward_scale, ends_with_window)
    assert config.training.round_env_steps <= 500  # acting policies must not be older


def test_a_round_has_a_whole_number_of_manager_updates():
    message = "controller.updates_per_env_step must be such that a round of 400 steps has a whole number of manager updates"
    with pytest.raises(ConfigError, match=message):
        replace(config_for("ant-maze", "hrac"), {"controller.updates_per_env_step": 0.001})


@pytest.mark.parametrize(
    ("task", "field", "value"), [("maze", "sigma", 0.1), ("ant-maze", "random_start", True), ("ant-gather", "layout", "#")]
)
def test_a_field_that_the_task_has_no_use_for_is_refused(task, field, value):
    with pytest.raises(ConfigError, match=rf"env\.{field}: {task} has no use for it\. It has for: "):
        make_env(replace(config_for(task, "hrac"), {f"env.{field}": value}))


@pytest.mark.parametrize("task", ["ant-maze", "ant-maze-sparse", "ant-gather"])
def test_who_lies_on_its_back_is_known_of_ants(task):
    config = config_for(task)
    space = make_setup(make_env(config), config).space
    upright, on_the_back = np.zeros(30), np.zeros(30)
    upright[3], on_the_back[4] = 1.0, 1.0
    assert not space.fallen(upright)
    assert space.fallen(on_the_back)


def test_points_do_not_fall():
    config = config_for("point-maze")
    assert make_setup(make_env(config), config).space.fallen is None


def test_the_noise_of_the_ants_is_a_setting():
    assert make_env(replace(config_for("ant-maze", "hrac"), {"env.sigma": 0.05})).sigma == 0.05


def test_targets_are_anywhere_in_an_ant_maze_of_ones_own():
    own = make_env(replace(config_for("ant-maze", "hrac"), {"env.layout": "####\n#A.#\n####"}))
    assert (own.rule, own.evaluation().rule) == ("free", "free")
    assert own.evaluation().ends_on_success


@pytest.mark.parametrize(("block_size", "low", "high"), [(None, -4.0, 20.0), (4.0, -2.0, 10.0)])
def test_targets_of_the_u_scale_with_its_blocks(block_size, low, high):
    task = make_env(replace(config_for("ant-maze", "hrac"), {"env.block_size": block_size}))
    assert task.rule == ((low, low), (high, high))
    assert task.evaluation().rule == (0.0, 2 * (block_size or 8.0))


@pytest.mark.parametrize(
    ("task", "right", "other", "kind"),
    [
        ("maze", "a2c", "td3", "discrete"),
        ("point-maze", "td3", "a2c", "continuous"),
        ("point-maze-jax", "td3", "a2c", "continuous"),
    ],
)
def test_the_learner_must_suit_the_actions(task, right, other, kind):
    config = replace(config_for(task, "hrac"), {"controller.learner": other})
    with pytest.raises(
        ConfigError, match=rf"controller\.learner must be '{right}' on {task}, whose actions are {kind}, got '{other}'"
    ):
        make_env(config)


def test_threads_are_for_environments_on_the_host():
    with pytest.raises(ConfigError, match=r"training\.env_threads must be None on maze, which is stepped on the device, got 2"):
        make_env(replace(config_for("maze"), {"training.env_threads": 2}))


def test_a_pair_is_judged_adjacent_half_way_between_the_margins():
    assert Config().adjacency.threshold == pytest.approx(1.1)


def test_learning_starts_when_half_the_buffer_is_full():
    assert Config().manager.start_windows == 5_000
    assert replace(Config(), {"manager.buffer_windows": 10_001}).manager.start_windows == 5_001


def test_ants_may_have_fewer_steps_a_round_than_windows_have_but_all_as_many():
    ants = config_for("ant-maze")
    for copies in (1, 16, 100, 400):  # with whole windows it could be no more than 40
        assert replace(ants, {"training.envs_per_run": copies}).training.round_env_steps == 400
    for copies, near in ((3, 390), (800, 800)):
        with pytest.raises(ConfigError, match=rf"multiple of training.envs_per_run = {copies}, got 400 \(near: {near}\)"):
            replace(ants, {"training.envs_per_run": copies})
        replace(ants, {"training.envs_per_run": copies, "training.round_env_steps": near})


@pytest.mark.parametrize(
    ("task", "step"), [("maze", 100_000), ("key-chest", 150_000), ("point-maze", 22_000), ("ant-maze", 52_000)]
)
def test_learning_starts_when_the_readme_says(task, step):
    assert config_for(task).learning_env_steps == step
