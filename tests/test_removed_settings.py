"""Runs made with settings that are no longer there: as good as ever with the choice that is left, else only to look at."""

import json
import shutil
from pathlib import Path

import pytest

import hrac
from hrac import cli
from hrac import config as configs
from hrac.config import REMOVED, Config, ConfigError
from hrac.folder import checkpoint
from hrac.folder.reading import read_config
from test_hostile import TINY

CHOICES = Path(__file__).parents[1] / "benchmarks" / "choices"
ON = {
    "adjacency.unexplored": 0.3,
    "manager.scale_env_steps": 500_000,
    "manager.search_adjacent": False,
    "controller.fallen_penalty": 2.0,
    "controller.output_penalty": 0.001,
    "controller.critic_layer_norm": True,
}
"""What benchmarks were run with."""
MADE_WITH = {
    "ant-maze-sparse-action-share-unexplored": "adjacency.unexplored",
    "ant-maze-mean2-action-share-scaled": "manager.scale_env_steps",
    "ant-maze-fall-aware": "controller.fallen_penalty",
    "ant-maze-fall-aware-output-penalty": "controller.output_penalty",
    "ant-maze-sparse-slope2-action-share-controller": "controller.critic_layer_norm",
}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("removed") / "run"
    hrac.train("maze", steps=480, out=folder, display=hrac.Silent(), **TINY)
    return folder


@pytest.fixture
def run(original, tmp_path):
    shutil.copytree(original, tmp_path / "run")
    return tmp_path / "run"


def _with(tree, settings):
    """A stored configuration that has these settings too."""
    for name, value in settings.items():
        group, leaf = name.split(".")
        tree = tree | {group: tree[group] | {leaf: value}}
    return tree


def _store(folder, settings):
    """Put settings into every file of a run folder that has a configuration."""
    path = folder / "config.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about | {"config": _with(about["config"], settings)}))
    for path, kind in ((folder / "checkpoint.safetensors", "checkpoint"), (folder / "policy" / "seed-0.safetensors", "policy")):
        arrays, facts = checkpoint.load(path, kind)
        checkpoint.save(path, kind, arrays, facts | {"config": _with(facts["config"], settings)})


def test_every_removed_setting_is_tested_and_gone():
    assert ON.keys() == REMOVED.keys()
    assert not set(configs.field_names()) & REMOVED.keys()


def test_settings_with_the_choice_that_is_left_are_dropped(run):
    before = hrac.load(run)
    _store(run, REMOVED)
    assert hrac.load(run).config == before.config
    assert len(hrac.evaluate(run, episodes=1)) == 1
    assert hrac.resume(run, steps=520, display=hrac.Silent()).env_steps == 520
    assert not set(configs.field_names(hrac.load(run).config)) & REMOVED.keys()


def test_a_preset_was_a_name_for_settings_that_are_there():
    fast = read_config(CHOICES / "ant-maze-fast")
    assert (fast.training.envs_per_run, fast.controller.updates_per_env_step) == (100, 0.4)
    assert configs.from_dict(configs.to_dict(fast) | {"preset": "fast"}) == fast


@pytest.mark.parametrize("name", ON)
def test_a_run_that_used_one_is_not_repeated(run, name, capsys):
    _store(run, {name: ON[name]})
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    sentence = f"this run was made with {name} = {ON[name]}, which this version of hrac does not have"
    for act in (hrac.resume, hrac.load, hrac.evaluate, lambda run: hrac.load(run / "policy" / "seed-0.safetensors")):
        with pytest.raises(hrac.HracError, match=f"{sentence}$"):
            act(run)
    assert cli._main(["train", "--resume", str(run)]) == 2
    assert capsys.readouterr().err == f"error: {sentence}\n"
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_run_that_has_no_checkpoint_yet_is_not_begun_anew_without_it(run):
    _store(run, ON)
    for name in ("checkpoint.safetensors", "metrics.csv", "timing.csv"):
        (run / name).unlink()
    with pytest.raises(ConfigError, match="this run was made with"):
        hrac.resume(run)


def test_the_setting_is_told_and_the_others_are_read():
    config = configs.recorded(_with(configs.to_dict(Config(k=8)), ON))
    assert config.k == 8
    assert {name: configs.value_of(config, name) for name in ON} == ON
    assert {name: configs.value_of(Config(), name) for name in REMOVED} == REMOVED
    assert configs.differences(Config(k=8), config) == list(ON)
    with pytest.raises(ConfigError, match="this run was made with"):
        configs.to_dict(config)
    with pytest.raises(ConfigError, match="removed: no such field"):
        configs.replace(Config(), {"removed": ()})


@pytest.mark.parametrize(("folder", "name"), MADE_WITH.items())
def test_benchmarks_that_used_one_are_shown(folder, name, tmp_path, capsys):
    run, page = str(CHOICES / folder), tmp_path / "report.html"
    assert cli._main(["compare", run]) == 0
    assert "ant-maze" in capsys.readouterr().out
    assert cli._main(["curves", run, "--out", str(tmp_path / "curves.png")]) == 0
    assert cli._main(["report", run, "--out", str(page)]) == 0
    assert f'["{name}","{REMOVED[name]}","{ON[name]}"]' in page.read_text()


def test_they_are_not_pooled_with_others(tmp_path):
    """The same run, said to be of other seeds and without the setting."""
    shutil.copytree(CHOICES / "ant-maze-sparse-action-share-unexplored", tmp_path / "with")
    shutil.copytree(tmp_path / "with", tmp_path / "without")
    path = tmp_path / "without" / "config.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about | {"config": _with(about["config"], REMOVED)}))
    with pytest.raises(hrac.HracError, match=r"differ in adjacency\.unexplored, so they are not pooled"):
        hrac.compare([tmp_path / "with", tmp_path / "without"])
