"""The command line: the only room that knows it. Each command is a function from arguments to an exit code."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

import hrac
from hrac import config as configs
from hrac.cli.figure import figure
from hrac.cli.pairs import pairs
from hrac.cli.play import evaluate, picture, video
from hrac.cli.report import report
from hrac.cli.results import compare, curves
from hrac.cli.sweep import sweep
from hrac.cli.tasks import bench, check, list_
from hrac.cli.training import train
from hrac.errors import HracError

USAGE = """usage: hrac COMMAND [options]

  train TASK    train a method on a task        hrac train maze
  eval RUN      play episodes with a policy     hrac eval runs/NAME --episodes 100
  picture RUN   draw an episode with its subgoals and learned adjacency
  video RUN     film an episode, or play it in the terminal (--text)
  compare RUN.. final scores with intervals over seeds, pooled by task and method
  report RUN... one HTML page: curves, subgoals, failures, and episodes to play
  curves RUN... draw learning curves, one per folder
  figure NAME   make a figure of the paper again: PDF, SVG and PNG
  sweep NAME    train an experiment by name, or tasks x methods x settings
  pairs         compare adjacency learning with direct pair sampling, as the paper does
  check TASK    look at a task, for example an environment of your own: gym:ID or module:name
  list          the tasks, the methods, the experiments
  bench TASK    measure the speed of training

`hrac COMMAND --help` explains a command's options; `hrac --version` names the version.
`source <(hrac --tyro-print-completion bash)` makes the tab key complete commands, tasks and options; likewise zsh."""

COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "train": train,
    "eval": evaluate,
    "picture": picture,
    "video": video,
    "compare": compare,
    "report": report,
    "curves": curves,
    "figure": figure,
    "sweep": sweep,
    "pairs": pairs,
    "check": check,
    "list": list_,
    "bench": bench,
}

COMPLETION = "--tyro-print-completion"
COMPILING = ("train", "eval", "picture", "video", "report", "figure", "pairs", "bench")


def main() -> None:
    """Entry point of the `hrac` program."""
    code: Any = 141
    try:
        try:
            code = _main(sys.argv[1:])
        except SystemExit as ended:
            code = ended.code
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # one more Ctrl-C ends the process silently
    sys.exit(code)


def _main(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0 if arguments else 2
    name, rest = arguments[0], arguments[1:]
    if name == "--version":
        print(f"hrac {hrac.__version__}")
        return 0
    if name not in COMMANDS and name != COMPLETION:
        print(f"error: there is no command {name!r}. Commands are: {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    try:
        if name in COMPILING and not {"-h", "--help"} & set(rest):
            from hrac.compiled import keep_compiled

            keep_compiled()
        if name == COMPLETION:
            from hrac.cli.completion import completion

            return completion(arguments)
        return COMMANDS[name](rest)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (ValidationError, HracError, OSError) as error:  # anything else is a bug, so its traceback is shown
        if isinstance(error, BrokenPipeError):
            raise
        print(f"error: {configs.explain(error) if isinstance(error, ValidationError) else error}", file=sys.stderr)
        return 2
