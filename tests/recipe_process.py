"""Recipes as programs of their own, without each importing the same large packages again.

A server that has imported them, and done nothing else, is forked for each recipe: what a recipe does to its process, no other
one sees, and the two seconds of importing are spent once.
"""

import multiprocessing
import os
import runpy
import sys
from pathlib import Path

IMPORTED = ["lambdaplug", "lightgbm", "xgboost", "matplotlib.pyplot", "pandas", "scipy.stats", "tqdm"]


def main(path, arguments, out, error):
    """In the new process: what ``python path arguments`` does."""
    for number, file in ((1, out), (2, error)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    root = Path(__file__).parent.parent
    os.environ["PYTHONPATH"] = str(root)  # for processes that the recipe starts
    sys.path[:] = [str(Path(path).parent), str(root), *(one for one in sys.path if one != str(root / "tests"))]
    sys.argv = [str(path), *arguments]
    runpy.run_path(str(path), run_name="__main__")


def run(path, *arguments, where):
    """(exit code, standard output, standard error) of a recipe."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)  # of the server, which the first call starts
    out, error = where / "out.txt", where / "error.txt"
    process = context.Process(target=main, args=(path, arguments, str(out), str(error)))
    process.start()
    process.join()
    return process.exitcode, out.read_text("utf-8"), error.read_text("utf-8")
