"""The program as a person uses it."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import hrac
from hrac import api, cli
from hrac.cli import training
from hrac.config import replace
from hrac.experiments.tasks import config_for
from hrac.folder import reading
from hrac.results import Outcome

TINY = [
    *("--k", "4", "--env.layout", "#####\n#A..#\n###.#\n#G..#\n#####", "--env.time-limit", "50"),
    *("--manager.hidden", "16", "--manager.buffer-windows", "200", "--manager.batch-size", "16"),
    *("--controller.hidden", "16", "--adjacency.hidden", "16"),
    *("--adjacency.pretrain-env-steps", "400", "--adjacency.pretrain-epochs", "2"),
    *("--training.round-env-steps", "40", "--training.eval-every-env-steps", "200", "--training.eval-episodes", "5"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert cli._main(["train", "maze", "--steps", "800", "--seeds", "2", "--out", str(folder), *TINY]) == 0
    return folder


def test_train_says_where_the_results_are_and_what_to_do_next(tmp_path, capsys):
    folder = tmp_path / "run"
    assert cli._main(["train", "maze", "--steps", "600", "--first-seed", "5", "--out", str(folder), *TINY]) == 0
    out = capsys.readouterr().out
    assert f"finished at step 600; results are in {folder}" in out
    assert f"   hrac report {folder}   " in out
    assert "adjacency accuracy" in out  # one plain line an evaluation, since this is no terminal
    assert f"hrac eval {folder}" in out
    assert (folder / "policy" / "seed-5.safetensors").exists()


def test_a_training_that_was_stopped_before_it_had_a_policy_offers_only_to_go_on(tmp_path, capsys):
    assert training._report(Outcome(tmp_path, env_steps=0, finished=False, interrupted=True, last={})) == 130
    assert capsys.readouterr().out.splitlines()[1:] == [f"go on with: hrac train --resume {tmp_path}"]


def test_a_folder_is_not_overwritten(run, capsys):
    before = (run / "metrics.csv").read_bytes()
    assert cli._main(["train", "maze", "--out", str(run)]) == 2
    assert f"already holds a run: go on with it (--resume {run})" in capsys.readouterr().err
    assert (run / "metrics.csv").read_bytes() == before


def test_resume_goes_on_to_more_steps(run, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    assert cli._main(["train", "--resume", str(copy), "--steps", "1000"]) == 0
    assert "finished at step 1,000" in capsys.readouterr().out
    assert cli._main(["train", "--resume", str(copy), "--seeds", "3"]) == 2
    assert "--resume goes with --steps, --minutes and learning rates" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "labyrinth"], "task: there is no 'labyrinth'. Tasks are: maze, key-chest"),
        (["train", "maze", "--method", "ppo"], "method: there is no 'ppo'. Methods are: hrac"),
        (["train", "--method", "hrac"], "name a task first: maze, key-chest"),
        (
            ["train", "--resume", "nowhere", "--method", "hrac"],
            "--resume goes with --steps, --minutes and learning rates",
        ),
        (["train", "--seeds", "2", "key-chest"], "name a task first: maze, key-chest"),
        (["train"], "name a task first: maze, key-chest"),
        (["train", "maze", "--steps", "10"], "training.total_env_steps (short: steps) must be more than adjacency."),
        (["train", "maze", "--env.layout", "####\n#Ax#\n####"], "env.layout: row 1, column 2: 'x' is none of"),
        (["train", "maze", "--seeds", "0"], "seeds must be from 1 to 10,000 runs, got 0"),
        (["train", "maze", "--seeds", str(10**11)], "seeds must be from 1 to 10,000 runs, got 100,000,000,000"),
        (
            ["train", "ant-maze", "--sigma", "0.1", "--env.sigma", "0.05"],
            "--env.sigma and the short option for it say different things: 0.05, 0.1",
        ),
        (["train", "--resume", "nowhere"], "nowhere is no run folder: it has no config.json"),
        (
            ["eval", "nowhere"],
            "nowhere does not exist: name a run folder, a policy file or a task that comes with a policy (ant-",
        ),
        (["eval", "ant-maze", "--best"], "a best policy is sought in a run folder, and this is none"),
        (["eval", "nowhere", "--random-seed=-1"], "--random-seed must be at least 0 and less than 2^31, got -1"),
        (["eval", "nowhere", "--random-seed", str(2**31)], "--random-seed must be at least 0 and less than 2^31"),
        (["picture", "ant-maze", "--pretrained", "--episode", str(2**70)], "--episode must be at least 0 and less than 2^31"),
        (["train", "maze", "--first-seed", "-1"], "first_seed must be from 0 to 2,147,483,647, got -1"),
        (["train", "maze", "--out", ""], "out must name a folder, got an empty name"),
        (["eval", "nowhere", "--episodes", "1000000000000"], "episodes must be from 1 to 100,000, got 1,000,000,000,000"),
        (["eval", "nowhere", "--episodes", "0"], "episodes must be from 1 to 100,000, got 0"),
        (["curves"], "name at least one run folder"),
        (["curves", "nowhere"], "nowhere is no run folder: it has no config.json"),
        (["curves", "nowhere", "--smooth", "0"], "--smooth must be at least 1, got 0"),
        (["curves", "nowhere", "--out", "x.gif"], "--out must end in .png, .pdf or .svg, got 'x.gif'"),
        (["compare"], "name at least one run folder"),
        (["compare", "nowhere"], "nowhere is no run folder: it has no config.json"),
        (["compare", "nowhere", "--curves", "x.gif"], "--curves must end in .png, .pdf or .svg, got 'x.gif'"),
        (["compare", "nowhere", "--labels", "a", "b"], "labels: 1 are needed, one per run folder, got 2"),
        (["bench", "maze", "--rounds", "0"], "--rounds must be at least 1, got 0"),
        (["--tyro-print-completion", "sh"], "--tyro-print-completion must be followed by bash or zsh"),
        (["--tyro-print-completion"], "--tyro-print-completion must be followed by bash or zsh"),
        (["dance"], "there is no command 'dance'. Commands are: train, eval"),
        (["bench", "maze", "--set", "manager.eta=1,5"], "--set manager.eta: one value is wanted, got 2"),
        (["bench", "maze", "--set", "manager.eta"], "--set wants FIELD=VALUE"),
        (["bench", "maze", "--set", "task=key-chest"], "--set task: a task is chosen by its own argument"),
        (["bench", "maze", "--set", "seeds=[3]"], "seeds: given twice, by --set and by an option of its own"),
        (["bench", "point-maze", "--overlap", "--set", "training.overlap=false"], "training.overlap: given twice"),
        (["bench", "maze", "--set", "manager.zeta=1"], "manager.zeta: no such field"),
        (["bench", "labyrinth"], "task: there is no 'labyrinth'"),
        (["bench", "maze", "--method", "magic"], "method: there is no 'magic'"),
        (["bench", "maze", "--env.sigma", "0.1"], "env.sigma: maze has no use for it"),
        (["bench", "maze", "--env-threads", "2"], "training.env_threads must be None on maze"),
    ],
)
def test_mistakes_are_answered_with_what_exists(arguments, message, capsys):
    assert cli._main(arguments) == 2
    assert message in capsys.readouterr().err


def test_an_interruption_ends_a_command_without_a_traceback(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "evaluate", interrupted)
    assert cli._main(["eval", "nowhere"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize(("finished", "interrupted", "code"), [(True, False, 0), (False, False, 0), (False, True, 130)])
def test_only_an_interruption_is_no_success(finished, interrupted, code, monkeypatch):
    outcome = Outcome(Path("runs/x"), 0, finished, interrupted, {})
    monkeypatch.setattr(api, "run", lambda config, out, minutes: outcome)
    assert cli._main(["train", "maze"]) == code


def test_values_out_of_range_name_the_field(capsys):
    assert cli._main(["train", "maze", "--manager.eta", "-1"]) == 2
    assert capsys.readouterr().err == "error: manager.eta: Input should be greater than or equal to 0 (got -1.0)\n"
    assert cli._main(["train", "ant-maze", "--controller.action-share", "2"]) == 2
    assert capsys.readouterr().err == "error: controller.action_share: Input should be less than or equal to 1 (got 2.0)\n"


@pytest.mark.parametrize("command", ["train", "check", "bench"])
def test_values_out_of_range_in_a_list_name_their_place(command, capsys):
    assert cli._main([command, "gym:CartPole-v1", "--env.goal", "0", "2", "--env.cell", "0.5", "0"]) == 2
    assert capsys.readouterr().err == "error: env.cell.1: Input should be greater than or equal to 0.000001 (got 0.0)\n"


@pytest.mark.parametrize("command", ["train", "check", "bench"])
def test_options_that_there_are_not_are_explained(command, capsys):
    with pytest.raises(SystemExit):
        cli._main([command, "maze", "--manger.eta", "1"])
    assert "--manger.eta" in capsys.readouterr().err


def test_a_task_has_its_own_settings(monkeypatch):
    seen = []
    monkeypatch.setattr("hrac.api.run", lambda config, out, minutes: seen.append(config))
    monkeypatch.setattr(cli.training, "_report", lambda outcome: 0)
    assert cli._main(["train", "key-chest", "--seeds", "2"]) == 0
    assert (seen[0].task, seen[0].seeds, seen[0].manager.buffer_windows) == ("key-chest", (0, 1), 20_000)


def test_list_names_all_tasks_and_methods(capsys):
    assert cli._main(["list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("maze", "key-chest", "hrac"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="the script is for bash")
def test_the_tab_key_completes_commands_tasks_and_options(tmp_path, capsys):
    assert cli._main(["--tyro-print-completion", "bash"]) == 0
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)
    for words, completed in (
        (["hrac", ""], {*cli.COMMANDS, "-h", "--help"}),
        (["hrac", "train", "key"], {"key-chest"}),
        (["hrac", "train", "--res"], {"--resume"}),
        (["hrac", "train", "maze", "--manager.e"], {"--manager.eta"}),
        (
            ["hrac", "train", "ant-maze", "--controller.tar"],
            {"--controller.target-noise-sigma", "--controller.target-noise-clip"},
        ),
        (["hrac", "bench", "point-maze", "--rou"], {"--rounds"}),
        (["hrac", "sweep", "eta", "--engine", ""], {"local", "ray"}),
    ):
        position = f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}"
        code = f"source {script}; {position}; _tyro_hrac; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
        assert set(done.stdout.splitlines()) == completed


def test_help_explains_every_option():
    result = subprocess.run(
        [sys.executable, "-m", "hrac", "train", "key-chest", "--help"], capture_output=True, text=True, check=True
    )
    for option in ("--manager.eta", "--adjacency.cell-size", "--env.layout", "--training.eval-episodes", "--resume"):
        assert option in result.stdout
    assert "20000" in result.stdout  # the task's own default of manager.buffer-windows


def test_eval_prints_a_line_a_seed_and_repeats_itself(run, capsys):
    assert cli._main(["eval", str(run), "--episodes", "7"]) == 0
    first = capsys.readouterr().out
    assert [line.split(":")[0] for line in first.splitlines()] == ["seed 0", "seed 1"]
    assert "subgoals within k" in first
    assert cli._main(["eval", str(run), "--episodes", "7"]) == 0
    assert capsys.readouterr().out == first
    assert cli._main(["eval", str(run), "--seed", "9"]) == 2
    assert "has no seed 9. Seeds are: 0, 1" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_pictures_are_drawn(run, tmp_path, suffix, capsys):
    for command in (["picture", str(run)], ["curves", str(run), "--labels", "tiny"]):
        path = tmp_path / f"{command[0]}.{suffix}"
        assert cli._main([*command, "--out", str(path)]) == 0
        assert path.stat().st_size > 5_000
        assert f"drawn: {path}" in capsys.readouterr().out


def test_a_run_folder_has_a_series_of_each_metric(run):
    series = reading.read_series(run, "eval/return")
    assert series.seeds == (0, 1)
    assert series.values.shape == (2, 3)
    np.testing.assert_array_equal(series.steps, [400, 600, 800])
    with pytest.raises(reading.NoSuchMetricError, match=r"has no 'eval/fun'\. Metrics are: .*eval/return"):
        reading.read_series(run, "eval/fun")


def test_a_training_can_be_compared(run, capsys):
    assert cli._main(["compare", str(run)]) == 0
    assert "hrac        2      800            1" in capsys.readouterr().out


def test_a_policy_acts_in_a_plain_gymnasium_loop(run):
    policy = hrac.load(run, seed=1)
    env = gymnasium.make("hrac/Maze-v0", layout=policy.config.env.layout)
    targets = []
    obs, _ = env.reset(seed=0)
    policy.reset(seed=0)
    for _ in range(12):
        obs, _, terminated, truncated, _ = env.step(policy.act(obs))
        targets.append(policy.target.tolist())
        if terminated or truncated:
            break
    assert targets[0] == targets[1] == targets[2] == targets[3]  # one subgoal for k = 4 steps
    assert {policy.act(np.array([1.0, 1.0])) for _ in range(30)} <= {0, 1, 2, 3}


def test_a_policy_refuses_what_is_no_observation(run):
    policy = hrac.load(run)
    with pytest.raises(ValueError, match=r"observation must have shape \(2,\), got \(3,\)"):
        policy.act([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="observation must be finite"):
        policy.act([1.0, float("nan")])


def test_a_damaged_policy_is_refused(run, tmp_path):
    path = tmp_path / "policy.safetensors"
    path.write_bytes((run / "policy" / "seed-0.safetensors").read_bytes()[:-50])
    with pytest.raises(hrac.CheckpointError, match="damaged"):
        hrac.load(path)


def test_short_options_stand_for_their_long_forms(monkeypatch):
    seen = []
    monkeypatch.setattr("hrac.api.run", lambda config, out, minutes: seen.append((config, minutes)))
    monkeypatch.setattr(cli.training, "_report", lambda outcome: 0)
    arguments = [
        "train",
        "ant-maze",
        "--sigma",
        "0.05",
        "--envs-per-run",
        "8",
        "--overlap",
        "--minutes",
        "2.5",
        "--steps",
        "60000",
    ]
    assert cli._main(arguments) == 0
    config, minutes = seen[0]
    assert (config.env.sigma, config.training.envs_per_run, config.training.overlap, minutes) == (0.05, 8, True, 2.5)
    assert config.training.total_env_steps == 60_000


@pytest.mark.parametrize("arguments", [["ant-maze", "--method", "hiro"], ["ant-maze", "--method=hiro"]])
def test_a_method_sets_the_defaults_and_options_change_them(arguments, monkeypatch):
    seen = []
    monkeypatch.setattr(api, "run", lambda config, out, minutes: seen.append(config) or Outcome(Path(out), 0, True, False, {}))
    assert cli.train([*arguments, "--controller.batch-size", "64", "--out", "runs/x"]) == 0
    assert seen == [replace(config_for("ant-maze", "hiro"), {"controller.batch_size": 64})]
