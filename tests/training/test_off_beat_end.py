"""A run that ends between two evaluations, and is made longer, logs what an unbroken run logs."""

import hrac
from test_golden_runs import RUNS

TASK, _, SETTINGS = RUNS["maze"]  # evaluates every 200 steps, in rounds of 40


def _train(folder, steps):
    return hrac.train(TASK, steps=steps, out=folder, display=hrac.Silent(), **SETTINGS)


def _steps_of_evaluations(folder):
    lines = (folder / "metrics.csv").read_text().splitlines()
    return [int(line.split(",")[1]) for line in lines if ",eval/return," in line]


def test_a_run_extended_past_an_off_beat_end_logs_as_if_it_had_never_ended(tmp_path):
    _train(tmp_path / "unbroken", 1000)
    assert _train(tmp_path / "extended", 720).finished
    assert _steps_of_evaluations(tmp_path / "extended") == [400, 600, 720]  # the last steps are evaluated too
    hrac.resume(tmp_path / "extended", steps=1000, display=hrac.Silent())
    assert (tmp_path / "extended" / "metrics.csv").read_bytes() == (tmp_path / "unbroken" / "metrics.csv").read_bytes()


def test_a_finished_run_that_is_resumed_keeps_its_last_evaluation(tmp_path):
    _train(tmp_path / "run", 720)
    before = (tmp_path / "run" / "metrics.csv").read_bytes()
    assert hrac.resume(tmp_path / "run", display=hrac.Silent()).finished
    assert (tmp_path / "run" / "metrics.csv").read_bytes() == before
