"""What several recipes share, and no recipe itself: their command line, and data in train, validation and test parts."""

import argparse
import dataclasses
import os
from pathlib import Path

import numpy as np

import lambdaplug as lp
from lambdaplug import plotting

TEXT = "a LETOR / SVMLight file with query ids; default: generated data"


def arguments(about, plot, *, rounds, queries=None, data="a .npz file; default: generated data", quick=""):
    """The arguments that all of them take; ``about`` is the recipe's text, ``plot`` where its figures go."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help=data)
    if queries is not None:
        parser.add_argument("--queries", type=int, default=queries, help="of the generated data")
    parser.add_argument("--rounds", type=int, default=rounds, help="at most so many trees")
    parser.add_argument("--quick", action="store_true", help=quick or "less data and fewer trees")
    parser.add_argument("--plot", default=plot, help="where the figures go")
    return parser


def load(path):
    """Train, validation and test parts of a .npz file with the arrays X, y, qid and split (0, 1, 2).

    Of LETOR's five parts (an array ``part`` in place of ``split``), fold 1. Without validation, a fifth of the training.
    """
    file = np.load(path)
    split = file["split"] if "split" in file else np.array([0, 0, 0, 0, 1, 2])[file["part"]]
    parts = [rows_of(file, split == number) for number in range(3)]
    return parts if len(parts[1].labels) else [*parts[0].split(0.8, 0.2), parts[2]]


def rows_of(file, rows):
    return lp.data.RankingData(file["X"][rows], file["y"][rows], lp.data.sizes_of(file["qid"][rows]))


def beside(name):
    """A data set in the folder that LAMBDAPLUG_DATA names, or beside this project; None where there is none."""
    root = Path(os.environ.get("LAMBDAPLUG_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
    path = root / name / "data.npz"
    return path if path.exists() else None


def pairs_of(labels, group):
    """(better, worse) rows: the grades as all their pairs within queries, for lp.Preferences."""
    found = []
    for start, size in zip(np.cumsum(group) - group, group, strict=True):
        grades = labels[start : start + size]
        found.append(start + np.argwhere(grades[:, None] > grades))
    return np.concatenate(found)


def holm(p):
    """p-values adjusted for their number, by Holm's rule."""
    order = np.argsort(p)
    steps = np.maximum.accumulate(np.sort(p) * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def coarse(queries):
    """Few different values per feature, each on every worker: the bins are exact then, and the same everywhere."""
    data = lp.data.cubic(queries, 30, 20, noise=0.3)
    return dataclasses.replace(data, X=np.clip(np.round(data.X * 4) / 4, -2, 2) + np.float32(0))  # -0 becomes 0


def on_workers(about, plot):
    """(train part, test part, objective, options) of the recipes that train on several workers, beside one machine."""
    parser = arguments(about, plot, queries=1000, rounds=100, data=TEXT)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.quick:
        options.queries, options.rounds = 61, 10
    data = lp.data.load_letor(options.data) if options.data else coarse(options.queries)
    train, test = data.split(0.7, 0.3)
    # With a schedule: every worker knows the round.
    objective = lp.interpolate(lp.LambdaRank("ndcg@10"), lp.LambdaRank("map"), weight=lp.linear(0.0, 0.01))
    print(f"training {objective!r}, {options.rounds} trees on {len(train.group)} queries", flush=True)
    return train, test, objective, options


def panels(mosaic, height=3.4, **options):
    """(figure, its axes): 400 pixels of width for each letter of ``plt.subplot_mosaic``'s line."""
    rows = mosaic.split(";")
    figure, axes = plotting.use().subplot_mosaic(mosaic, figsize=(4 * len(rows[0]), height * len(rows)), **options)
    return figure, list(axes.values())


def legend_below(axis, columns=2):
    """Under a panel that is too narrow for a legend beside it."""
    plotting.legend(axis, bbox_to_anchor=(-0.05, -0.2), ncols=columns)


def small_picture(figure, path):
    """For a page: 64 colours, a third of the bytes."""
    from PIL import Image

    figure.savefig(path)
    Image.open(path).convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(path, optimize=True)


def values(measures, part, scores):
    """Each measure of each query, by the measure's name."""
    return lp.evaluate(measures, part.labels, scores, part.group, per_query=True)
