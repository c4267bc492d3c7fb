"""Train on a map of your own for a minute or two: `python examples/own_layout.py [FOLDER]`."""

import sys

import hrac

LAYOUT = """\
###########
#A...#....#
#....#....#
#....#....#
#.........#
#....#....#
#....#...G#
###########
"""


def main(folder: str = "runs/own-layout") -> None:
    outcome = hrac.train(
        "maze",
        out=folder,
        steps=200_000,
        env__layout=LAYOUT,
        env__time_limit=100,
        adjacency__pretrain_env_steps=20_000,
        manager__buffer_windows=4_000,
        training__envs_per_run=5,
    )
    print(f"return {outcome.last['eval/return'].mean():.2f}; now try: hrac picture {outcome.folder}")


if __name__ == "__main__":
    main(*sys.argv[1:])
