"""`hrac train` with one number changed: `python extreme.py RUN NAME VALUE FOLDER`, the value as JSON."""

import json
import sys

import small

from hrac import cli

RUN, NAME, VALUE, FOLDER = sys.argv[1:]
task, settings = small.RUNS[RUN]
options = ["--steps", str(small.STEPS), "--out", FOLDER]
for name, value in (settings | {NAME: json.loads(VALUE)}).items():
    option = f"--{name.replace('__', '.').replace('_', '-')}"
    options += [option, *map(str, value if isinstance(value, tuple | list) else [value])]
sys.argv = ["hrac", "train", task, *options]
cli.main()
