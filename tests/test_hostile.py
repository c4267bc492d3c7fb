"""Run folders and policies from strangers: refused in one line, with nothing touched outside of them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import hrac
from hrac import cli
from hrac.api import pretrained_names
from hrac.folder import checkpoint
from hrac.folder.files import FileError

TINY = {
    "k": 4,
    "env__layout": "#####\n#A..#\n###.#\n#G..#\n#####",
    "manager__hidden": (8,),
    "manager__buffer_windows": 200,
    "manager__batch_size": 16,
    "controller__hidden": (8,),
    "adjacency__hidden": (8,),
    "adjacency__pretrain_env_steps": 400,
    "adjacency__pretrain_epochs": 2,
    "training__round_env_steps": 40,
    "training__eval_every_env_steps": 200,
    "training__eval_episodes": 2,
}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "run"
    hrac.train("maze", steps=480, seeds=2, out=folder, display=hrac.Silent(), **TINY)
    return folder


@pytest.fixture
def run(original, tmp_path):
    shutil.copytree(original, tmp_path / "run")
    return tmp_path / "run"


def _rewrite(path, kind, change):
    """The same file with other content, and the digest that belongs to it."""
    arrays, facts = checkpoint.load(path, kind)
    checkpoint.save(path, kind, *change(arrays, facts))


def test_training_leaves_other_files_alone(tmp_path):
    for name in ("a/.work.tmp", ".notes.tmp", "other/.checkpoint.safetensors.abcdefgh.tmp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    hrac.train("maze", steps=480, out=tmp_path, display=hrac.Silent(), **TINY)
    hrac.resume(tmp_path, steps=520, display=hrac.Silent())
    assert sorted(path.name for path in tmp_path.rglob(".*.tmp")) == [
        ".checkpoint.safetensors.abcdefgh.tmp",
        ".notes.tmp",
        ".work.tmp",
    ]


@pytest.mark.parametrize(
    "name",
    [
        ".lock",
        "config.json",
        "metrics.csv",
        "timing.csv",
        "checkpoint.safetensors",
        "policy",
        "policy/seed-0.safetensors",
        "best",
    ],
)
def test_no_link_in_a_run_folder_is_followed(run, tmp_path, name):
    outside = tmp_path / "outside"
    if (run / name).exists():
        (run / name).rename(outside)
    else:
        outside.write_text("precious")
    (run / name).symlink_to(outside)
    before = _everything(outside)
    if name != "policy/seed-0.safetensors":  # which a save replaces
        with pytest.raises(hrac.HracError, match=r"is a symbolic link"):
            hrac.resume(run, steps=520, display=hrac.Silent())
    if name.startswith(("policy", "config")):
        with pytest.raises(hrac.HracError, match=r"is a symbolic link"):
            hrac.load(run)
    assert _everything(outside) == before


def _everything(path):
    return {str(p): p.read_bytes() for p in [path, *path.rglob("*")] if p.is_file()}


def test_a_policy_that_is_named_by_a_link_is_loaded(run, tmp_path):
    (tmp_path / "link").symlink_to(run / "policy" / "seed-1.safetensors")
    assert hrac.load(tmp_path / "link").seed == 1


def test_a_picture_is_not_drawn_through_a_link(run, tmp_path, capsys):
    (tmp_path / "precious").write_text("x")
    (run / "picture.png").symlink_to(tmp_path / "precious")
    assert cli._main(["picture", str(run)]) == 2
    assert "picture.png is a symbolic link" in capsys.readouterr().err
    assert (tmp_path / "precious").read_text() == "x"


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, facts: (arrays, {}),
        lambda arrays, facts: (arrays, {"seed": 0}),
        lambda arrays, facts: (arrays, facts | {"config": None}),
        lambda arrays, facts: (arrays, facts | {"config": {"k": "ten"}}),
        lambda arrays, facts: (arrays, facts | {"seed": -1}),
        lambda arrays, facts: (arrays, facts | {"seed": "0"}),
        lambda arrays, facts: (arrays, facts | {"seed": 10**30}),
        lambda arrays, facts: (arrays, facts | {"config": facts["config"] | {"method": "magic"}}),
        lambda arrays, facts: (arrays, facts | {"config": facts["config"] | {"task": "magic"}}),
        lambda arrays, facts: (arrays, facts | {"config": facts["config"] | {"config_version": 99}}),
        lambda arrays, facts: (arrays, facts | {"config": facts["config"] | {"seeds": list(range(1_000_000))}}),
        lambda arrays, facts: ({}, facts),
        lambda arrays, facts: ({name: array.astype(np.float64) for name, array in arrays.items()}, facts),
        lambda arrays, facts: ({name: array * np.float32("nan") for name, array in arrays.items()}, facts),
        lambda arrays, facts: ({name: array + np.float32("inf") for name, array in arrays.items()}, facts),
        lambda arrays, facts: ({name: array[..., None] for name, array in arrays.items()}, facts),
    ],
)
def test_a_whole_policy_with_other_content_is_one_line(run, change, capsys):
    path = run / "policy" / "seed-0.safetensors"
    _rewrite(path, "policy", change)
    assert cli._main(["eval", str(path), "--episodes", "1"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert len(error) < 1000


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, facts: (arrays, {}),
        lambda arrays, facts: (arrays, facts | {"env_steps": None}),
        lambda arrays, facts: (arrays, facts | {"env_steps": -480}),
        lambda arrays, facts: (arrays, facts | {"env_steps": 10**30}),
        lambda arrays, facts: (arrays, facts | {"metrics_bytes": -1}),
        lambda arrays, facts: (arrays, facts | {"metrics_bytes": "x"}),
        lambda arrays, facts: (arrays, facts | {"config": []}),
        lambda arrays, facts: ({}, facts),
        lambda arrays, facts: ({name: array for name, array in arrays.items() if "source" not in name}, facts),
        lambda arrays, facts: ({name: array for name, array in arrays.items() if "agent" not in name}, facts),
        lambda arrays, facts: (arrays | {"source/0/cells": np.zeros(3)}, facts),
        lambda arrays, facts: (arrays | {"source/0/cells": np.zeros((3, 5), np.int64)}, facts),
        lambda arrays, facts: (arrays | {"source/0/pairs": np.full(3, 2**40)}, facts),
        lambda arrays, facts: (arrays | {"source/0/pairs": np.zeros((3, 3))}, facts),
    ],
)
def test_a_whole_checkpoint_with_other_content_is_one_line_and_nothing_is_touched(run, change):
    _rewrite(run / "checkpoint.safetensors", "checkpoint", change)
    before = _everything(run)
    with pytest.raises(hrac.HracError, match=str(run)) as caught:
        hrac.resume(run, steps=520, display=hrac.Silent())
    assert "\n" not in str(caught.value)
    assert _everything(run) == before


def test_devices_pipes_and_large_files_are_no_policies(tmp_path, capsys):
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(10**12)
    for path, message in (
        ("/dev/zero", "no regular file"),
        (tmp_path / "fifo", "no regular file"),
        (tmp_path / "large", "may have"),
    ):
        assert cli._main(["eval", str(path)]) == 2
        assert message in capsys.readouterr().err


def test_learning_rates_may_change_when_a_run_goes_on_and_that_is_noted(run, capsys):
    rates = ["--manager.actor-learning-rate", "1e-5", "--controller.learning-rate", "2e-5"]
    assert cli._main(["train", "--resume", str(run), "--steps", "520", *rates]) == 0
    about = json.loads((run / "config.json").read_text())
    assert about["changes"] == [{"step": 480, "manager.actor_learning_rate": 1e-5, "controller.learning_rate": 2e-5}]
    assert about["config"]["manager"]["actor_learning_rate"] == 1e-5
    hrac.resume(run, steps=560, display=hrac.Silent())  # goes on with them, and notes nothing new
    hrac.resume(run, steps=600, display=hrac.Silent(), manager__actor_learning_rate=1e-6)
    assert json.loads((run / "config.json").read_text())["changes"][1:] == [{"step": 560, "manager.actor_learning_rate": 1e-6}]
    with pytest.raises(
        hrac.ConfigError, match=r"manager\.eta: a run can go on with other values of manager\.actor_learning_rate"
    ):
        hrac.resume(run, manager__eta=1.0)


@pytest.mark.parametrize(
    "option", [["--manager.eta", "20"], ["--seeds", "1"], ["--k", "10"], ["maze"], ["--out", "x"], ["--overlap"]]
)
def test_resume_refuses_options_also_those_that_equal_a_default(run, option, capsys):
    before = _everything(run)
    assert cli._main(["train", "--resume", str(run), *option]) == 2
    assert f"{option[0]}: --resume goes with --steps, --minutes and learning rates alone" in capsys.readouterr().err
    assert _everything(run) == before


def test_seeds_that_share_no_step_have_no_curve(run, capsys):
    (run / "metrics.csv").write_text("seed,step,name,value\n0,400,eval/return,1.0\n1,600,eval/return,1.0\n")
    assert cli._main(["curves", str(run), "--out", str(run / "x.png")]) == 2
    assert "has no step at which all of its 2 seeds have 'eval/return'" in capsys.readouterr().err


def test_a_picture_s_folder_is_made(run, tmp_path):
    assert cli._main(["picture", str(run), "--out", str(tmp_path / "new" / "maze.png")]) == 0
    assert (tmp_path / "new" / "maze.png").exists()


def test_an_i_o_error_is_said_of_the_file(run, monkeypatch, capsys):
    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.fsync", fail)
    assert cli._main(["train", "--resume", str(run), "--steps", "520"]) == 2
    assert capsys.readouterr().err.splitlines() == [f"error: {run / 'metrics.csv'} cannot be written: Input/output error"]
    with pytest.raises(FileError):
        hrac.resume(run, steps=520, display=hrac.Silent())


def test_a_user_without_a_home_can_use_it(monkeypatch):
    from hrac import compiled

    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(compiled.Path, "home", homeless)
    compiled.keep_compiled()


@pytest.mark.parametrize("arguments", [["list"], ["--help"], ["train", "maze", "--help"]])
def test_a_reader_who_has_had_enough_gets_no_traceback(arguments):
    command = [sys.executable, "-m", "hrac", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        program.stdout.close()
        assert program.stderr.read() == ""
    assert program.returncode == 141


def test_the_version_can_be_asked_for(capsys):
    assert cli._main(["--version"]) == 0
    assert capsys.readouterr().out == f"hrac {hrac.__version__}\n"


@pytest.mark.parametrize("task", pretrained_names())
def test_policies_that_come_with_the_package_are_read(task):
    from hrac.training import policies

    arrays, config, seed, seen, _ = policies.read(hrac.pretrained(task))
    assert arrays
    assert seen is not None
    assert (config.task, seed in config.seeds) == (task, True)


def test_a_policy_of_an_older_version_still_acts():
    """Its file has settings that were removed, and nothing about what the agent sees."""
    policy = hrac.load(Path(__file__).parent / "golden" / "older" / "ant-maze.safetensors")
    obs, _ = gymnasium.make("hrac/AntMaze-v0").reset(seed=0)
    policy.reset(seed=0)
    assert np.abs(policy.act(obs)).max() > 1
    assert str(policy).startswith("Policy(ant-maze, hrac, seed 0")


def test_a_run_of_an_older_version_goes_on(tmp_path):
    """Stored by commit 3448545. Its checkpoint is continued, and its log with it."""
    folder = Path(shutil.copytree(Path(__file__).parent / "golden" / "older" / "maze-run", tmp_path / "run"))
    before = (folder / "metrics.csv").read_text()
    outcome = hrac.resume(folder, steps=600, display=hrac.Silent())
    assert (outcome.finished, outcome.env_steps) == (True, 600)
    after = (folder / "metrics.csv").read_text()
    assert after.startswith(before)
    assert len(after) > len(before)
    assert [result.seed for result in hrac.evaluate(folder, episodes=2)] == [0, 1]
