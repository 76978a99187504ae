"""One style for all pictures of the package and its recipes.

Colours that colour-blind readers tell apart (M. Okabe, K. Ito (2008), "Color universal design"), a layout in which nothing
overlaps or is cut, legends beside the data, and letters that are readable at 800 pixels.
"""

import contextlib
import textwrap
from collections.abc import Iterator
from typing import Any

from .errors import LambdaplugError

__all__ = ["COLOURS", "STYLE", "drawing", "integers", "legend", "pyplot", "shortened", "use"]

BLUE, ORANGE, GREEN, PINK, *_ = COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLE: dict[str, Any] = {
    "figure.figsize": (8.0, 4.5),
    "figure.dpi": 100,
    "figure.constrained_layout.use": True,
    "axes.prop_cycle": f"cycler('color', {list(COLOURS)})",
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "legend.frameon": False,
    "legend.fontsize": "small",
    "svg.fonttype": "none",  # letters, not their outlines: smaller files
    "svg.hashsalt": "lambdaplug",  # the same picture is the same file
}


def pyplot() -> Any:
    """Matplotlib's; an error says where it is missing."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise LambdaplugError("a plot needs Matplotlib: python -m pip install matplotlib.") from None
    return plt


@contextlib.contextmanager
def drawing(ax: Any = None, mosaic: str = "A", **options: Any) -> Iterator[Any]:
    """Axes to draw on in the style: the caller's, or those of a new figure, laid out by ``plt.subplot_mosaic``."""
    plt = pyplot()
    with plt.rc_context(STYLE):
        if ax is None:
            made = list(plt.subplot_mosaic(mosaic, **options)[1].values())
            ax = made if len(made) > 1 else made[0]
        yield ax


def use() -> Any:
    """For scripts: every further picture has the style and goes to a file. Returns Matplotlib's pyplot."""
    plt = pyplot()
    plt.switch_backend("Agg")
    plt.rcParams.update(STYLE)
    return plt


def integers(axis: Any) -> None:
    """Ticks of an axis that counts."""
    axis.get_major_locator().set_params(integer=True)


def legend(ax: Any, **options: Any) -> None:
    """Beside the data, if there is anything to name."""
    if ax.get_legend_handles_labels()[0]:
        ax.legend(**{"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), **options})


def shortened(name: object, width: int = 60) -> str:
    """What it prints as, on one line of at most so many letters."""
    return textwrap.shorten(repr(name), width, placeholder=" ...")
