import dataclasses
import json
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
import tiny_sweep
from tiny_sweep import Killer, Quiet

import hrac
from hrac import cli, config
from hrac.config import ConfigError
from hrac.experiments import sweep, tasks
from hrac.experiments.sweep import EXPERIMENTS, Product, expand
from hrac.folder import lock
from hrac.sweeps import board, cluster, local, run, status, work
from hrac.sweeps.status import State, SweepError


def test_a_product_has_all_combinations_in_order():
    products = [Product(("maze", "key-chest"), ("hrac",), {"manager.eta": (1, 5.5), "k": (5, 10)})]
    cells = expand(products, {"seeds": [3, 4]}, Path("out"))
    assert [cell.name for cell in cells] == [
        *("maze-hrac-eta-1-k-5", "maze-hrac-eta-1-k-10", "maze-hrac-eta-5.5-k-5", "maze-hrac-eta-5.5-k-10"),
        *("key-chest-hrac-eta-1-k-5", "key-chest-hrac-eta-1-k-10", "key-chest-hrac-eta-5.5-k-5", "key-chest-hrac-eta-5.5-k-10"),
    ]
    last = cells[-1]
    wanted = {"seeds": (3, 4), "manager.eta": 5.5, "k": 10}
    assert last.config == config.replace(tasks.config_for("key-chest"), wanted)
    assert (last.folder, last.settings) == (Path("out/key-chest-hrac-eta-5.5-k-10"), {"manager.eta": 5.5, "k": 10})


def test_folder_names_are_short_and_have_no_odd_characters():
    layouts = ("#####\n#A.G#\n#####", "######\n#A..G#\n######")
    first, second = expand([Product(("maze",), vary={"env.layout": layouts})], {}, Path())
    assert first.name != second.name
    assert first.name.startswith("maze-hrac-layout-")
    assert len(first.name) == len("maze-hrac-layout-") + 8
    many = ("manager.critic_weight_decay", "manager.target_noise_sigma", "manager.target_noise_clip", "env.random_action_prob")
    (long,) = expand([Product(("maze",), vary=dict.fromkeys(many, (0.0625,)))], {}, Path())
    assert len(long.name) < 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"name": "figure-6"},
            r"no experiment 'figure-6'\. Experiments are: grid-methods, .*For a sweep of your own, name its tasks",
        ),
        ({"tasks": ["labyrinth"]}, "task: there is no 'labyrinth'"),
        ({"tasks": ["maze"], "methods": ["ppo"]}, "method: there is no 'ppo'"),
        (
            {"tasks": ["maze", "maze"]},
            "two cells for runs/sweeps/maze-maze/maze-hrac: each task, method and value may be named once",
        ),
        ({"tasks": ["maze"], "vary": {"manager.eta": [5, 5.0]}}, "two cells for .*eta-5"),
        ({"tasks": ["maze"], "vary": {"manager.eta": []}}, r"vary: manager.eta needs a list of values, got \[\]"),
        ({"tasks": ["maze"], "vary": {"manager.eta": 5}}, "vary: manager.eta needs a list of values, got 5"),
        ({"tasks": ["maze"], "vary": {"manager.eta": [1, -1]}}, "manager.eta: .*greater than or equal to 0"),
        ({"tasks": ["maze"], "vary": {"env.sigma": [0.1, 0.2]}}, "env.sigma: maze has no use for it"),
        ({"tasks": ["maze"], "vary": {"k": range(2, 999), "manager.eta": range(99)}}, "a sweep may have 10,000 cells"),
        ({"tasks": ["maze"], "steps": 60_000, "vary": {"training.total_env_steps": [60_000, 70_000]}}, "given twice"),
        ({"tasks": ["maze"], "fun": 3}, "fun: no such field"),
        ({"tasks": ["maze"], "seeds": 0}, "seeds must be from 1"),
        ({"tasks": ["maze"], "out": ""}, "out must name a folder"),
        ({"name": "eta", "tasks": ["ant-maze"]}, "tasks: the experiment has no 'ant-maze'. It has: key-chest, maze"),
        ({"name": "stochastic-ants", "methods": ["vanilla"]}, "methods: the experiment has no 'vanilla'. It has: hiro, hrac"),
    ],
)
def test_what_cannot_be_swept_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        run.plan(**arguments)


def test_a_task_of_this_process_alone_is_refused(monkeypatch):
    own = dataclasses.replace(tasks.find("maze"), name="my-maze")
    monkeypatch.setitem(tasks.TASKS, "my-maze", own)
    with pytest.raises(ConfigError, match="'my-maze' is known in this process only"):
        run.plan(tasks=["my-maze"])


def test_one_value_is_for_all_cells_and_does_not_change_their_names():
    (cell,) = run.plan("mine", tasks=["maze"], vary={"manager.eta": [5]}, k=5)
    assert (cell.folder, cell.config.manager.eta, cell.config.k) == (Path("runs/sweeps/mine/maze-hrac"), 5.0, 5)
    assert cell.config.seeds == (0, 1, 2, 3, 4)


def test_a_part_of_an_experiment_has_the_folders_of_the_whole():
    whole = run.plan("eta")
    part = run.plan("eta", tasks=["key-chest"], vary={"manager.eta": [10]})
    assert [cell.name for cell in part] == ["key-chest-hrac-eta-10"]
    assert part[0] in whole
    assert len(whole) == 8


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_experiments_can_be_run(name):
    products = EXPERIMENTS[name].products
    cells = run.plan(name)
    assert all(tasks.make_env(cell.config) is not None for cell in cells)
    assert len(cells) == sum(
        len(product.tasks) * len(product.methods) * max(len(next(iter(product.vary.values()), ())), 1) for product in products
    )


def test_the_figure_of_stochastic_ants_has_hiro_with_the_most_noise_only():
    noise = {
        method: set(product.vary["env.sigma"])
        for product in EXPERIMENTS["stochastic-ants"].products
        for method in product.methods
    }
    assert noise == {"hrac": {0.01, 0.05, 0.1}, "hiro": {0.1}}


def test_hrac_plus_is_trained_whole_and_less_each_of_its_parts():
    whole, paper = (tasks.config_for("ant-maze", method) for method in ("hrac-plus", "hrac"))
    changed = {
        cell.name: set(config.differences(whole, cell.config)) - {"seeds"}
        for cell in run.plan("plus-ablations", tasks=["ant-maze"])
    }
    assert changed.pop("ant-maze-hrac-plus") == set()
    assert all(changed.values())
    assert set.union(*changed.values()) == set(config.differences(whole, paper)) - {"method"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("manager.eta", r"--set wants FIELD=VALUE or FIELD=VALUE,VALUE, got 'manager\.eta'"),
        ("manager.eta=", "no value after the ="),
    ],
)
def test_settings_that_are_none_are_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        sweep.parse_vary([text])
    with pytest.raises(ConfigError, match="names k twice"):
        sweep.parse_vary(["k=5", "k=10"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A cell that is finished."""
    (cell,) = tiny_sweep.plan(tmp_path_factory.mktemp("finished"), etas=(5.0,))
    hrac.run(cell.config, cell.folder, hrac.Silent())
    return cell


@pytest.fixture
def cell(finished, tmp_path):
    """A copy of it."""
    shutil.copytree(finished.folder, tmp_path / finished.name)
    return finished._replace(folder=tmp_path / finished.name)


def _stamps(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_folder_tells_the_state_of_its_cell(cell, tmp_path):
    now = status.read(cell)
    assert (now.state, now.numbers.step) == (State.FINISHED, 1000)
    assert board.line(cell, now).startswith("maze-hrac: finished, step 1,000 of 1,000 · ")
    assert status.read(cell._replace(folder=tmp_path / "nowhere")).state == State.NOT_STARTED
    with lock.locked(cell.folder):
        assert status.read(cell).state == State.RUNNING
    assert status.read(cell).state == State.FINISHED


def test_a_cell_is_finished_with_its_last_evaluation_and_its_last_checkpoint(cell):
    metrics = cell.folder / "metrics.csv"
    whole = metrics.read_bytes()
    last = whole.rindex(b"\n1,1000,eval/return")
    metrics.write_bytes(whole[: last + 12])  # one seed's return is missing, and a line is incomplete
    assert (status.read(cell).state, status.read(cell).numbers.step) == (State.STOPPED, 800)
    metrics.write_bytes(whole)
    (cell.folder / "checkpoint.safetensors").unlink()
    assert status.read(cell).state == State.STOPPED


def test_the_folder_of_another_configuration_is_refused(cell):
    other = cell._replace(config=config.replace(cell.config, {"manager.eta": 7.0}))
    before = _stamps(cell.folder)
    with pytest.raises(SweepError, match=r"has a run with manager\.eta = 5\.0, the sweep has 7\.0: go on with the settings"):
        run.run([other], face=Quiet())
    assert work.obey(work.order(other))["end"] == work.FAILED
    assert _stamps(cell.folder) == before


@pytest.mark.parametrize("name", ["metrics.csv", "checkpoint.safetensors", "config.json"])
def test_a_damaged_folder_is_reported_and_left_alone(cell, name):
    (cell.folder / name).write_bytes(b"seed,step,name,value\nx\n")
    outcomes, _ = run.run([cell], face=Quiet())
    assert outcomes[0].status.state == State.FAILED
    assert name in outcomes[0].status.error


def test_a_cell_that_another_process_trains_is_left_to_it(cell):
    (cell.folder / "checkpoint.safetensors").unlink()
    with lock.locked(cell.folder):
        assert work.obey(work.order(cell, patience=0.0)) == {"end": work.BUSY, "error": ""}
        outcomes, interrupted = run.run([cell], face=Quiet())
    assert [outcome.status.state for outcome in outcomes] == [State.RUNNING]
    assert not interrupted


def test_an_order_is_plain_json(finished):
    sent = json.loads(json.dumps(work.order(finished, end=1.0)))
    assert config.from_dict(sent["config"]) == finished.config
    assert (Path(sent["folder"]), sent["end"]) == (finished.folder, 1.0)


def test_an_order_is_obeyed_as_far_as_it_can_be(cell, tmp_path):
    before = _stamps(cell.folder)
    assert work.obey(work.order(cell))["end"] == work.FINISHED
    assert _stamps(cell.folder) == before  # nothing to do
    new = cell._replace(folder=tmp_path / "new")
    assert work.obey(work.order(new, end=time.time() - 1)) == {"end": work.STOPPED, "error": ""}
    assert not new.folder.exists()
    missing = work.obey(work.order(cell._replace(folder=tmp_path / "a" / "b")))
    assert missing["end"] == work.FAILED
    assert "must be shared by all machines" in missing["error"]
    assert not (tmp_path / "a").exists()


def test_a_bug_in_a_cell_is_reported_with_its_last_line(cell, tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("a bug\nin two lines")

    monkeypatch.setattr(hrac.api, "run", broken)
    new = cell._replace(folder=tmp_path / "new")
    assert work.obey(work.order(new)) == {"end": work.FAILED, "error": "RuntimeError: a bug"}
    assert "Traceback" in tiny_sweep.log(new)


def test_a_killed_cell_goes_on_and_the_others_are_not_touched(tmp_path, monkeypatch):
    """Of three cells one is killed in the middle, one cannot start, one is well."""
    monkeypatch.setattr(board, "SECONDS_BETWEEN_LOOKS", 0.05)
    out = tmp_path / "sweep"
    cells = killed, hindered, well = tiny_sweep.plan(out, steps=6000, etas=(5.0, 10.0, 20.0))
    hindered.folder.mkdir(parents=True)
    (hindered.folder / "metrics.csv").write_text("somebody's")
    killer = Killer(killed.name, 800)
    outcomes, _ = run.run(cells, jobs=2, face=killer)
    assert killer.killed_at is not None
    assert [outcome.status.state for outcome in outcomes] == [State.FAILED, State.FAILED, State.FINISHED]
    assert outcomes[0].status.error.startswith("killed by SIGKILL; ")
    assert "holds a metrics.csv without a config.json" in outcomes[1].status.error
    assert 800 <= outcomes[0].status.numbers.step < 6000

    (hindered.folder / "metrics.csv").unlink()
    before = _stamps(well.folder)
    outcomes, _ = run.run([killed, well], face=Quiet())
    assert [outcome.status.state for outcome in outcomes] == [State.FINISHED, State.FINISHED]
    assert _stamps(well.folder) == before
    assert [len(tiny_sweep.processes(one)) for one in (killed, well)] == [2, 1]
    assert "goes on from step " in tiny_sweep.log(killed)
    for one in (killed, well):
        assert (one.folder / "metrics.csv").read_bytes() == tiny_sweep.unbroken(one, tmp_path / one.name)


def test_a_sweep_that_is_asked_to_stop_stops_its_cells_with_checkpoints(tmp_path):
    first, second = tiny_sweep.plan(tmp_path / "sweep", steps=200_000)
    tmp_path.joinpath("sweep").mkdir()
    passed = []
    face = Quiet(lambda outcomes: passed.append(outcomes[0].status.numbers.step >= 400))
    shown = board.Board([first, second], face)
    local.run([first, second], shown, lambda: any(passed))
    assert [outcome.status.state for outcome in shown.outcomes()] == [State.STOPPED, State.NOT_STARTED]
    assert face.said == ["stopping: each cell writes a checkpoint ..."]
    assert "stopped at step" in tiny_sweep.log(first)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "slurm"}, "there is no 'slurm'. Engines are: local, ray"),
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"engine": "ray", "jobs": 2}, "choose num_cpus and num_gpus"),
        ({"num_gpus": 1.0}, "are for the engine 'ray'"),
        ({"engine": "ray", "num_cpus": -1.0}, "num_cpus must be at least 0"),
        ({"minutes": 0.0}, "minutes must be a positive number"),
    ],
)
def test_engines_have_their_own_options(options, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        hrac.sweep(tasks=["maze"], out=tmp_path / "sweep", **options)
    assert not (tmp_path / "sweep").exists()


def test_without_ray_the_message_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SweepError, match=r"the engine 'ray' needs Ray: pip install 'hrac\[ray\]'"):
        cluster.run([], board.Board([], Quiet()), lambda: False)


def _outcomes(cell, *states):
    return [board.CellOutcome(cell, status.Status(state, status.NOTHING, "a reason")) for state in states]


@pytest.mark.parametrize(
    ("states", "interrupted", "code"),
    [
        ([State.FINISHED, State.FINISHED], False, 0),
        ([State.FINISHED, State.RUNNING], False, 0),
        ([State.STOPPED, State.FAILED], False, 1),
        ([State.STOPPED, State.FAILED], True, 1),
        ([State.STOPPED, State.NOT_STARTED], False, 0),
        ([State.STOPPED, State.FINISHED], True, 130),
        ([State.FINISHED, State.FINISHED], True, 0),
    ],
)
def test_the_exit_code_tells_failure_and_interruption(states, interrupted, code, finished, monkeypatch, capsys):
    monkeypatch.setattr(run, "run", lambda *_: (_outcomes(finished, *states), interrupted))
    assert cli._main(["sweep", "eta", "--tasks", "maze"]) == code
    shown = capsys.readouterr()
    assert ("go on with: hrac sweep eta --tasks maze" in shown.out) == (set(states) != {State.FINISHED})
    assert ("error: maze-hrac: a reason (see " in shown.err) == (State.FAILED in states)


def test_the_command_says_what_there_is(capsys):
    assert cli._main(["sweep"]) == 0
    listed = capsys.readouterr().out
    assert cli._main(["list"]) == 0
    for text in (listed, capsys.readouterr().out):
        assert all(name in text and experiment.summary in text for name, experiment in EXPERIMENTS.items())
    arguments = ["--tasks", "maze", "--set", "manager.eta=1,5", "k=5", "--set", "manager.subgoals=absolute", "--seeds", "2"]
    assert cli._main(["sweep", "mine", *arguments, "--first-seed", "3", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "maze-hrac-eta-1: not started (2 seeds of 1,000,000 steps)",
        "maze-hrac-eta-5: not started (2 seeds of 1,000,000 steps)",
        "2 cells in runs/sweeps/mine",
    ]
    assert cli._main(["sweep", "--set", "k=5", "eta"]) == 2
    assert "got 'eta' (a name comes before --set)" in capsys.readouterr().err
    assert cli._main(["sweep", "--steps", "60000"]) == 2
    assert "name an experiment (grid-methods, " in capsys.readouterr().err


def test_plain_lines_are_news_only(finished, capsys):
    face = board.PlainFace()
    for _ in range(2):
        face.show(_outcomes(finished, State.NOT_STARTED))
        face.show(_outcomes(finished, State.RUNNING))
        face.show(_outcomes(finished, State.RUNNING))
    assert capsys.readouterr().out.count("running") == 2


def test_the_table_has_a_row_for_each_cell(finished):
    drawn = board.table([board.CellOutcome(finished, status.read(finished))])
    assert [next(iter(column.cells)) for column in drawn.columns][:5] == [
        "maze",
        "hrac",
        "",
        "[green]finished[/]",
        "1,000 of 1,000",
    ]
    assert board.described({"manager.eta": 5.0, "env.layout": "#" * 50}) == f"eta = 5.0, layout = {'#' * 20}"


class _Ray:
    """As much of Ray as a sweep without cells needs. Like Ray, it takes the handler of SIGTERM for itself."""

    def __init__(self, connected):
        self.is_initialized = lambda: connected
        self.init = lambda **_: signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.shutdown = lambda: None
        self.nodes = list
        self.remote = lambda **_: lambda function: function


def test_sigterm_is_still_ours_when_ray_has_started(monkeypatch):
    monkeypatch.setattr(cluster, "_imported", lambda: _Ray(connected=False))
    ours = lambda *_: None  # noqa: E731
    before = signal.signal(signal.SIGTERM, ours)
    try:
        cluster.run([], board.Board([], Quiet()), lambda: False)
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_address_is_refused_where_a_cluster_is_connected_already(monkeypatch):
    monkeypatch.setattr(cluster, "_imported", lambda: _Ray(connected=True))
    with pytest.raises(SweepError, match="address must be None, because this process is connected to a Ray cluster already"):
        cluster.run([], board.Board([], Quiet()), lambda: False, address="127.0.0.1:6379")
