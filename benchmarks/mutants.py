"""Mutants of the learning code, a seeded sample: does a test notice each?  python benchmarks/mutants.py LOG [how many]

Needs `pip install cosmic-ray`, whose operators make the mutants. Only a copy of sources and tests is changed. A mutant survives
if its room's tests pass, and then three tiny trainings. A log that exists is continued: what was killed is not run again, so
after a new test only the survivors are.
"""

import ast
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = {"agents": "*.py", "adjacency": "*.py", "training": "[lr]e*.py"}  # of training: learn.py and replay.py
FILES = [path for room in ROOMS for path in sorted((ROOT / "src/hrac" / room).glob(ROOMS[room])) if path.stat().st_size]
LEAST_PER_FILE, SECONDS = 8, 300
OTHERS = ("training/test_updates", "training/test_replay", "worlds/test_numbers", "worlds/test_first_subgoals")
GOLDEN = "tests/test_golden_runs.py::test_a_tiny_training_gives_the_numbers_it_gave"
LONGER = [f"{GOLDEN}[{name}]" for name in ("maze", "key-chest", "point-maze")]
# An operator becomes one of its own kind: `x << y` of floats would be an error that any test notices.
KINDS = ("Add Sub Mul Div FloorDiv Mod Pow", "RShift LShift BitOr BitAnd BitXor", "Eq NotEq Lt LtE Gt GtE", "Is IsNot")
KINDS += ("UAdd USub Invert Not Delete",)
LEFT_OUT = ("RemoveDecorator", "VariableReplacer", "VariableInserter")  # the last two draw numbers without a seed


def sensible(operator: str) -> bool:
    if operator.startswith(("ReplaceBinary", "ReplaceComparison", "ReplaceUnary")):
        return any(set(operator.split("_")[1:]) <= set(kind.split()) for kind in KINDS)
    return operator not in LEFT_OUT


def prose(tree: ast.Module) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Annotations, decorators, and types that are given a name: no behaviour."""
    nodes = [line.value for line in tree.body if isinstance(line, ast.Assign) and ast.unparse(line.value)[0].isupper()]
    for node in ast.walk(tree):
        nodes += [getattr(node, "annotation", None), getattr(node, "returns", None), *getattr(node, "decorator_list", [])]
    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in nodes if n is not None]


def mutants(path: Path) -> dict[tuple[int, int], list[tuple[str, str]]]:
    """By place: names of operators and the mutated text."""
    from cosmic_ray import ast as trees
    from cosmic_ray import mutating, plugins

    text, found = path.read_text(), {}
    plain, skipped, nodes = ast.parse(text), prose(ast.parse(text)), list(trees.ast_nodes(trees.get_ast(text)))
    for name in sorted(name for name in plugins.operator_names() if sensible(name.split("/")[1])):
        operator = plugins.get_operator(name)()
        places = [place for node in nodes for place in operator.mutation_positions(node)]
        for occurrence, (start, end) in enumerate(places):
            mutated = mutating.mutate_code(text, operator, occurrence)
            with contextlib.suppress(SyntaxError):  # it cannot even be imported
                same = ast.dump(ast.parse(mutated)) == ast.dump(plain)
                if not same and not any(first <= start and end <= last for first, last in skipped):
                    found.setdefault(start, []).append((f"{name.split('/')[1]} {occurrence}", mutated))
    return found


def sample(count: int, seed: int = 0) -> list[tuple[Path, str, str]]:
    """Places by chance, in each file in proportion to what it has but at least 8; at each place one mutant by chance."""
    chance, drawn = random.Random(seed), []
    by_file = {path: mutants(path) for path in FILES}
    places = sum(map(len, by_file.values()))
    for path, found in by_file.items():
        number = min(len(found), max(LEAST_PER_FILE, round(count * len(found) / places)))
        for place in sorted(chance.sample(sorted(found), number)):
            operator, mutated = chance.choice(found[place])
            drawn.append((path, f"{path.relative_to(ROOT / 'src/hrac')}:{place[0]}:{place[1]} {operator}", mutated))
    print(f"{len(drawn)} of {places} places", flush=True)
    return drawn


def tests_of(path: Path, longer: bool) -> list[str]:
    room = path.parent.name
    if longer:
        return LONGER
    near = [f"{room}/{test.stem}" for test in sorted((ROOT / "tests" / room).glob("*.py")) if room != "training"]
    near = sorted([*near, *OTHERS] if room != "adjacency" else near, key=lambda test: not test.endswith(f"test_{path.stem}"))
    return [f"tests/{test}.py" for test in near]


def killer(copy: Path, tests: list[str]) -> str | None:
    """The first test that fails."""
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(copy)}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=no", *tests]
    try:
        ended = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"{SECONDS} s"
    if ended.returncode in (3, 4, 5):
        raise RuntimeError(ended.stdout + ended.stderr)
    failed = (line[:150] for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR")))
    return next(failed, "crash") if ended.returncode else None


def main(log: Path, count: int = 130) -> None:
    results = dict(json.loads(line) for line in log.read_text().splitlines()) if log.exists() else {}
    drawn = sample(count)
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary)
        shutil.copy(ROOT / "pyproject.toml", copy)
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, copy / name)
        for longer, tests in ((False, "tests of the room"), (True, "tiny trainings")):
            for path, name, mutated in (each for each in drawn if results.get(each[1]) is None):
                place = copy / path.relative_to(ROOT)
                place.write_text(mutated)
                found = killer(copy, tests_of(path, longer))
                place.write_text(path.read_text())
                results[name] = found and f"{tests}: {found}"
                with log.open("a") as lines:
                    lines.write(json.dumps([name, results[name]]) + "\n")
                print(name, "|", results[name] or f"not by the {tests}", flush=True)
    table = Counter((name.split(":")[0], (results[name] or "survived").split(":")[0]) for _, name, _ in drawn)
    for (file, verdict), number in sorted(table.items()):
        print(f"{file:<26} {verdict:<18} {number:>4}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
