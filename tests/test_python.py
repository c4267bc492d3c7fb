"""What Python and notebooks see of a training: metrics, curves, callbacks, loggers, the best policy, and reprs."""

import importlib.util
import re
import sys

import jax
import numpy as np
import pytest

import hrac
import tiny
from hrac.agents.decide import Actors
from hrac.folder import checkpoint, log
from hrac.nets import MLP
from hrac.training import session
from hrac.training.best import Best
from hrac.training.session import _Listeners

SETTINGS = tiny.TWO_TD3 | {"env__time_limit": 40}


def _train(folder, steps=1200, **more):
    return hrac.train("point-maze", steps=steps, out=folder, display=hrac.Silent(), **(SETTINGS | more))


class Heard:
    """A callback and a logger that remember."""

    def __init__(self, stop_at=None):
        self.moments, self.rows, self.closed, self._stop_at = [], [], 0, stop_at

    def __call__(self, moment):
        self.moments.append(moment)
        return None if self._stop_at is None else moment.step >= self._stop_at

    def write(self, rows):
        self.rows += rows

    def close(self):
        self.closed += 1


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    heard = Heard()
    outcome = _train(tmp_path_factory.mktemp("runs") / "run", seeds=2, callbacks=[heard], loggers=[heard])
    return outcome, heard


def test_metrics_are_columns_with_a_row_for_each_seed_and_step(trained, monkeypatch):
    outcome, _ = trained
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    columns = outcome.metrics()
    rows = log.read(outcome.folder)
    assert columns["seed"].tolist() == sorted(columns["seed"].tolist())
    assert len(columns["step"]) == len({(row.seed, row.step) for row in rows})
    assert {name: np.isfinite(values).sum() for name, values in columns.items() if "/" in name} == {
        name: sum(row.name == name for row in rows) for name in {row.name for row in rows}
    }
    last = columns["eval/return"][(columns["seed"] == 1) & (columns["step"] == 1200)]
    assert last == pytest.approx([row.value for row in rows if row[:3] == (1, 1200, "eval/return")])


def test_metrics_are_a_data_frame_where_pandas_is_installed(trained):
    pd = pytest.importorskip("pandas")
    frame = trained[0].metrics()
    assert isinstance(frame, pd.DataFrame)
    assert frame[frame["step"] == 1200]["eval/return"].tolist() == pytest.approx(
        trained[0].last["eval/return"].tolist(), rel=1e-6
    )


def test_curves_are_drawn_of_an_outcome(trained):
    (axis,) = trained[0].plot("eval/return", smooth=2).axes
    assert axis.get_title() == "Point Maze (2 seeds)"
    assert hrac.plot(trained[0].folder).axes[0].get_ylabel() == "success in evaluation"


def test_callbacks_see_each_evaluation_and_loggers_each_number(trained):
    outcome, heard = trained
    assert [moment.step for moment in heard.moments] == [400, 800, 1200]
    last = heard.moments[-1]
    assert (last.folder, last.seeds) == (outcome.folder, (0, 1))
    assert last.mean("eval/return") == pytest.approx(outcome.last["eval/return"].mean())
    assert np.isnan(last.mean("nonsense"))
    kept = [(row.seed, row.step, row.name) for row in log.read(outcome.folder)]
    assert [(row.seed, row.step, row.name) for row in heard.rows] == kept
    assert heard.closed == 1
    assert isinstance(heard, hrac.Logger)


def test_a_callback_stops_a_training_with_a_checkpoint_that_goes_on_exactly(trained, tmp_path):
    whole, _ = trained
    heard = Heard(stop_at=800)
    outcome = _train(tmp_path / "run", seeds=2, callbacks=[heard])
    assert (outcome.env_steps, outcome.finished, outcome.interrupted) == (800, False, False)
    assert hrac.resume(tmp_path / "run", display=hrac.Silent(), loggers=[heard]).finished
    assert heard.rows[0].step > 800
    assert (tmp_path / "run" / "metrics.csv").read_bytes() == (whole.folder / "metrics.csv").read_bytes()
    for name in ("policy/seed-1.safetensors", "best/seed-0.safetensors", "best/seed-1.safetensors"):
        ours, theirs = (checkpoint.load(folder / name, "policy") for folder in (tmp_path / "run", whole.folder))
        assert ours[1] == theirs[1]
        assert all(np.array_equal(ours[0][key], theirs[0][key]) for key in theirs[0])


@pytest.mark.parametrize("kind", ["callbacks", "loggers"])
def test_a_callback_or_logger_that_raises_ends_a_training_with_a_checkpoint_that_goes_on_exactly(kind, trained, tmp_path):
    class Broken(Heard):
        def __call__(self, moment):
            self.write([log.Row(0, moment.step, "", 0.0)])

        def write(self, rows):
            super().write(rows)
            if rows[0].step == 800:
                raise ZeroDivisionError("in your code")

    (whole, _), folder, broken, other = trained, tmp_path / "run", Broken(), Heard()
    listening = {"loggers": [other]} | {kind: [broken, other] if kind == "loggers" else [broken]}
    with pytest.raises(ZeroDivisionError, match="in your code") as caught:
        _train(folder, seeds=2, **listening)
    assert caught.value.__notes__ == [f"what was learned up to step 800 is saved: hrac train --resume {folder}"]
    assert len(other.rows) == len(log.read(folder))
    assert hrac.resume(folder, display=hrac.Silent()).finished
    assert (folder / "metrics.csv").read_bytes() == (whole.folder / "metrics.csv").read_bytes()


def test_all_loggers_are_closed_even_if_one_raises():
    class Broken(Heard):
        def close(self):
            raise OSError("no space")

    before, after = Heard(), Heard()
    with pytest.raises(OSError, match="no space"):
        _Listeners([], [before, Broken(), after]).close()
    assert (before.closed, after.closed) == (1, 1)


def test_a_mean_is_over_the_seeds_that_have_a_metric(trained):
    metrics = {"x": np.array([1.0, np.nan, 2.0]), "y": np.array([np.nan] * 3)}
    moment = hrac.Moment(trained[0].folder, 0, (0, 1, 2), metrics, {}, print)
    assert moment.mean("x") == 1.5
    assert np.isnan([moment.mean("y"), moment.mean("z")]).all()


def test_stop_at_waits_for_some_evaluations_in_a_row(trained):
    _, heard = trained
    moment = heard.moments[0]
    stop = hrac.StopAt("x", 0.5, evaluations=2)
    seen = [
        stop(hrac.Moment(moment.folder, 0, (0, 1), {"x": np.array(pair)}, {}, print))
        for pair in ((1.0, 0.0), (0.0, 0.0), (1.0, 1.0), (1.0, 0.0))
    ]
    assert seen == [False, False, False, True]
    assert repr(stop) == "StopAt('x', 0.5, evaluations=2)"
    with pytest.raises(hrac.HracError, match="evaluations must be at least 1, got 0"):
        hrac.StopAt("x", 1.0, 0)


def _actors(weight):
    return Actors(None, MLP((np.full((2, 1, 1), weight),), (np.full((2, 1), weight),)), None)


def test_the_best_evaluation_of_each_run_is_kept_and_among_equals_the_latest():
    best = Best(2)
    see = lambda step, success, score, weight: best.see(  # noqa: E731
        {"eval/success": np.array(success), "eval/return": np.array(score)}, _actors(weight), step
    )
    see(100, [0.5, 0.0], [1.0, 9.0], 1.0)
    see(200, [0.5, 0.5], [2.0, 1.0], 2.0)  # as successful, with a higher return; and more successful
    see(300, [0.4, 0.5], [9.0, 1.0], 3.0)  # less successful; and equal
    assert best.steps.tolist() == [200, 300]
    assert best.actors.controller.biases[0].tolist() == [[2.0], [3.0]]
    assert best.about(0) == {"step": 200.0, "eval/success": 0.5, "eval/return": 2.0}


def test_the_best_policy_is_that_of_the_best_evaluation_in_the_log(trained):
    outcome, heard = trained
    rows = [row for row in log.read(outcome.folder) if row.name in ("eval/success", "eval/return") and row.seed == 1]
    scores = {row.step: [other.value for other in rows if other.step == row.step] for row in rows}
    by_name = [row.name for row in rows[:2]]
    order = lambda step: (*(scores[step][by_name.index(name)] for name in ("eval/success", "eval/return")), step)  # noqa: E731
    policy = hrac.load(outcome.folder, 1, best=True)
    assert policy.scored["step"] == max(scores, key=order) == heard.moments[-1].best[1]["step"]
    assert f"seed 1, best of its run, at step {policy.scored['step']:,.0f}, success " in repr(policy)
    again = hrac.evaluate(outcome.folder, episodes=2, best=True)
    assert [row.seed for row in again] == [0, 1]
    with pytest.raises(hrac.RunFolderError, match="a best policy is sought in a run folder"):
        hrac.load(outcome.folder / "policy" / "seed-0.safetensors", best=True)


@pytest.mark.parametrize(("seconds", "written"), [(0.0, [400.0, 800.0, 1200.0]), (3600.0, [-1.0, 400.0, 400.0])])
def test_best_policies_do_not_wait_for_a_checkpoint(seconds, written, tmp_path, monkeypatch):
    monkeypatch.setattr(session, "BEST_EVERY_SECONDS", seconds)
    seen = []

    def latest(best, means, actors, step):
        best.actors, best.steps = jax.device_get(actors), np.full_like(best.steps, step)

    monkeypatch.setattr(Best, "see", latest)

    def look(moment):
        path = moment.folder / "best" / "seed-0.safetensors"
        seen.append(checkpoint.load(path, "policy")[1]["scored"]["step"] if path.exists() else -1.0)

    _train(tmp_path / "run", callbacks=[look], training__checkpoint_every_env_steps=100_000)
    assert seen == written


def test_a_callback_can_save_the_policies_of_a_moment(trained, tmp_path):
    _, heard = trained
    heard.moments[-1].save_policies(tmp_path / "new" / "mine")
    assert hrac.load(tmp_path / "new" / "mine" / "seed-1.safetensors").seed == 1


def test_a_policy_is_evaluated_and_loaded_by_the_name_of_its_task(trained):
    outcome, _ = trained
    policy = hrac.load(outcome.folder, 1)
    (direct,), (by_path,) = hrac.evaluate(policy, episodes=2), hrac.evaluate(outcome.folder, 2, seed=1)
    assert direct.means == by_path.means
    assert repr(hrac.load("ant-maze")) == repr(hrac.load(hrac.pretrained("ant-maze")))
    assert re.fullmatch(r"Policy\(ant-maze, hrac-plus, seed \d\)", repr(hrac.load("ant-maze")))
    with pytest.raises(
        hrac.RunFolderError, match=r"nowhere does not exist: name a run folder, a policy file or a task that comes"
    ):
        hrac.load("nowhere")


def test_things_say_what_they_are(trained):
    outcome, _ = trained
    assert repr(outcome).startswith("Outcome(point-maze, hrac, 2 seeds, finished at step 1,200, return -")
    assert repr(outcome).endswith(f"in {outcome.folder})")
    assert repr(hrac.evaluate(outcome.folder, 2, seed=0)[0]).startswith("Evaluation(point-maze, hrac, seed 0: return -")
    task = hrac.experiments.tasks.find("maze")
    assert repr(task) == f"Task(maze: {task.summary})"
    assert hrac.compare(outcome.folder)._repr_markdown_().startswith("Final eval/success: ")
