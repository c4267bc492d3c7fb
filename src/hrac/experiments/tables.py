"""Tables as text and as Markdown."""

from collections.abc import Sequence
from typing import NamedTuple


class Table(NamedTuple):
    """Words in rows and columns; the first `names` columns are aligned to the left, the others to the right."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int

    def text(self) -> str:
        """Columns padded by spaces."""
        lines = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        sides = ["<" if i < self.names else ">" for i in range(len(widths))]
        padded = ([f"{word:{side}{width}}" for word, side, width in zip(line, sides, widths, strict=True)] for line in lines)
        return "\n".join([self.title, "", *("  ".join(words).rstrip() for words in padded)])

    def markdown(self) -> str:
        """With bars."""
        ruler = ["---" if i < self.names else "---:" for i in range(len(self.header))]
        lines = ([_escaped(word) for word in line] for line in (self.header, *self.rows))
        header, *rows = (f"| {' | '.join(line)} |" for line in lines)
        return "\n".join([self.title, "", header, f"|{'|'.join(ruler)}|", *rows])


def _escaped(word: str) -> str:
    return word.replace("|", "\\|")
