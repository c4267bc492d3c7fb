"""`hrac sweep`."""

import dataclasses
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import tyro

Texts = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class SweepOptions:
    """Train an experiment by name, or all combinations of tasks, methods and settings. Finished cells are skipped, others
    go on from their checkpoints: to continue a sweep, run it again. Without a name, the experiments are listed."""

    name: tyro.conf.Positional[str | None] = None
    """An experiment from `hrac list`, or a new name together with --tasks."""
    tasks: Texts = ()
    """Names from `hrac list`. Of an experiment, only these of its tasks."""
    methods: Texts = ()
    """Names from `hrac list` (default: hrac). Of an experiment, only these of its methods."""
    set: tyro.conf.UseAppendAction[tuple[Texts, ...]] = ()
    """Settings of all cells (FIELD=VALUE), or to vary (FIELD=VALUE,VALUE): manager.eta=1,5 manager.hidden=[64,64],[300,300]."""
    seeds: int | None = None
    """Runs of each cell, trained together (default: the experiment's, or 5)."""
    first_seed: int = 0
    """Seed of the first run; the others count on from it."""
    steps: int | None = None
    """Environment steps of each run; short for --set training.total_env_steps=STEPS."""
    out: str | None = None
    """Folder for the run folders of all cells (default: runs/sweeps/NAME)."""
    jobs: int = 1
    """Cells trained at once, each in a process of its own."""
    minutes: float | None = None
    """Stop all cells with checkpoints and exit code 0 before this many minutes are over."""
    engine: Literal["local", "ray"] = "local"
    """Where cells are trained: on this machine, or on a Ray cluster (pip install 'hrac[ray]')."""
    address: str | None = None
    """Ray: address of the cluster (default: that of RAY_ADDRESS, the last one started on this machine, or a new one)."""
    num_cpus: float = 1.0
    """Ray: CPUs of each cell."""
    num_gpus: float = 0.0
    """Ray: GPUs of each cell; 0.5 puts two cells on one."""
    dry_run: tyro.conf.FlagCreatePairsOff[bool] = False
    """List the cells and how far they are, and train nothing."""


def sweep(arguments: Sequence[str]) -> int:
    """`hrac sweep`."""
    from hrac.experiments.sweep import EXPERIMENTS, parse_vary
    from hrac.sweeps import run

    options = tyro.cli(SweepOptions, args=arguments, prog="hrac sweep")
    if not arguments:
        for name, experiment in EXPERIMENTS.items():
            print(f"{name:<16} {experiment.summary}")
        return 0
    cells = run.plan(
        options.name,
        tasks=options.tasks,
        methods=options.methods,
        vary=parse_vary([text for texts in options.set for text in texts]),
        seeds=options.seeds,
        first_seed=options.first_seed,
        steps=options.steps,
        out=options.out,
    )
    if options.dry_run:
        return _list(cells)
    chosen = (options.jobs, options.minutes, options.engine, options.address, options.num_cpus, options.num_gpus)
    outcomes, interrupted = run.run(cells, *chosen)
    return _report(outcomes, interrupted, shlex.join(["hrac", "sweep", *arguments]))


def _list(cells: Sequence[Any]) -> int:
    from hrac.sweeps import board, status

    for cell in cells:
        seeds = f"{len(cell.config.seeds)} seed{'s' if len(cell.config.seeds) > 1 else ''}"
        print(f"{board.line(cell, status.read(cell))} ({seeds} of {cell.config.training.total_env_steps:,} steps)")
    print(f"{len(cells)} cells in {cells[0].folder.parent}")
    return 0


def _report(outcomes: Sequence[Any], interrupted: bool, command: str) -> int:
    """Print what has become of the cells. Returns the exit code."""
    from hrac.sweeps.status import State
    from hrac.sweeps.work import log_of

    counts = Counter(status.state for _, status in outcomes)
    print(
        f"{', '.join(f'{count} {state}' for state, count in counts.items())}; results are in {outcomes[0].cell.folder.parent}"
    )
    for cell, status in outcomes:
        if status.state == State.FAILED:
            print(f"error: {cell.name}: {status.error} (see {log_of(cell.folder)})", file=sys.stderr)
    if counts[State.RUNNING]:
        print("cells that are still running are trained by other processes")
    if set(counts) - {State.FINISHED}:
        print(f"go on with: {command}")
    return 1 if counts[State.FAILED] else 130 if interrupted and set(counts) - {State.FINISHED, State.RUNNING} else 0
