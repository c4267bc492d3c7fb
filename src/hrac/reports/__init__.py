"""`hrac report`: one HTML file about runs, which opens from disk without a network."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hrac.config import ConfigError
from hrac.errors import HracError
from hrac.folder import files
from hrac.reports import data, page, reading
from hrac.reports.episodes import play
from hrac.reports.reading import Run

MOST_POLICIES = 5
"""Policies in a page, unless there are more runs: then one of each."""
MOST_EPISODES = 20


def report(
    runs: str | Path | Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    labels: Sequence[str] = (),
    episodes: int = 2,
    best: bool = False,
) -> Path:
    """Write a report of run folders and policy files, and return its path.

    It shows what was run, learning curves, subgoals, adjacency, failures, the table of `compare`, where the time went, and
    `episodes` evaluation episodes of each policy, to play: of run folders the newest, or with `best` those of the best
    evaluations. What is damaged or missing in a folder is said; the rest is shown.
    Runs of one task and method are shown together, or those of one label.
    """
    sources = [runs] if isinstance(runs, str | Path) else list(runs)
    if not sources:
        raise ConfigError("name at least one run folder or policy file")
    if labels and len(labels) != len(sources):
        raise ConfigError(f"labels: {len(sources)} are needed, one per run, got {len(labels)}")
    if not 0 <= episodes <= MOST_EPISODES:
        raise ConfigError(f"episodes must be from 0 to {MOST_EPISODES}, got {episodes}")
    path = Path(out)
    if path.suffix not in (".html", ".htm"):
        raise ConfigError(f"out must end in .html, got {str(path)!r}")
    files.refuse_link(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    found = [reading.read(source) for source in sources]
    played, notes = _play(found, episodes, best)
    files.write_atomic(path, page.page(data.collect(found, played, notes, labels)).encode())
    return path


def _play(runs: Sequence[Run], episodes: int, best: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Episodes of the policies of all runs, each with the number of its run; and why others have none."""
    played: list[dict[str, Any]] = []
    notes: list[str] = []
    each = max(MOST_POLICIES // max(sum(run.has_policies for run in runs), 1), 1)
    for number, run in enumerate(runs if episodes else ()):
        loaded, problems = reading.policies(run, each, best)
        notes += problems
        for policy in loaded:
            try:
                played.append({"run": number} | play(policy, episodes))
            except Exception as error:  # an environment of one's own can fail in any way
                kind = "" if isinstance(error, HracError) else f"{type(error).__name__}: "
                notes.append(f"{run.place}, seed {policy.seed}: no episode could be played: {kind}{error}")
                break  # the other seeds have the same task
    return played, notes
