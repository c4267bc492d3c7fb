"""An environment of one's own, from the first command to the last: in this process and in others."""

import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import hrac
import own_worlds
from hrac.envs.copies import EnvironmentFailedError
from hrac.experiments import references, tasks
from hrac.folder.files import CHECKPOINT

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_environment.py"
TINY = {
    "k": 5,
    "manager.hidden": (8,),
    "manager.buffer_windows": 400,
    "manager.start_fraction": 0.1,
    "manager.batch_size": 8,
    "controller.hidden": (8,),
    "controller.batch_size": 8,
    "controller.buffer_steps": 2_000,
    "adjacency.hidden": (8,),
    "adjacency.embedding_dim": 2,
    "adjacency.pretrain_env_steps": 400,
    "adjacency.pretrain_epochs": 1,
    "adjacency.update_epochs": 1,
    "adjacency.update_every_env_steps": 400,
    "training.total_env_steps": 1_600,
    "training.round_env_steps": 40,
    "training.envs_per_run": 2,
    "training.eval_every_env_steps": 400,
    "training.eval_episodes": 3,
    "training.checkpoint_every_env_steps": 400,
}


@pytest.fixture(autouse=True)
def _forget_tasks(monkeypatch):
    monkeypatch.setattr(tasks, "TASKS", dict(tasks.TASKS))


def tiny(env=own_worlds.Walk, **changes):
    """Arguments of `hrac.train` for a tiny training."""
    fields = {"env.cell": (1.0,), "env.time_limit": 20} | TINY | changes
    return env, {name.replace(".", "__"): value for name, value in fields.items()}


def options(**changes):
    """The same as options of the command line."""
    parts = []
    for name, value in (TINY | changes).items():
        parts += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else (value,))]
    return parts


def python(*arguments, folder, **keywords):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False, **keywords)


def test_the_example_has_at_most_fifteen_lines():
    code = [line for line in EXAMPLE.read_text().splitlines() if line.strip() and not line.strip().startswith('"""')]
    assert len(code) <= 15


def test_a_run_of_an_own_environment_is_killed_resumed_evaluated_drawn_and_loaded_in_other_processes(tmp_path):
    shutil.copy(EXAMPLE, tmp_path / "mine.py")
    more = options(**{"training.total_env_steps": 4_000})
    begun = subprocess.Popen(
        [sys.executable, "-m", "hrac", "train", "mine:Plane", *more, "--seeds", "2", "--out", "run"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    until = time.monotonic() + 200
    while not (tmp_path / "run" / CHECKPOINT).exists():
        assert time.monotonic() < until
        assert begun.poll() is None
        time.sleep(0.05)
    os.kill(begun.pid, signal.SIGKILL)
    begun.wait()

    resumed = python("-m", "hrac", "train", "--resume", "run", folder=tmp_path)
    assert "new episodes begin: the state of this environment cannot be saved" in resumed.stdout
    assert "finished at step 4,000" in resumed.stdout

    seen = {"observation": [0, 0], "achieved_goal": [0, 0], "desired_goal": [3, 3]}
    script = f"""
import hrac, sys
from hrac.cli import _main
policy = hrac.load("run", seed=1)
action = policy.act({seen})
print("acts without the environment:", action.shape, "mine" not in sys.modules)
assert _main(["eval", "run", "--episodes", "4"]) == 0
assert _main(["picture", "run"]) == 0
"""
    shown = python("-c", script, folder=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "acts without the environment: (2,) True" in shown.stdout
    assert len(re.findall(r"seed \d: return .* \(4 episodes\)", shown.stdout)) == 2
    assert (tmp_path / "run" / "picture.png").stat().st_size > 10_000

    (tmp_path / "mine.py").unlink()
    lost = python("-m", "hrac", "eval", "run", folder=tmp_path)
    assert lost.returncode == 2
    assert lost.stderr.startswith("error: task: mine:Plane: there is no module 'mine' in ")


def test_what_is_measured_is_kept_with_the_run(tmp_path):
    env, fields = tiny()
    fields.pop("env__cell")
    hrac.train(env, out=tmp_path / "run", display=hrac.Silent(), **fields)
    kept = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert kept["task"] == "own_worlds:Walk"
    assert kept["env"]["goal_low"] == [0.0]  # the environment's own bounds
    assert kept["env"]["goal_high"] == [10.0]
    assert kept["env"]["success"] == "is_success"
    assert 0.1 < kept["env"]["cell"][0] < 3.0


def test_a_run_is_continued_exactly_where_the_environment_can_save_its_state(tmp_path):
    env, fields = tiny(own_worlds.Saved)
    whole = hrac.train(env, out=tmp_path / "whole", seeds=2, display=hrac.Silent(), **fields)
    assert whole.finished
    hrac.train(env, out=tmp_path / "cut", seeds=2, display=hrac.Silent(), **fields | {"training__total_env_steps": 800})
    hrac.resume(tmp_path / "cut", steps=1_600, display=hrac.Silent())
    assert (tmp_path / "cut" / "metrics.csv").read_bytes() == (tmp_path / "whole" / "metrics.csv").read_bytes()


def test_an_environment_that_breaks_ends_the_run_with_a_checkpoint(tmp_path, monkeypatch):
    env, fields = tiny(own_worlds.Breaks, **{"env.goal_low": (0.0,), "env.goal_high": (10.0,)})
    monkeypatch.setattr(own_worlds.Breaks, "steps", 100)
    with pytest.raises(EnvironmentFailedError, match=r"motor is stuck; what was learned up to step \S+ is saved") as caught:
        hrac.train(env, out=tmp_path / "run", display=hrac.Silent(), **fields)
    step = int(re.search(r"step ([0-9,]+) is saved", str(caught.value))[1].replace(",", ""))
    assert 400 < step < 1_600
    monkeypatch.setattr(own_worlds.Breaks, "steps", -10_000)
    assert hrac.resume(tmp_path / "run", display=hrac.Silent()).finished


def test_discrete_actions_are_learned_by_a2c(tmp_path):
    task = hrac.own_task(own_worlds.Grid, name="five cells", goal=own_worlds.column, time_limit=10)
    only_td3 = ("controller.batch_size", "controller.buffer_steps")
    fields = {name.replace(".", "__"): value for name, value in TINY.items() if name not in only_td3}
    outcome = hrac.train(task, out=tmp_path / "run", display=hrac.Silent(), **fields)
    assert outcome.finished
    policy = hrac.load(tmp_path / "run")
    assert policy.act(2) in (3, 4)  # its numbers are the environment's own


def test_a_policy_acts_in_the_units_of_the_environment(tmp_path):
    env, fields = tiny()
    hrac.train(env, out=tmp_path / "run", display=hrac.Silent(), **fields | {"env__cell": (2.0,)})
    policy, world = hrac.load(tmp_path / "run"), own_worlds.Walk()
    seen, _ = world.reset(seed=0)
    action = policy.act(seen)
    assert world.action_space.contains(action)
    np.testing.assert_allclose(policy.target, seen["achieved_goal"] + 2.0 * policy._state.subgoal, rtol=1e-6)
    with pytest.raises(ValueError, match="observation has no achieved_goal"):
        policy.act({"observation": [0.0, 0.0], "desired_goal": [0.0]})


MY_TASK = hrac.own_task(own_worlds.Walk, name="my task")


class Inner:
    """A place for a class within a class."""

    class Walk(own_worlds.Walk):
        """The same."""


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (own_worlds.Walk, "own_worlds:Walk"),
        (Inner.Walk, "test_own_environment:Inner.Walk"),
        (MY_TASK, "test_own_environment:MY_TASK"),
        (lambda: own_worlds.Walk(), None),
        (hrac.own_task(own_worlds.Walk), None),
    ],
)
def test_what_another_process_can_find_has_a_name(thing, name):
    assert references.reference_of(thing) == name
    if name is not None:
        assert references.find(name).name == name


def test_an_environment_of_gymnasium_is_named_by_its_id_and_arguments():
    plain = gymnasium.make("hrac/Maze-v0")
    assert references.reference_of(plain) == "gym:hrac/Maze-v0"
    given = gymnasium.make("hrac/Maze-v0", random_start=True)
    assert references.reference_of(given) == 'gym:hrac/Maze-v0?{"random_start": true}'
    assert tasks.find('gym:hrac/Maze-v0?{"random_start": true}').settings["controller.learner"] == "a2c"


def test_a_script_that_trains_when_it_is_imported_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body = inspect.getsource(own_worlds.Grid).replace("class Grid(gym.Env)", "class Grid(gymnasium.Env)")
    start = "import gymnasium, hrac, numpy as np\nfrom gymnasium import spaces\ngym = gymnasium\n"
    Path("eager_script.py").write_text(f"{start}{body}\nhrac.train(Grid, out='again')\n")
    with pytest.raises(hrac.TaskError, match="eager_script starts a training when it is imported; put that under"):
        hrac.check_task("eager_script:Grid", env__goal=(0,))
    assert not Path("again").exists()


def test_a_script_that_exits_when_it_is_imported_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("exiting_script.py").write_text("raise SystemExit('no robot')\n")
    with pytest.raises(hrac.TaskError, match="exiting_script cannot be imported: SystemExit: no robot"):
        hrac.check_task("exiting_script:Grid")


def test_a_check_tells_what_the_library_sees():
    report = hrac.check_task(own_worlds.Walk, env__cell=(2.0,), env__time_limit=20)
    assert (report.obs_dim, report.context_dim, report.time_limit) == (3, 1, 20)
    assert (report.low.tolist(), report.high.tolist(), report.cell.tolist()) == ([0.0], [10.0], [2.0])
    assert report.cells <= 6
    assert (report.success, report.exact) == (True, False)
    assert "goal space     (0) to (10), in cells of (2)" in str(report)
    assert "to change      --env.goal-low 0 --env.goal-high 10 --env.cell 2" in str(report)


def test_the_command_line_checks_a_task(capsys):
    from hrac.cli import _main

    assert _main(["check", "own_worlds:Saved", "--env.cell", "2.0"]) == 0
    assert "resuming       continues exactly" in capsys.readouterr().out
    assert _main(["check", "gym:CartPole-v1"]) == 2
    assert "--env.goal 0 1" in capsys.readouterr().err
    assert _main(["check", "gym:CartPole-v1", "--env.goal", "0"]) == 0
    assert "action         2 choices" in capsys.readouterr().out


def test_noise_and_range_of_subgoals_may_differ_by_coordinate():
    from hrac.runs import Parts
    from hrac.worlds.host import HostWorld
    from hrac.worlds.make import make_setup

    changes = {"manager.noise_sigma": (0.0, 3.0), "manager.subgoal_range": (1.0, 4.0), "training.envs_per_run": 10}
    config = hrac.config.replace(tasks.config_for("point-maze"), changes)
    task = tasks.make_env(config)
    setup = make_setup(task, config)
    draws = HostWorld(task, setup, config, Parts(1))._draw_round(0, 40)
    spread = draws.noise.subgoals.reshape(-1, 2).std(axis=0)
    assert spread[0] == 0.0
    assert 2.5 < spread[1] < 3.5
    np.testing.assert_allclose(setup.space.squash(np.full((1, 2), 50.0, np.float32)), [[1.0, 4.0]])


def test_what_is_defined_locally_has_a_name_that_no_other_task_has():
    def maze():
        return own_worlds.Walk()

    first, second, third = (tasks.name_of(thing) for thing in (maze, lambda: own_worlds.Walk(), lambda: own_worlds.Saved()))
    assert first not in tasks.BUILT_IN_NAMES
    assert len({first, second, third}) == 3
    assert tasks.find(third).make({"cell": (1.0,), "time_limit": 5}).batch(1).exact
    assert tasks.name_of(hrac.own_task(own_worlds.Walk)) != tasks.name_of(hrac.own_task(own_worlds.Walk))


def test_a_function_of_an_installed_package_is_not_called_because_a_file_names_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        hrac.TaskError, match="pytest:console_main is a function of an installed package, and a run folder names it"
    ):
        references.find("pytest:console_main")


def test_a_package_is_imported_before_its_id_is_looked_up(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("walking_package.py").write_text("import gymnasium\ngymnasium.register('Walking-v0', 'own_worlds:Walk')\n")
    report = hrac.check_task("gym:walking_package:Walking-v0", env__cell=(1.0,))
    assert report.obs_dim == 3


def test_a_name_of_success_that_is_never_seen_is_noted():
    report = hrac.check_task(own_worlds.Walk, env__success="is_sucess", env__cell=(1.0,))
    assert "env.success: random steps had no 'is_sucess' in info, which has: is_success" in report.warnings


def test_the_environments_of_a_training_are_closed(tmp_path, monkeypatch):
    closed = []
    monkeypatch.setattr(own_worlds.Walk, "close", lambda self: closed.append(self))
    env, fields = tiny(**{"training.total_env_steps": 800})
    hrac.train(env, out=tmp_path / "run", display=hrac.Silent(), **fields)
    assert len(closed) >= 5  # two for training, three for evaluation
    assert len(closed) == len(set(map(id, closed)))
