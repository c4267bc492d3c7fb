"""Cells that train in seconds, and a face that acts on what it is shown."""

import os
import re
import signal

import hrac
from hrac.sweeps import run, work

TINY = {
    "k": 4,
    "env__layout": "#####\n#A..#\n###.#\n#G..#\n#####",
    "env__time_limit": 50,
    "manager__hidden": (16,),
    "manager__buffer_windows": 200,
    "manager__batch_size": 16,
    "controller__hidden": (16,),
    "adjacency__hidden": (16,),
    "adjacency__pretrain_env_steps": 400,
    "adjacency__pretrain_epochs": 2,
    "training__round_env_steps": 40,
    "training__eval_every_env_steps": 200,
    "training__eval_episodes": 5,
    "training__checkpoint_every_env_steps": 200,
}


def plan(out, steps=1000, etas=(5.0, 20.0), **changes):
    """The cells of a sweep over eta on a small maze."""
    return run.plan("tiny", tasks=["maze"], vary={"manager.eta": etas}, seeds=2, steps=steps, out=out, **TINY | changes)


class Quiet:
    """A face that shows nothing, and calls a function with what it should show."""

    def __init__(self, seen=lambda outcomes: None):
        self._seen = seen
        self.said = []

    def say(self, text):
        self.said.append(text)

    def show(self, outcomes):
        self._seen(outcomes)

    def close(self):
        pass


class Killer(Quiet):
    """Kills the process of a cell, once, when it has passed a step."""

    def __init__(self, name, step):
        super().__init__(self._look)
        self._name, self._step = name, step
        self.killed_at = None

    def _look(self, outcomes):
        for cell, status in outcomes:
            if cell.name == self._name and self.killed_at is None and status.numbers.step >= self._step:
                os.kill(int(processes(cell)[-1]), signal.SIGKILL)
                self.killed_at = status.numbers.step


def log(cell):
    return work.log_of(cell.folder).read_text()


def processes(cell):
    """The ids of the processes that trained a cell, in order."""
    return re.findall(r"^process (\d+) on \S+: (?:starts|goes on)", log(cell), re.MULTILINE)


def unbroken(cell, folder):
    """The metrics of the same training in this process, without a break."""
    hrac.run(cell.config, folder, hrac.Silent())
    return (folder / "metrics.csv").read_bytes()
