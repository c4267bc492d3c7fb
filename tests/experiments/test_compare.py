"""Pooled run folders, what is refused, and the tables; with small folders written by hand."""

import csv
import io
import json

import numpy as np
import pytest

import hrac
from hrac import cli
from hrac.config import replace, to_dict
from hrac.experiments.compare import CompareError, Logged
from hrac.experiments.statistics import StatisticsError
from hrac.experiments.tasks import config_for
from hrac.folder import reading


@pytest.fixture
def write(tmp_path):
    """Writes a run folder: `write("a", {seed: values})`, a value every 100 steps."""

    def folder(name, runs, task="maze", metrics=("eval/return",), steps=None, **changes):
        path = tmp_path / name
        path.mkdir(parents=True)
        settings = {key.replace("__", "."): value for key, value in changes.items()}
        config = replace(config_for(task), {"seeds": list(runs), **settings})
        (path / "config.json").write_text(json.dumps({"config": to_dict(config)}))
        rows = ["seed,step,name,value"]
        for seed, values in runs.items():
            at = steps or [100 * (i + 1) for i in range(len(values))]
            rows += [f"{seed},{step},{metric},{value}" for step, value in zip(at, values, strict=True) for metric in metrics]
        (path / "metrics.csv").write_text("\n".join(rows) + "\n")
        return path

    return folder


def test_folders_of_a_task_and_method_are_pooled(write):
    first, second = write("a", {0: [1.0, 4.0], 1: [1.0, 6.0]}), write("b", {5: [0.0, 8.0], 7: [0.0, 2.0]})
    result = hrac.compare([first, second])
    (score,) = result.scores
    assert (score.task, score.method, score.seeds, score.step, score.evaluations) == ("maze", "hrac", 4, 200, 1)
    assert (score.final.value, score.mean, score.worst, score.best) == (5.0, 5.0, 2.0, 8.0)
    assert 2.0 <= score.final.interval[0] < 5.0 < score.final.interval[1] <= 8.0
    assert result.cells[0].seeds == (0, 1, 5, 7)
    assert (result.metric, result.pairs, result.overall, result.notes) == ("eval/return", (), (), ())


def test_what_was_read_of_a_folder_stands_for_it(write):
    first, second = write("a", {0: [1.0, 4.0]}), write("b", {1: [0.0, 8.0]})
    read = Logged.read(first)
    (first / "metrics.csv").unlink()
    (score,) = hrac.compare([read, second]).scores
    assert (score.seeds, score.mean) == (2, 6.0)


def test_names_and_what_changes_no_number_may_differ(write):
    changes = {"training__total_env_steps": 2_000_000, "training__checkpoint_every_env_steps": 70_000}
    assert hrac.compare([write("a", {0: [1.0]}), write("b", {1: [2.0]}, **changes)]).scores[0].seeds == 2


def test_other_settings_are_not_pooled_unless_told(write):
    first, second = write("a", {0: [3.0], 1: [4.0]}), write("b", {0: [1.0], 1: [3.0]}, manager__eta=0.0, k=20)
    message = "maze, hrac: .*a and .*b differ in k, manager.eta, so they are not pooled. Compare folders .--by folder."
    with pytest.raises(CompareError, match=message):
        hrac.compare([first, second])
    result = hrac.compare([first, second], by="folder")
    assert [(score.method, score.final.value) for score in result.scores] == [("a", 3.5), ("b", 2.0)]
    assert [(pair.method, pair.other, pair.probability.value) for pair in result.pairs] == [("a", "b", 0.875)]
    assert result.notes == ("maze: the runs differ in k, manager.eta",)
    with pytest.raises(CompareError, match=r"seed 0 is in both .*a and .*b. A seed counts once: leave a folder out"):
        hrac.compare([first, second], labels=["both", "both"])


def test_labels_pool_what_they_are_told_to(write):
    folders = [write("a", {0: [3.0]}), write("b", {1: [1.0]}, manager__eta=0.0)]
    result = hrac.compare(folders, labels=["both", "both"])
    assert (result.scores[0].method, result.scores[0].seeds) == ("both", 2)
    assert result.notes == ("maze: the runs differ in manager.eta",)


def test_a_seed_is_not_counted_twice(write):
    first, second = write("a", {0: [1.0], 3: [1.0]}), write("b", {3: [1.0]})
    with pytest.raises(CompareError, match=r"maze, hrac: seed 3 is in both .*a and .*b"):
        hrac.compare([first, second])
    with pytest.raises(CompareError, match="seed 0 is in both"):
        hrac.compare([first, first])


def test_another_environment_is_another_task(write):
    first, second = write("a", {0: [1.0]}), write("b", {1: [1.0]}, env__time_limit=30, method="other")
    with pytest.raises(CompareError, match=r"maze: .*a and .*b differ in env.time_limit, so they are different tasks"):
        hrac.compare([first, second])
    assert len(hrac.compare([first, second], by="folder").scores) == 2


def test_folders_with_the_same_name_are_told_apart(write):
    folders = [write("x/run", {0: [1.0]}), write("y/run", {0: [2.0]})]
    assert [score.method for score in hrac.compare(folders, by="folder").scores] == [str(folder) for folder in folders]


def test_runs_of_different_lengths_are_compared_at_the_last_common_step(write):
    long, short = write("long", {0: [1.0, 2.0, 9.0], 1: [1.0, 2.0, 9.0]}), write("short", {0: [1.0, 3.0], 1: [0.0, 3.0]})
    result = hrac.compare([long, short], by="folder", threshold=9.0)
    assert [(score.step, score.final.value) for score in result.scores] == [(200, 2.0), (200, 3.0)]
    assert result.notes == ("maze: compared at step 200, the last at which all were evaluated; they end at 200, 300",)
    assert result.scores[0].reached == (np.inf, 0)  # it was reached at 300, which is not compared
    assert result.cells[0].steps.tolist() == [100, 200, 300]  # for curves


def test_pooled_folders_of_different_lengths_are_told_too(write):
    result = hrac.compare([write("long", {0: [1.0, 2.0, 9.0]}), write("short", {1: [1.0, 3.0]})])
    assert result.scores[0].final.value == 2.5
    assert result.notes == ("maze: compared at step 200, the last at which all were evaluated; they end at 200, 300",)


def test_evaluations_that_not_all_have_are_told(write):
    dense, coarse = write("a", {0: [1.0] * 4}), write("b", {1: [1.0, 1.0]}, steps=[200, 400])
    assert hrac.compare([dense, coarse]).notes == ("maze: only the 2 evaluations at steps that all have are used",)
    with pytest.raises(StatisticsError, match="maze hrac: there is no step at which all of them were evaluated"):
        hrac.compare([dense, write("c", {2: [1.0]}, steps=[50])])


def test_never_counts_in_the_median_of_steps_to_a_threshold(write):
    runs = {0: [6.0, 0.0, 0.0], 1: [0.0, 6.0, 0.0], 2: [0.0, 0.0, 0.0]}
    result = hrac.compare([write("a", runs)], threshold=5.0)
    assert result.scores[0].reached == (200.0, 2)
    assert "200      2 of 3" in result.text()
    result = hrac.compare([write("b", {0: runs[0], 1: runs[2]})], threshold=5.0)
    assert result.scores[0].reached == (np.inf, 1)  # the median of 100 and never
    assert "never      1 of 2" in result.text()


def test_success_is_the_metric_where_all_runs_have_it(write):
    both = ("eval/return", "eval/success")
    first, second = write("a", {0: [0.5]}, metrics=both), write("b", {1: [0.5]}, metrics=both)
    third = write("c", {2: [0.5]})
    assert hrac.compare([first, second]).metric == "eval/success"
    assert hrac.compare([first, second, third]).metric == "eval/return"
    assert hrac.compare([first], "eval/return").metric == "eval/return"
    with pytest.raises(reading.NoSuchMetricError, match=r"c has no 'eval/success'\. Metrics are: eval/return"):
        hrac.compare([first, third], "eval/success")


def test_a_number_that_is_none_is_refused(write):
    with pytest.raises(CompareError, match="a: eval/return of seed 4 at step 200 is no finite number"):
        hrac.compare([write("a", {0: [1.0, 1.0], 4: [1.0, "nan"]})])


def test_one_seed_is_told(write):
    result = hrac.compare(write("a", {3: [1.0]}))
    assert result.scores[0].final == (1.0, None)
    assert result.notes == ("maze, hrac: one seed, so there is no interval",)


def _four(write):
    return [
        write("a", {0: [3.0], 1: [3.0]}),
        write("b", {0: [1.0], 1: [1.0]}, manager__eta=0.0),
        write("c", {0: [6.0], 1: [6.0]}, task="key-chest"),
        write("d", {0: [0.0], 1: [8.0]}, task="key-chest", manager__eta=0.0),
    ]


def test_tasks_are_scored_together_only_if_their_scores_are_normalised(write):
    folders, labels = _four(write), ["HRAC", "plain", "HRAC", "plain"]
    result = hrac.compare(folders, labels=labels)
    assert result.overall == ()
    assert {pair.task for pair in result.pairs} == {"maze", "key-chest"}
    result = hrac.compare(folders, labels=labels, normalise={"maze": (1.0, 5.0), "key-chest": (0.0, 6.0)})
    ours, plain = result.overall
    assert (ours.method, ours.seeds, ours.final) == ("HRAC", 2, (0.75, (0.75, 0.75)))  # 0.5, 0.5, 1, 1
    assert plain.final.value == 0.0  # of 0, 0, 0, 4/3 the middle two
    assert [pair.probability.value for pair in result.pairs] == [1.0, 0.5, 0.75]
    assert "All tasks" in result.text()
    with pytest.raises(CompareError, match="normalise: key-chest needs a worst and a best score, the worst first, got None"):
        hrac.compare(folders, labels=labels, normalise={"maze": (1.0, 5.0)})
    with pytest.raises(CompareError, match=r"normalise: maze needs .* got \(5.0, 1.0\)"):
        hrac.compare(folders, labels=labels, normalise={"maze": (5.0, 1.0), "key-chest": (0.0, 6.0)})


def test_a_method_without_all_tasks_is_not_scored_over_them(write):
    limits = {"maze": (1.0, 5.0), "key-chest": (0.0, 6.0)}
    result = hrac.compare(_four(write)[:3], labels=["HRAC", "plain", "HRAC"], normalise=limits)
    assert [row.method for row in result.overall] == ["HRAC"]
    assert "plain: not scored over all tasks, it needs each with equally many seeds" in result.notes


def test_the_same_numbers_as_text_markdown_and_csv(write, tmp_path, capsys):
    folders = [str(write("a", {0: [3.0], 1: [4.0]})), str(write("b|c", {0: [1.0], 1: [3.0]}, manager__eta=0.0))]
    command = ["compare", *folders, "--by", "folder", "--threshold", "4"]
    assert cli._main(command) == 0
    text = capsys.readouterr().out
    lines = [line.split() for line in text.splitlines()]
    row = ["maze", "a", "2", "100", "1", "3.500", "3.000", "to", "4.000", "3.500", "3.000", "4.000", "never", "1", "of", "2"]
    assert row in lines
    assert ["maze", "a", "b|c", "0.875", "0.500", "to", "1.000"] in lines
    assert cli._main([*command, "--format", "markdown"]) == 0
    markdown = capsys.readouterr().out
    assert "| maze | a | 2 | 100 | 1 | 3.500 | 3.000 to 4.000 | 3.500 | 3.000 | 4.000 | never | 1 of 2 |" in markdown
    assert "| maze | a | b\\|c | 0.875 | 0.500 to 1.000 |" in markdown
    assert cli._main([*command, "--format", "csv", "--out", str(tmp_path / "new" / "table.csv")]) == 0
    assert capsys.readouterr().out == f"written: {tmp_path / 'new' / 'table.csv'}\n"
    rows = list(csv.DictReader(io.StringIO((tmp_path / "new" / "table.csv").read_text())))
    values = {(row["method"], row["name"]): (row["value"], row["low"], row["high"]) for row in rows}
    assert values["a", "final_iqm"] == ("3.5", "3.0", "4.0")
    assert values["b|c", "final_worst"] == ("1.0", "", "")
    assert values["a", "steps_to_threshold_median"] == ("inf", "", "")
    assert values["a", "probability_of_improvement"] == ("0.875", "0.5", "1.0")


def test_the_command_draws_curves_and_scores_all_tasks(write, tmp_path, capsys):
    folders, picture = [str(folder) for folder in _four(write)], tmp_path / "curves.png"
    options = ["--labels", "A", "B", "A", "B", "--normalise", "maze", "1", "5", "key-chest", "0", "6"]
    assert cli._main(["compare", *folders, *options, "--curves", str(picture), "--seeds"]) == 0
    out = capsys.readouterr().out
    assert "A                    2  0.750" in out
    assert f"drawn: {picture}" in out
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_refusals_are_one_line(write, capsys):
    folders = [str(write("a", {0: [1.0]})), str(write("b", {1: [1.0]}, k=20))]
    assert cli._main(["compare", *folders]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_curves_of_different_tasks_have_a_panel_each(write, tmp_path, capsys):
    maze, chest = write("a", {0: [1.0, 2.0]}), write("b", {0: [1.0, 2.0]}, task="key-chest")
    assert cli._main(["curves", str(maze), str(chest), "--out", str(tmp_path / "new" / "x.svg")]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "the runs have 2 tasks: each has a panel"
    assert (tmp_path / "new" / "x.svg").read_bytes().startswith(b"<?xml")


def test_a_folder_without_a_configuration_is_told(write, capsys):
    folder = write("a", {0: [1.0, 2.0]})
    (folder / "config.json").unlink()
    for command in ("compare", "curves"):
        assert cli._main([command, str(folder)]) == 2
        assert capsys.readouterr().err == f"error: {folder} is no run folder: it has no config.json\n"
