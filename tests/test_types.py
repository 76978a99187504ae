"""Types as users see them: a script of theirs passes mypy and pyright in strict mode, and what is misspelt does not."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "tests" / "user_script.py"

WRONG = """import lambdaplug as lp

lp.nothing
lp.analysis.nothing
lp.objective("map", nois=3)
lp.LambdaRank("map", noise="much")
lp.NDCG(kk=3)
lp.metric("map", empt=0)
lp.evaluate("map", [1], [1], [1], tie="worst")
lp.evaluate("map", [1], [1], [1], ties="wurst")
lp.evaluate("map", [1], [1], [1])["map"].mean()
lp.compare("map", [1], [1], [1], [1], names=3)
lp.compare("map", [1], [1], {"b": [1]}, [1]).p_t
lp.leaderboard({"a": [1]}, "map", [1], [1], best="a")
lp.scorer("map", ties="wurst")
lp.Mixture([lp.objective("map")])
lp.guard("ndcg@3", flor=0.6)
lp.query_folds([1, 2], folds=5)
"""
EXPECTED = set(range(3, 3 + len(WRONG.splitlines()[2:])))


@pytest.fixture
def project(tmp_path):
    """A folder of a user's, with both scripts."""
    (tmp_path / "script.py").write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nstrict = true\nmypy_path = {ROOT}\n", encoding="utf-8")
    unknown = {f"reportUnknown{kind}Type": False for kind in ("Member", "Variable", "Argument", "Lambda", "Parameter")}
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "reportMissingTypeStubs": False, **unknown}
    settings |= {"reportUnusedExpression": False, "pythonVersion": f"{sys.version_info[0]}.{sys.version_info[1]}"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    return tmp_path


def wrong_lines(project, *command):
    """By file the lines with errors."""
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False, cwd=project)
    found = re.findall(r"(script|wrong)\.py:(\d+):(?:\d+)?[: -]+error", done.stdout)
    assert found, done.stdout + done.stderr
    return {name: {int(line) for one, line in found if one == name} for name in ("script", "wrong")}


def test_mypy_takes_the_script_and_finds_what_is_misspelt(project):
    assert wrong_lines(project, "mypy", "script.py", "wrong.py") == {"script": set(), "wrong": EXPECTED}


@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pyright is not installed")
def test_pyright_takes_the_script_and_finds_what_is_misspelt(project):
    assert wrong_lines(project, "pyright", "--pythonpath", sys.executable) == {"script": set(), "wrong": EXPECTED}


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
def test_the_script_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "script"}
    exec(SCRIPT.read_text(encoding="utf-8"), names)
    assert len(names["objectives"]()) == 17
    assert 0.0 < names["with_xgboost"]() <= 1.0
    assert names["rankers"]() > 1.0
    assert len(names["with_lightgbm"]()) == len(names["test"].labels)
    names["reports"](names["X"][:, 0].astype(float))
    names["goals"]()
