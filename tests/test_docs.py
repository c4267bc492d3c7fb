"""The documentation is true: its Python runs, its commands exist, its names are there, and the notebook can be executed."""

import importlib
import json
import re
import shlex
import shutil
import sys
from functools import partial
from pathlib import Path
from unittest import mock

import matplotlib.pyplot as plt
import numpy as np
import pytest
import tyro

import hrac
from hrac import cli
from hrac.cli.figure import FigureOptions
from hrac.cli.pairs import PairsOptions
from hrac.cli.play import EvalOptions, PictureOptions, VideoOptions
from hrac.cli.report import ReportOptions
from hrac.cli.results import CompareOptions, CurvesOptions
from hrac.cli.sweep import SweepOptions
from hrac.cli.tasks import BenchOptions, CheckOptions, ListOptions
from hrac.cli.training import ResumeOptions, TrainOptions, defaults
from hrac.experiments import pair_sampling
from hrac.experiments.methods import METHODS
from hrac.experiments.tasks import TASKS, config_for
from hrac.sweeps.run import plan
from hrac.sweeps.status import read

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND_PAGES = [*PAGES, ROOT / "CONTRIBUTING.md"]
"""Not the benchmarks': their commands are those of the commits that they name."""
RUN = [
    "README.md",
    *(f"docs/{name}.md" for name in ("algorithm", "comparing", "environments", "metrics", "theory", "tutorial")),
]
"""Pages whose Python is executed from top to bottom."""
CHECKED = [f"docs/{name}.md" for name in ("analyses", "extending", "own_environments", "sweeps")]
"""The others with Python. What they train would take long to compile, so it is only looked at."""
TINY = {
    "k": 4,
    "manager__hidden": (8,),
    "manager__buffer_windows": 200,
    "manager__start_fraction": 0.2,
    "manager__batch_size": 8,
    "controller__hidden": (8,),
    "adjacency__hidden": (8,),
    "adjacency__pretrain_env_steps": 200,
    "adjacency__pretrain_epochs": 1,
    "training__round_env_steps": 40,
    "training__eval_every_env_steps": 200,
    "training__eval_episodes": 2,
    "training__envs_per_run": 2,
    "env__time_limit": 20,
}
LAYOUT = "#######\n#A...##\n#.....#\n###...#\n#....G#\n#######"


def _blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def _small_train(real):
    """`hrac.train`, but with tiny networks on a small map whatever is asked for, so that programs are compiled once."""

    def train(task="maze", *arguments, **settings):
        chosen = ("out", "seeds", "callbacks", "loggers")
        kept = {name: value for name, value in settings.items() if name in chosen}
        return real("maze", steps=400, env__layout=LAYOUT, display=hrac.Silent(), **(kept | TINY))

    return train


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A place for the files that examples write, where training takes seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hrac, "train", _small_train(hrac.train))
    monkeypatch.setitem(sys.modules, "wandb", mock.MagicMock())
    return tmp_path


def test_the_python_of_the_pages_and_the_notebook_run(small):
    for folder in ("mine", "a", "b"):
        hrac.train(out=f"runs/{folder}", seeds=2)
    for name in RUN:
        if name == "README.md":
            shutil.rmtree("runs/mine")  # which it trains
        _run_page(ROOT / name)
    titles, names = _run_notebook(ROOT / "examples" / "hrac_in_pictures.ipynb")
    assert "subgoals from each cell" in titles
    assert names["outcome"].finished


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Where tasks and methods are looked at instead of trained, sweeps are listed, and networks hardly learn."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hrac, "train", lambda task, method="hrac", **_: hrac.check_task(task, method))
    monkeypatch.setattr(hrac, "load", lambda folder: folder)
    monkeypatch.setattr(hrac, "sweep", lambda name, **what: [(cell, read(cell)) for cell in plan(name, **what)])
    monkeypatch.setattr(pair_sampling, "run", partial(pair_sampling.run, steps=800, gradient_steps=20))
    monkeypatch.setattr(hrac.reachability, "fit", partial(hrac.reachability.fit, gradient_steps=20))
    monkeypatch.setitem(sys.modules, "imageio", mock.MagicMock())  # which Gymnasium's MuJoCo environments import
    with mock.patch.dict(METHODS), mock.patch.dict(TASKS):
        yield


@pytest.mark.parametrize("name", CHECKED)
def test_the_python_of_the_other_pages_runs(name, checked):
    names = _run_page(ROOT / name)
    if name == "docs/own_environments.md":
        for task in (names["Plane"], names["task"]):
            assert "success" in str(hrac.check_task(task))


def _run_page(page):
    """Execute the blocks of a page one after the other. Returns what is defined in the end."""
    walk = np.cumsum(np.random.default_rng(0).normal(size=(40, 2)), axis=0)
    names = {"hrac": hrac, "trajectories": [walk], "here": walk[:1], "there": walk[5:6]}
    for block in _blocks(page.read_text(), "python"):
        exec(compile(block, f"{page.name}: {block[:40]!r}", "exec"), names)
    return names


def _run_notebook(path):
    """Execute the cells one after the other. Returns the titles of the axes, and what is defined in the end."""
    names = {}
    plt.switch_backend("agg")
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    titles = [axis.get_title() for number in plt.get_fignums() for axis in plt.figure(number).axes]
    plt.close("all")
    return titles, names


def test_every_page_with_python_is_run():
    assert {page for page in PAGES if _blocks(page.read_text(), "python")} == {ROOT / name for name in [*RUN, *CHECKED]}


OPTIONS = {
    "eval": EvalOptions,
    "picture": PictureOptions,
    "video": VideoOptions,
    "compare": CompareOptions,
    "report": ReportOptions,
    "curves": CurvesOptions,
    "figure": FigureOptions,
    "sweep": SweepOptions,
    "pairs": PairsOptions,
    "check": CheckOptions,
    "list": ListOptions,
    "bench": BenchOptions,
}
STANDS_FOR = {"TASK": "maze", "NAME": "hrac"}
"""What a reader may put in place of words of a command."""


def _commands(page):
    """The commands of a page as lists of words: those in blocks, and those in sentences that have arguments."""
    text = page.read_text().replace("\\\n", " ")
    lines = [
        *re.findall(r"^(hrac .*)$", "".join(_blocks(text, "sh")), re.MULTILINE),
        *re.findall(r"^    (hrac [a-z].*)$", text, re.MULTILINE),
        *re.findall(r"`(hrac [a-z]+ [^`]+)`", text),
    ]
    for command in (command for line in lines for command in re.split(r" {2,}(?=hrac )", line)):  # some lines have two
        yield [STANDS_FOR.get(word, word) for word in shlex.split(command, comments=True)[1:] if word != "--help"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_beside_every_picture_stands_what_makes_it(page):
    """A command, a notebook, or a link to the command, in the caption."""
    makes = re.compile(r"`(hrac|python) |^ {4}hrac |#curves\)|\.ipynb`", re.MULTILINE)
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines):
        if re.search(r"!\[.*\]\((docs/)?images/", line):
            assert makes.search("\n".join(lines[number + 1 : number + 9])), f"{page.name}, line {number + 1}"


def test_every_picture_is_shown_somewhere():
    text = "".join(page.read_text() for page in [*PAGES, ROOT / "benchmarks" / "README.md"])
    pictures = sorted((ROOT / "docs" / "images").iterdir())
    assert [path.name for path in pictures if f"images/{path.name}" not in text] == []


def test_the_options_of_all_commands_are_known():
    assert {"train", *OPTIONS} == set(cli.COMMANDS)


@pytest.mark.parametrize("page", COMMAND_PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_exist_with_their_options(page):
    for name, *rest in _commands(page):
        if name == "train" and "--resume" in rest:
            tyro.cli(ResumeOptions, args=rest)
        elif name == "train":
            method = rest[rest.index("--method") + 1] if "--method" in rest else "hrac"
            task = "point-maze" if ":" in rest[0] else rest[0]  # an environment that may not be installed
            tyro.cli(TrainOptions, args=rest, default=defaults(config_for(task, method)))
        else:
            tyro.cli(OPTIONS[name], args=rest)


def test_the_functions_that_the_algorithm_is_explained_by_are_there():
    text = (ROOT / "docs" / "algorithm.md").read_text()
    names = re.findall(r"`(hrac(?:\.\w+)+)`", text)
    assert len(names) > 12
    for name in names:
        module, _, attribute = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ImportError:
            try:
                found = importlib.import_module(module)
            except ImportError:
                outer, _, kind = module.rpartition(".")
                found = getattr(importlib.import_module(outer), kind)
            assert hasattr(found, attribute), name


def test_the_reference_has_every_public_name():
    text = (ROOT / "docs" / "api.md").read_text()
    assert [name for name in hrac.__all__ if f"::: hrac.{name}\n" not in text] == []
