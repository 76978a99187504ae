"""Tables: as text for the terminal, as Markdown, and as HTML for notebooks."""

import html
from collections.abc import Sequence
from typing import TypeAlias

__all__ = ["Report", "Row", "aligned", "markdown_table", "text_cells"]

Cells: TypeAlias = Sequence[Sequence[str]]
Row: TypeAlias = tuple[list[str], list[tuple[float, bool, bool]]]  # names, then cells: a value, if best, if different


class Report:
    """What prints. A notebook shows its table, between what stands before and after it; or its text, if it has none."""

    def _cells(self) -> Cells:
        """The table, its first row the names of the columns."""
        return []

    def _before(self) -> Sequence[str]:
        return []

    def _after(self) -> Sequence[str]:
        return []

    def _repr_html_(self) -> str:
        cells = self._cells()
        if not cells:
            return f"<pre>{html.escape(str(self))}</pre>"
        marks = ["th", *["td"] * (len(cells) - 1)]
        rows = [
            "".join(
                f'<{mark} style="text-align: {"right" if column else "left"}">{html.escape(cell.strip())}</{mark}>'
                for column, cell in enumerate(row)
            )
            for mark, row in zip(marks, cells, strict=True)
        ]
        table = "".join(f"<tr>{row}</tr>" for row in rows)
        before, after = ("".join(f"<div>{html.escape(line)}</div>" for line in lines) for lines in (self._before(), self._after()))  # fmt: skip
        return f"{before}<table>{table}</table>{after}"

    def __str__(self) -> str:
        return "\n".join([*self._before(), *aligned(self._cells()), *self._after()])

    def __repr__(self) -> str:
        return str(self)


def aligned(cells: Cells) -> list[str]:
    """Lines of a table: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def text_cells(names: list[str], measures: Sequence[str], rows: Sequence[Row]) -> list[list[str]]:
    """* the best of a column, † significantly different."""
    cells = [[*names, *(f"{measure}  " for measure in measures)]]
    for own, values in rows:
        cells.append(
            [*own, *(f"{x:.4f}{'*' if best else ' '}{'†' if differs else ' '}" for x, best, differs in values)]
        )
    return cells


def markdown_table(names: list[str], measures: Sequence[str], rows: Sequence[Row], legend: str) -> str:
    """The best of a column in bold, † significantly different."""
    cells = [[*names, *measures], ["---", *("---:" for _ in [*names[1:], *measures])]]
    for own, values in rows:
        marked = (f"**{x:.4f}**" if best else f"{x:.4f}" for x, best, _ in values)
        cells.append([*own, *(x + "†" * differs for x, (_, _, differs) in zip(marked, values, strict=True))])
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
    return "\n".join([*lines, "", legend])
