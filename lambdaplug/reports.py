"""Reports as text: what every one prints, in a terminal and in a notebook."""

from collections.abc import Sequence
from typing import TypeAlias

__all__ = ["Report", "aligned", "markdown_table"]

Cells: TypeAlias = Sequence[Sequence[str]]


class Report:
    """What prints: lines, then a table whose first row has the names of the columns."""

    def _before(self) -> Sequence[str]:
        return []

    def _cells(self) -> Cells:
        return []

    def __str__(self) -> str:
        return "\n".join([*self._before(), *aligned(self._cells())])

    def __repr__(self) -> str:
        return str(self)


def aligned(cells: Cells) -> list[str]:
    """Lines of a table: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in cells]


def markdown_table(cells: Cells) -> list[str]:
    """Lines of a table in Markdown."""
    head, *rows = [[cell.replace("|", "\\|") for cell in row] for row in cells]
    return ["| " + " | ".join(row) + " |" for row in [head, ["---", *["---:"] * (len(head) - 1)], *rows]]
