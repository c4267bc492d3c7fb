"""Learning curves and the figures of the paper, from small folders written by hand."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import hrac
from hrac import cli
from hrac.config import replace, to_dict
from hrac.experiments.methods import METHODS
from hrac.experiments.published import Level
from hrac.experiments.tasks import config_for
from hrac.view import colours, curves, figures
from hrac.view.curves import Curve, Panel


def _curve(label, values):
    return Curve(label, 100 * np.arange(1, np.shape(values)[1] + 1), np.array(values, float))


@pytest.fixture
def write(tmp_path):
    """Writes a run folder with some seeds of a task: `write("a", "maze", {seed: values})`, a value every 100 steps."""

    def folder(name, task, runs, metric="eval/return", **changes):
        path = tmp_path / name
        path.mkdir(parents=True)
        config = replace(config_for(task), {"seeds": list(runs)} | {key.replace("__", "."): v for key, v in changes.items()})
        (path / "config.json").write_text(json.dumps({"config": to_dict(config)}))
        rows = [f"{seed},{100 * i},{metric},{value}" for seed, values in runs.items() for i, value in enumerate(values)]
        (path / "metrics.csv").write_text("\n".join(["seed,step,name,value", *rows]) + "\n")
        return path

    return folder


def test_a_curve_is_the_interquartile_mean_with_its_interval_and_thin_seeds():
    curve = _curve("all", [[seed, 0] for seed in range(8)])
    axis = Figure().subplots()
    assert curves.panel(axis, Panel("Maze", "eval/return", [curve])) is axis
    line, *thin = axis.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), [3.5, 0.0])  # 2, 3, 4, 5
    assert (line.get_label(), axis.get_title(), axis.get_ylabel()) == ("all", "Maze (8 seeds)", "return in evaluation")
    assert len(thin) == 8
    (band,) = axis.collections
    low, high = band.get_paths()[0].get_extents().intervaly
    assert low == 0.0
    assert 5.0 < high < 7.0


def test_seeds_are_drawn_beside_few_curves_only_and_are_counted():
    many = [_curve(name, [[1, 2], [2, 3]]) for name in "abcd"]
    assert len(curves.panel(Figure().subplots(), Panel("", "x", many)).get_lines()) == 4
    assert len(curves.panel(Figure().subplots(), Panel("", "x", many), seeds=True).get_lines()) == 12
    assert curves.panel(Figure().subplots(), Panel("T", "x", [_curve("a", [[1, 2]])])).get_title() == "T (1 seed)"
    both = [_curve("a", [[1, 2]]), _curve("b", [[1, 2], [1, 2]])]
    assert curves.panel(Figure().subplots(), Panel("T", "x", both)).get_title() == "T (1 to 2 seeds)"


def test_smoothing_is_a_running_mean_of_each_seed_and_is_said():
    panel = Panel("Maze", "eval/return", [_curve("a", [[0, 3, 6, 0]])], smooth=3)
    (line,) = curves.panel(Figure().subplots(), panel).get_lines()
    np.testing.assert_allclose(line.get_ydata(), [1.5, 3.0, 3.0, 3.0])
    assert curves.note([panel]) == "One seed; each seed is a running mean of 3 evaluations."
    rough = Panel("Ant Maze", "eval/success", [_curve("a", [[0], [1]])])
    assert curves.note([rough]) == "Interquartile mean over seeds and its 95 % bootstrap interval; not smoothed."
    assert "; on Maze each seed is a running mean of 3 " in curves.note([panel, rough])


def test_a_method_has_one_colour_in_all_figures_and_in_reports():
    assert set(colours.METHODS) == set(METHODS)
    assert len(set(colours.COLOURS)) == len(set(colours.ON_DARK)) == 10
    assert len(set(curves.styles_of(METHODS).values())) == len(METHODS) == 11
    few, many = curves.styles_of(["no-adj", "hrac"]), curves.styles_of(["hrac", "mine", "hiro", "no-adj"])
    assert (few["hrac"], few["no-adj"]) == (many["hrac"], many["no-adj"])
    assert len(set(many.values())) == 4


def test_ten_colours_differ_and_then_dashes_do():
    styles = curves.styles_of(map(str, range(25)))
    assert len({styles[str(i)].colour for i in range(10)}) == 10
    assert len(set(styles.values())) == 25


def test_a_level_has_its_words_and_lies_within_the_axis():
    axis = curves.panel(Figure().subplots(), Panel("Maze", "eval/return", [_curve("a", [[1, 2]])], Level(5.8, "best possible")))
    assert [text.get_text() for text in axis.texts] == ["best possible"]
    assert axis.get_ylim()[1] > 5.8
    assert "best possible" not in axis.get_legend_handles_labels()[1]


def test_levels_are_for_the_maps_of_the_paper(write):
    plain, own = write("a", "maze", {0: [1.0]}), write("b", "maze", {0: [1.0]}, env__layout="####\n#AG#\n####")
    assert figures.panels_of([plain])[0].level == (5.8, "best possible")
    assert figures.panels_of([own])[0].level is None
    assert figures.panels_of([plain, own])[0].level is None


def test_the_command_draws_the_metric_that_python_does(write, tmp_path):
    folders = [write("a", "ant-gather", {0: [1.0, 2.0]}), write("b", "point-maze", {0: [0.0, 0.5]}, "eval/success")]
    assert cli._main(["curves", *map(str, folders), "--out", str(tmp_path / "x.svg")]) == 0
    drawn = (tmp_path / "x.svg").read_text()
    for axis in hrac.plot(*folders).axes:
        assert f"<!-- {axis.get_ylabel()} -->" in drawn


def test_a_label_has_one_style_in_all_panels_and_one_entry_in_the_legend():
    panels = [Panel("A", "x", [_curve("a", [[1]]), _curve("b", [[1]])]), Panel("B", "x", [_curve("b", [[2]])])]
    drawn = curves.figure(panels)
    first, second = drawn.axes
    assert first.get_lines()[1].get_color() == second.get_lines()[0].get_color() == colours.COLOURS[1]
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["a", "b"]


@pytest.mark.parametrize("width", [2.3, 4.6])
def test_the_note_about_lines_and_bands_fits_on_the_figure(width):
    drawn = curves.figure([Panel("A", "x", [_curve("a", [[1, 2], [2, 3]])])], size=(width, 1.9))
    FigureCanvasAgg(drawn).draw()
    (words,) = (text for text in drawn.texts if "bootstrap" in text.get_text())
    box = words.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= drawn.bbox.width


@pytest.mark.parametrize("label", ["_old", "a $x_$ b", ""])
def test_names_are_drawn_letter_by_letter(label, tmp_path):
    drawn = curves.figure([Panel(label, label or "x", [_curve(label, [[1, 2]])])])
    figures.save(drawn, tmp_path / "curves.svg")
    (entry,) = drawn.legends[0].get_texts()
    assert entry.get_text().strip().replace(r"\$", "$") == label


def test_a_figure_of_the_paper_is_made_of_given_runs_in_three_formats(write, tmp_path, capsys):
    folders = [write(f"eta-{eta}", "maze", {0: [1.0, 2.0], 1: [2.0, 3.0]}, manager__eta=eta) for eta in (1.0, 5.0)]
    assert cli._main(["figure", "eta", *map(str, folders), "--out", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.count("drawn: ") == 3
    starts = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}
    for kind, start in starts.items():
        assert (tmp_path / "new" / f"eta.{kind}").read_bytes().startswith(start)
    before = (tmp_path / "new" / "eta.svg").read_bytes()
    drawn = figures.of_the_paper("eta", folders, tmp_path)
    figures.save_for_a_page(drawn, tmp_path / "again", "eta")
    assert (tmp_path / "again" / "eta.svg").read_bytes() == before  # a file under version control changes with its content only
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["eta = 1", "eta = 5"]
    assert drawn.get_size_inches()[0] <= figures.PAGE_WIDTH


@pytest.mark.parametrize("name", figures.FIGURES)
def test_the_runs_of_a_figure_are_in_the_repository(name, request):
    results = request.config.rootpath / "benchmarks" / "results"
    folders = [results / folder for folder in figures.FIGURES[name].committed]
    panels = figures.panels_of(folders, labels=[figures.FIGURES[name].label(figures.read_config(run)) for run in folders])
    assert sum(len(panel.curves) for panel in panels) == len(folders)  # nothing is pooled by mistake
    assert all((panel.level is not None) == (name != "stochastic") for panel in panels)  # the paper names no level for noise


def test_the_figures_are_listed_and_what_is_missing_is_said(tmp_path, capsys):
    assert cli._main(["figure"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(figures.FIGURES) + 2
    for arguments, message in (
        (["nonsense"], "there is no figure 'nonsense'. Figures are: learning-curves, ablations, eta, stochastic, subgoals,"),
        (["eta", "--results", str(tmp_path / "none")], "is not here: name run folders (trained by hrac sweep eta), or with"),
        (["pair-sampling", "run"], "it is made from walks of a random agent, not from run folders"),
    ):
        assert cli._main(["figure", *arguments]) == 2
        assert message in capsys.readouterr().err


def test_subgoals_are_drawn_in_strips(tmp_path):
    from hrac.scenes.story import tell
    from hrac.view import strips

    policy = hrac.load(hrac.pretrained("ant-maze"))
    other = SimpleNamespace(config=replace(policy.config, {"method": "hiro"}), title="b")
    assert strips._titles([policy]) == ["Ant Maze"]
    assert strips._titles([policy, other]) == ["Ant Maze, hrac-plus", "Ant Maze, hiro"]
    assert strips._titles([other, other]) == ["b", "b"]
    axes = strips.strip(Figure().subplots(1, 3), tell(policy.player, "Ant Maze"))
    assert axes[0].get_title() == "step 0"
    assert [int(axis.get_title().split()[1]) % policy.config.k for axis in axes] == [0, 0, 0]
    assert axes[0].get_ylabel() == "Ant Maze"
