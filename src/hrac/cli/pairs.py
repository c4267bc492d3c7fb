"""`hrac pairs`."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import tyro

from hrac.cli.checks import check_file
from hrac.config import ConfigError, seed_range


@dataclasses.dataclass(frozen=True)
class PairsOptions:
    """The paper's comparison of adjacency learning with direct pair sampling: a random agent in a room with a wall, a network
    from its adjacency table and one from pairs of its trajectories, the same number of gradient steps. Writes pairs.csv and
    pairs.png."""

    seeds: int = 10
    """Walks, each with a network per source of pairs."""
    first_seed: int = 0
    """The first seed, which is drawn; the others count on from it."""
    steps: int = 20_000
    """Environment steps of each random agent."""
    episode_steps: int = 200
    """Steps of an episode. Every episode starts at A."""
    gradient_steps: int = 10_000
    """Of each network."""
    k: int = 10
    """Pairs of cells within this many steps are adjacent."""
    oracle: tyro.conf.FlagCreatePairsOff[bool] = False
    """Train a third network from the true relation."""
    out: Path = Path("runs/pairs")
    """Folder for both files. It must not have them already."""


def pairs(arguments: Sequence[str]) -> int:
    """`hrac pairs`."""
    from hrac.experiments import pair_sampling
    from hrac.folder import files
    from hrac.view import figures
    from hrac.view import pair_sampling as view

    options = tyro.cli(PairsOptions, args=arguments, prog="hrac pairs")
    view.manifold()  # before the work, not after it
    numbers, picture = options.out / "pairs.csv", options.out / "pairs.png"
    for path in (numbers, picture):
        check_file(path)
        if path.exists():
            raise ConfigError(f"{path} is there already: name another folder with --out")
    result = pair_sampling.run(
        seed_range(options.seeds, options.first_seed),
        sources=(*pair_sampling.BOTH, "oracle") if options.oracle else pair_sampling.BOTH,
        steps=options.steps,
        episode_steps=options.episode_steps,
        gradient_steps=options.gradient_steps,
        k=options.k,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    files.write_atomic(numbers, result.csv().encode())
    print(result.table().text())
    print(f"written: {numbers}")
    figures.save(view.draw(result), picture)
    print(f"drawn: {picture}")
    return 0
