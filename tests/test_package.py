"""What people install, and the reference that they open: wheel, source archive, API pages."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import lambdaplug as lp

ROOT = Path(__file__).parent.parent
SOURCES = {path.relative_to(ROOT).as_posix() for path in (ROOT / "lambdaplug").rglob("*.py")} | {"lambdaplug/py.typed"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the source archive, and the wheel made from it."""
    folder = tmp_path_factory.mktemp("built")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", folder, ROOT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_wheel_and_source_archive_hold_the_package_and_nothing_else(built):
    name = f"lambdaplug-{lp.__version__}"
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        about = {f"{name}.dist-info/{file}" for file in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")}
        assert set(wheel.namelist()) == SOURCES | about
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        beside = {"CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", "PKG-INFO", ".gitignore"}
        assert {path.partition("/")[2] for path in archive.getnames()} == SOURCES | beside


def test_the_quickstart_runs_from_the_installed_wheel(built, tmp_path):
    wheel, site = next(built.glob("*.whl")), tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel]
    subprocess.run(pip, check=True)
    quickstart = [sys.executable, ROOT / "recipes" / "quickstart.py", "--quick", "--plot", tmp_path / "plot.png"]
    environment = {**os.environ, "PYTHONPATH": str(site), "NUMBA_CACHE_DIR": ""}
    where = "import lambdaplug; print(lambdaplug.__file__)"
    found = subprocess.run([sys.executable, "-c", where], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert found.stdout.startswith(str(site))
    done = subprocess.run(quickstart, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "plot.png").stat().st_size > 5000


def test_the_api_reference_has_every_public_name_and_no_dead_link(tmp_path):
    command = re.search(r"`python -m (pdoc [\w. ]+)`", (ROOT / "README.md").read_text(encoding="utf-8"))[1]
    made = [sys.executable, "-m", *command.split(), "-o", tmp_path]
    subprocess.run(made, cwd=ROOT, capture_output=True, check=True)
    pages = {page.resolve(): page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.html")}
    anchors = {page: set(re.findall(r'id="([\w.]+)"', text)) for page, text in pages.items()}
    named = set().union(*anchors.values()) | {page.stem for page in pages}
    assert set(lp.__all__) - named == set()
    dead = []
    for page, text in pages.items():
        for path, anchor in re.findall(r'href="([^"#:$]*)(?:#(\w*))?"', text):
            target = (page.parent / path).resolve() if path else page
            if target not in pages or (anchor and anchor not in anchors[target]):
                dead.append(f"{page.name}: {path}#{anchor}")
    assert dead == []
