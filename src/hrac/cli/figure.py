"""`hrac figure`."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from hrac.config import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class FigureOptions:
    """Make a figure of the paper again, as PDF, SVG and PNG for a page of two columns. Without a name they are listed."""

    name: tyro.conf.Positional[str | None] = None
    """Which one: `hrac figure` lists them."""
    runs: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Run folders of your own (default: the runs that come with the repository; for subgoals the policies of the package)."""
    results: Path = Path("benchmarks/results")
    """Where the repository's runs are."""
    out: Path = Path("figures")
    """Folder for the three files."""


def figure(arguments: Sequence[str]) -> int:
    """`hrac figure`."""
    from hrac.view import figures

    options = tyro.cli(FigureOptions, args=arguments, prog="hrac figure")
    summaries = {name: what.summary for name, what in figures.FIGURES.items()}
    summaries |= {name: summary for name, (summary, _) in OTHERS.items()}
    if options.name is None:
        for name, summary in summaries.items():
            print(f"{name:<16} {summary}")
        return 0
    if options.name not in summaries:
        raise ConfigError(f"there is no figure {options.name!r}. Figures are: {', '.join(summaries)}")
    if options.name in OTHERS:
        drawn = OTHERS[options.name][1](options)
    else:
        drawn = figures.of_the_paper(options.name, options.runs, options.results)
    for path in figures.save_for_a_page(drawn, options.out, options.name):
        print(f"drawn: {path}")
    return 0


def _subgoals(options: FigureOptions) -> "Figure":
    import matplotlib

    from hrac import api
    from hrac.experiments.published import LEVELS
    from hrac.view import figures, strips

    of_the_paper = [api.pretrained(task) for task, _ in LEVELS if task in api.pretrained_names()]
    policies = [api.load(run) for run in options.runs or of_the_paper]
    with matplotlib.rc_context(figures.PAGE):
        return strips.draw(policies, figures.PAGE_WIDTH)


def _pair_sampling(options: FigureOptions) -> "Figure":
    import matplotlib

    from hrac.experiments import pair_sampling
    from hrac.view import figures
    from hrac.view import pair_sampling as view

    if options.runs:
        raise ConfigError("pair-sampling: it is made from walks of a random agent, not from run folders (hrac pairs)")
    view.manifold()  # before the work, not after it
    result = pair_sampling.run((0,), say=print)
    with matplotlib.rc_context(figures.PAGE):
        return view.draw(result, figures.PAGE_WIDTH)


OTHERS: dict[str, tuple[str, Callable[[FigureOptions], "Figure"]]] = {
    "subgoals": ("Figure 9: episodes with their subgoals and adjacency heatmaps", _subgoals),
    "pair-sampling": ("adjacency learning against direct pair sampling, from walks that are made again", _pair_sampling),
}
"""Those that are no learning curves."""
