"""Lines of the package by room, all of them and those of code:  python benchmarks/lines.py [path of src/hrac]"""

import ast
import sys
from collections import Counter
from pathlib import Path


def code_lines(text: str) -> int:
    """Lines that are neither empty, nor a comment, nor part of a docstring."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), start=1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and number not in prose for number, line in lines)


def main(root: Path) -> None:
    every: Counter[str] = Counter()
    code: Counter[str] = Counter()
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        room = (
            "pictures of episodes"
            if place.match("view/*episode.py")
            else place.parts[0]
            if len(place.parts) > 1
            else "single files"
        )
        text = path.read_text()
        every[room] += len(text.splitlines())
        code[room] += code_lines(text)
    apart = ("envs", "pictures of episodes")
    for counts in (every, code):
        counts["all but envs and pictures"] = sum(count for room, count in counts.items() if room not in apart)
    for room in every:
        print(f"{room:<26} {every[room]:>6,} lines {code[room]:>6,} of code")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "src" / "hrac")
