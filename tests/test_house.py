"""The house itself: layers, public names, documentation, the cache, recipes."""

import ast
import doctest
import importlib
import importlib.util
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import recipe_process

import lambdaplug as lp

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "lambdaplug"
MODULES = sorted(module.name for module in pkgutil.walk_packages([str(PACKAGE)], "lambdaplug."))

RECIPES = [path for path in sorted((ROOT / "recipes").rglob("*.py")) if path.stem not in ("common", "shared")]

# Each room may use the rooms before it.
FLOORS = [
    {"callers", "errors", "known", "reports", "values", "version"},
    {"checking", "plotting"},
    {"texts"},
    {"kernels"},
    {"rows"},
    {"columns", "grouping"},
    {"queries"},
    {"clicks"},
    {"measures", "costs", "data"},
    {"custom"},
    {"schedules"},
    {"training", "folds"},
    {"watch"},
    {"objectives"},
    {"evaluation"},
    {"comparison", "scoring", "verification"},
    {"analysis"},
    {"hosts"},
    {"reading"},
]


def imports(path):
    """(module imported, inside a function) for every import in a file, relative ones resolved."""
    parts = ("lambdaplug", *path.relative_to(PACKAGE).with_suffix("").parts)
    package = parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            yield from (f"{base}.{node.module or alias.name}".strip(".") for alias in node.names)


def floor_of(room):
    return next(number for number, rooms in enumerate(FLOORS) if room in rooms)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_layers_point_one_way(path):
    room = path.relative_to(PACKAGE).with_suffix("").parts[0]
    for name in imports(path):
        top, _, rest = name.partition(".")
        if top == "numba":
            assert room == "kernels"
        if top in ("lightgbm", "xgboost", "dask", "distributed"):
            assert room == "hosts"
        if top == "lambdaplug" and room != "__init__" and rest:
            other = rest.partition(".")[0]
            same = other == room or {other, room} == {"analysis", "hosts"}
            assert same or floor_of(other) < floor_of(room), f"{path.name} imports {name}"


def test_tricks_are_counted():
    text = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    assert len(re.findall(r"= weakref\.Weak", text)) <= 4
    assert len(re.findall(r"_getframe\(", text)) == 1
    assert not re.search(r"\bgc\.|__class__ = |unraisablehook", text)
    assert not re.search(r"import_module\((f?\"\.|f\"\{__|__)", text)  # seen by no test of layers


def test_no_function_is_longer_than_80_lines():
    paths = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "kernels"]
    for path in (*paths, *(ROOT / "recipes").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                said = len((ast.get_docstring(node, clean=False) or "").splitlines())  # documentation may be long
                assert node.end_lineno - node.lineno - said < 80, f"{path.name}: {node.name}"


def test_no_room_of_measures_is_longer_than_300_lines():
    for path in (PACKAGE / "measures").glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path.name


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_hosts_room_asks_which_host_it_is(path):
    room = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if room not in ("hosts", "__init__"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        words = {str(node.value).lower() for node in nodes if isinstance(node, ast.Constant)}
        assert not {"lightgbm", "xgboost"} & words


ELSEWHERE = {"builtin.py", "parsing.py", "smooth.py"}  # kernels that are not the pair engine's


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("kernels/*.py")), ids=lambda path: path.name)
def test_kernels_of_the_pair_engine_take_few_arguments_and_name_their_rows(path):
    if path.name in ELSEWHERE:
        return
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert len(node.args.args) <= 8, f"{path.name}: {node.name}"
    assert not re.search(r"\b(rows|fast|places|marks)\[\d|line\((rows|fast|places|marks), \d", text)


def test_every_public_name_is_there_and_the_version_has_its_changes():
    assert all(hasattr(lp, name) for name in lp.__all__)  # tests/test_docs.py reads their documentation
    assert re.search(rf"^## {re.escape(lp.__version__)}$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    with pytest.raises(AttributeError, match="no attribute 'LambdaMart'"):
        lp.LambdaMart  # noqa: B018


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0


PAGES = [path.relative_to(ROOT).as_posix() for path in (ROOT / "README.md", *sorted((ROOT / "recipes").rglob("*.md")))]


def python_blocks(page):
    """(code, what it prints, modules it needs); ``<!-- needs: ray -->`` stands before a block."""
    pattern = r"(?:<!-- needs: ([\w, ]+) -->\n+)?```python\n(.*?)```(?:\n+```\n(.*?)```)?"
    for needs, code, printed in re.findall(pattern, (ROOT / page).read_text(encoding="utf-8"), re.S):
        yield code, printed, re.findall(r"\w+", needs)


@pytest.mark.parametrize("page", [page for page in PAGES if any(python_blocks(page))])
def test_pages_run_from_top_to_bottom_and_print_what_they_say(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    if page == "README.md":  # its third example goes on with the reader's own data
        data = lp.data.cubic(queries=40, documents=12, features=8)
        names = {"X": data.X, "y": data.labels, "group": data.group, "qid": data.qid}
    for code, printed, needs in python_blocks(page):
        if not all(importlib.util.find_spec(module) for module in needs):
            continue
        capsys.readouterr()
        exec(code, names)
        if printed:
            found, expected = (re.findall(r"'([^']+)': ([\d.]+)", text) for text in (capsys.readouterr().out, printed))
            assert [name for name, _ in found] == [name for name, _ in expected]
            # Another processor, or another version of a host, grows slightly other trees.
            np.testing.assert_allclose([float(x) for _, x in found], [float(x) for _, x in expected], atol=0.03)


def test_the_readme_is_short_and_its_commands_come_first():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 200
    assert re.findall(r"```bash\n(.*?)\n```", readme, re.S)[:2] == [
        'python -m pip install ".[lightgbm,xgboost,recipes]" && python recipes/quickstart.py',
        'python -m pip install ".[test]" && python -m pytest',
    ]


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / page).read_text(encoding="utf-8")):
        assert ((ROOT / page).parent / target).is_file(), target


def test_every_page_of_the_guide_is_linked_from_the_readme():
    linked = re.findall(r"\]\((recipes/guide/\w+\.md)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert set(linked) == {page for page in PAGES if page.startswith("recipes/guide/")}


def test_every_recipe_is_on_the_recipes_page():
    listed = re.findall(r"^\| `python recipes/([\w/]+\.py)`", (ROOT / "recipes/README.md").read_text("utf-8"), re.M)
    assert sorted(listed) == sorted(path.relative_to(ROOT / "recipes").as_posix() for path in RECIPES)


SKIPPED = 77  # the exit code of a recipe whose engine is not installed


def run(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment)
    return done.returncode, done.stdout, done.stderr


def test_importing_costs_little_beyond_numba():
    # By count, not by clock: nothing heavy is imported besides numpy and numba.
    heavy = {"lightgbm", "xgboost", "pandas", "sklearn", "matplotlib", "scipy.stats", "dask", "distributed"}
    code, loaded, _ = run("-c", "import sys, lambdaplug; print('\\n'.join(sys.modules))")
    assert code == 0
    assert not heavy & set(loaded.split())


# What recipes that compare two trainings must find.
SAID = {
    "larger_than_memory": [f"{host}: 5 of 5 trees from files are" for host in ("XGBoost", "LightGBM")],
    "production": [r"same journal +True +True", r"byte by byte +True +True", r"without lambdaplug +True +True"],
    "ray_train": ["XGBoost: 10 of 10 trees have the splits of one machine's"],
    "spark": ["10 of 10 trees have the splits of one machine's"],
}


# These start an engine that ends with the interpreter.
ALONE = {"ray_train", "spark"}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipes_run_quickly(recipe, tmp_path):
    arguments = ["--quick", "--plot", str(tmp_path / "plot.png")]
    if recipe.stem in ALONE:
        code, out, error = run(recipe, *arguments)
    else:
        code, out, error = recipe_process.run(recipe, *arguments, where=tmp_path)
    if code == SKIPPED:
        pytest.skip(out)
    assert code == 0, error
    assert (tmp_path / "plot.png").stat().st_size > 5000
    assert len(out.splitlines()) > 5
    for said in SAID.get(recipe.stem, ()):
        assert re.search(said, out), out


def test_quickstart_takes_ones_own_file(tmp_path):
    lp.data.save_letor(tmp_path / "train.txt", lp.data.cubic(queries=30, documents=10, features=5))
    arguments = ["--data", str(tmp_path / "train.txt"), "--quick", "--plot", str(tmp_path / "plot.png")]
    code, out, error = recipe_process.run(ROOT / "recipes" / "quickstart.py", *arguments, where=tmp_path)
    assert code == 0, error
    assert "18 / 6 / 6 queries; relevant: label >= 1" in out
