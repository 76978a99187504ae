"""What people read: docstrings, words, pictures, notebooks."""

import ast
import inspect
import json
import re
from pathlib import Path

import lightgbm as lgb
import matplotlib
import matplotlib.image
import matplotlib.pyplot
import numpy as np
import pytest

import lambdaplug as lp
from lambdaplug.hosts.front import Front
from lambdaplug.measures import Measure
from lambdaplug.objectives import Objective
from lambdaplug.objectives.unbiased import PositionBias

ROOT = Path(__file__).parent.parent


def public():
    """(name, class or function) of everything that has a public name."""
    rooms = {"lp": lp, "lp.analysis": lp.analysis, "lp.constructions": lp.constructions}
    rooms |= {"lp.data": lp.data, "lp.presets": lp.presets}
    for room, module in rooms.items():
        for name in (one for one in dir(module) if module is lp or one in getattr(module, "__all__", [one])):
            if name.startswith("_"):
                continue
            thing = getattr(module, name)
            if (inspect.isclass(thing) or inspect.isfunction(thing)) and thing.__module__.startswith("lambdaplug"):
                yield f"{room}.{name}", thing


def kinds(kind):
    """All its subclasses."""
    return {one for sub in kind.__subclasses__() for one in (sub, *kinds(sub))}


def sections(thing):
    """The docstring in numpydoc's sections; the part before them under an empty name."""
    parts = re.split(r"^([A-Z]\w+)\n-{3,}\n", inspect.getdoc(thing) or "", flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def parameters(thing):
    """Those of its own; a host's class documents the others."""
    if isinstance(thing, type) and issubclass(thing, Exception):
        return set()
    foreign = (
        [base for base in inspect.getmro(thing)[1:-1] if "lambdaplug" not in base.__module__]
        if inspect.isclass(thing)
        else []
    )
    hosts = {name for base in foreign for name in inspect.signature(base.__init__).parameters} - {"objective", "args"}
    return set(inspect.signature(thing).parameters) - hosts - {"self", "args", "kwargs"}


def faults(thing):
    found = sections(thing)
    said = found.get("Parameters", "") + found.get("Attributes", "")
    heads = re.findall(r"^\S.*$", said, re.M)
    named = {name.strip(" *") for head in heads for name in head.partition(" : ")[0].split(",")}
    if not found[""].strip():
        yield "no summary"
    yield from (f"no parameter {name}" for name in sorted(parameters(thing) - named))
    yield from (f"not numpydoc: {head}" for head in heads if not re.match(r"^\*{0,2}\w+(, \*{0,2}\w+)*( : \S|$)", head))
    if inspect.isfunction(thing) and inspect.signature(thing).return_annotation not in (None, "None"):
        yield from [] if "Returns" in found else ["no Returns"]
    if ">>>" not in found.get("Examples", ""):
        yield "no example"
    if re.search(r"\b(19|20)\d\d\b", found[""]) and "References" not in found:
        yield "no References"
    if inspect.isclass(thing) and issubclass(thing, (Measure, Objective)):
        yield from [] if re.search(r"\S = \S", found[""]) else ["no formula"]
    if "numpy._typing" in str(inspect.signature(thing) if parameters(thing) else ""):
        yield "a signature that nobody can read"


def test_every_public_name_is_documented_with_parameters_and_an_example():
    # tests/test_house.py runs the examples.
    assert [f"{name}: {fault}" for name, thing in public() for fault in faults(thing)] == []
    measures = {thing for _, thing in public() if inspect.isclass(thing) and issubclass(thing, Measure)}
    # A measure is one class in one family; what is in that file's __all__ is public.
    assert measures == {
        kind
        for kind in kinds(Measure)
        if (kind.name or kind is lp.Lexicographic) and kind.__module__.startswith("lambdaplug.measures")
    }
    assert all("References" in sections(measure) for measure in measures)
    assert len(str(inspect.signature(lp.compare))) < 600


# Plain international English: "one value per row", "an integer >= 1".
NUMBERS = (
    r"\d+|one|two|three|four|five|ten|once|twice|times|values?|numbers?|weights?|labels?|scores?|bytes?|ms|seconds?"
)
NUMBERS += r"|evaluations?|entry|entries|pairs|trees|JSON|revenue|O\([^)]*\)"
UNITS = "row|query|document|thread|round|pair|tree|fold|worker|core|iteration|position|feature|session|list"
ODD = rf"(\b({NUMBERS})|\)) a ({UNITS})\b|whole numbers?\b|\bfrom \d on\b"


def test_the_english_is_plain():
    assert len(re.findall(ODD, "one value a row) whole number from 1 on, O(n) a query once a round")) == 5
    kinds = ("lambdaplug/**/*.py", "recipes/**/*.py", "recipes/**/*.md", "recipes/**/*.ipynb", "README.md")
    for path in (path for kind in kinds for path in ROOT.glob(kind)):
        text = " ".join(path.read_text(encoding="utf-8").split())  # a form may go over two lines
        hits = [text[max(m.start() - 30, 0) : m.end() + 20] for m in re.finditer(ODD, text)]
        assert hits == [], path


# --- pictures ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pictures():
    """What has a ``plot``, small, by class and method."""
    matplotlib.use("Agg")
    data, test = lp.data.cubic(queries=40, documents=8, features=5, noise=0.3).split(0.5, 0.5)
    params = {"objective": lp.LambdaRank("ndcg"), "verbose": -1, "num_threads": 1}
    model = lgb.train(params, lgb.Dataset(data.X, data.labels, group=data.group), 6)
    report = lp.analysis.local_optimality(model, *data, "ndcg", directions=30, progress=False)
    cell = lp.compare("mrr", [1, 0, 0, 1], [1, 2, 1, 2], [2, 1, 1, 2], [2, 2])
    rng = np.random.default_rng(0)
    values = np.array([[0.3, 0.7], [0.5, 0.6], [0.4, 0.55], [0.6, 0.3]])[..., None] + rng.normal(0, 0.05, (4, 2, 30))
    objectives = lp.LambdaRank("ndcg"), lp.LambdaRank("map")
    systems = {"first column": data.X[:, 1], "model": model.predict(data.X)}
    return {
        "Calibration.plot": lp.analysis.calibration(data.labels > 1, model.predict(data.X)).plot,
        "Curves.plot": lp.analysis.top_labels(labels=data.labels, scores=model.predict(data.X), group=data.group).plot,
        "Difference.plot": lp.analysis.explain_difference(
            *objectives, labels=test.labels, scores=model.predict(test.X), group=test.group
        ).plot,
        "Comparison.plot": cell.plot,
        "Comparisons.plot": lp.compare("mrr", data.labels, data.X[:, 0], systems, data.group).plot,
        "Leaderboard.plot": lp.leaderboard(systems, ["mrr", "map"], data.labels, data.group).plot,
        "Front.plot": Front(("ndcg", "map"), ("a", "b", "c", "d"), (None,) * 4, values).plot,
        "Optimality.plot": report.plot,
        "PositionBias.plot": lambda: PositionBias("pairwise", [[1, 0.5, 0.3], [1, 0.8, 0.7]]).plot(truth=[1, 0.6, 0.3]),
        "PropensityCurve.plot": lp.analysis.PropensityCurve([1, 0.5], [1, 0.4], [1, 0.6], 0.95).plot,
    }


def methods():
    """Every method of the package that draws."""
    for path in sorted((ROOT / "lambdaplug").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                drawing = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name.startswith("plot")]
                yield from (f"{node.name}.{one.name}" for one in drawing)


@pytest.mark.parametrize("name", sorted(methods()))
def test_pictures_say_what_they_show(name, pictures, tmp_path):
    before = dict(matplotlib.rcParams)
    drawn = np.atleast_1d(pictures[name]())
    assert dict(matplotlib.rcParams) == before
    figure = drawn[0].figure
    figure.savefig(tmp_path / "picture.png")
    image = matplotlib.image.imread(tmp_path / "picture.png")[..., :3]
    assert image.shape[1] >= 800
    assert np.mean(image < 0.9) > 0.01  # something is drawn
    for ax in drawn:
        assert ax.get_title(loc="left")
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        if ax.get_legend() is not None:
            assert not ax.get_legend().get_window_extent().overlaps(ax.get_window_extent())
    drawn_in, whole = figure.get_tightbbox(), figure.bbox_inches
    assert whole.contains(*drawn_in.min)  # no letter is cut
    assert whole.contains(*drawn_in.max)
    matplotlib.pyplot.close(figure)


def test_the_difference_names_what_it_compares(pictures):
    axes = pictures["Difference.plot"]()
    named = axes[0].figure.get_suptitle()
    assert named == "a = LambdaRank('ndcg')\nb = LambdaRank('map')"
    titles = " | ".join(ax.get_title(loc="left") for ax in axes)
    assert re.fullmatch(r"All documents:\ncorrelation .* flips .* \| Query \d+, which .*", titles, re.DOTALL)
    matplotlib.pyplot.close(axes[0].figure)


def test_the_bars_of_speed_are_those_of_the_table():
    page = (ROOT / "recipes/results/performance.md").read_text(encoding="utf-8")
    measured = {f"{float(x):.3g}" for x in re.findall(r"[\d.]+(?= / | ms)", page)}
    shown = re.findall(r"> ?([\d.]+) ms<", (ROOT / "recipes/speed.svg").read_text(encoding="utf-8"))
    assert len(shown) == 10
    assert set(shown) <= measured


NOTEBOOKS = sorted((ROOT / "recipes/notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_are_small(path, capsys):
    assert path.stat().st_size < 80_000
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    matplotlib.use("Agg")
    space = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), space)
    matplotlib.pyplot.close("all")
    kept = [text for cell in cells for one in cell.get("outputs", []) for text in one.get("text", [])]
    assert len(capsys.readouterr().out.splitlines()) == len("".join(kept).splitlines()) > 1


def test_there_are_three_notebooks_and_the_recipes_page_names_them():
    page = (ROOT / "recipes/README.md").read_text(encoding="utf-8")
    assert [path.stem for path in NOTEBOOKS] == ["clicks", "migrate", "trade_off"]
    assert all(f"](notebooks/{path.name})" in page for path in NOTEBOOKS)
