"""Run the tests with the oldest or the newest supported versions, each in a virtual environment made for it.

    python tests/versions.py oldest [arguments for pytest]
    python tests/versions.py newest [arguments for pytest]
    python tests/versions.py smoke

oldest: the lower bounds of pyproject.toml, exactly, on its oldest Python if there is one here, else on this one.
newest: whatever pip finds, on the newest Python here. smoke: what meets the hosts, the README and type checkers, with newest's
versions; nothing where no Python here is newer than this one. Environments are kept from run to run in the folder that
LAMBDAPLUG_VERSIONS names (default: .versions, beside the tests' folder).
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project]")[2]
FILES = ("hosts", "presets", "front_door", "scoring", "analysis", "deployment", "types", "golden", "house")
SMOKE = [*(f"tests/test_{name}.py" for name in FILES), "-k", "not recipes and not layers"]


def lower_bounds() -> list[str]:
    """``name==version`` for every ``"name>=version"`` among the dependencies and the extras that tests install."""
    installed = re.sub(r"^(spark|ray) = .*", "", PROJECT, flags=re.M)
    return [f"{name}=={version}" for name, version in re.findall(r'"([\w-]+)>=([\d.]+)"', installed)]


def interpreters() -> dict[tuple[int, int], str]:
    """Every Python here that the package takes, from the oldest on: this one, those on the path and pyenv's."""
    least = re.search(r'requires-python = ">=3\.(\d+)"', PROJECT)
    assert least is not None
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {}
    for minor in range(int(least[1]), 30):
        for candidate in (shutil.which(f"python3.{minor}"), *sorted(pyenv.glob(f"3.{minor}.*/bin/python"))):
            command = [candidate, "--version"] if candidate else [sys.executable, "-c", ""]
            said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            if said.startswith(f"Python 3.{minor}."):
                found[3, minor] = str(candidate)
    return dict(sorted({**found, sys.version_info[:2]: sys.executable}.items()))


def environment(which: str) -> Path:
    """The Python of the environment, made if it is not there yet."""
    folder = Path(os.environ.get("LAMBDAPLUG_VERSIONS", ROOT / ".versions")) / which
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        here = list(interpreters().values())
        subprocess.run([here[0 if which == "oldest" else -1], "-m", "venv", folder], check=True)
    pins = lower_bounds() if which == "oldest" else ["--upgrade"]
    install = [python, "-m", "pip", "install", "--quiet", "--prefer-binary", *pins, f"{ROOT}[test]"]
    subprocess.run(install, check=True)
    # The tests run from the checkout: the package that was installed for its dependencies must not be what is tested.
    subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "lambdaplug"], check=True)
    return python


def main() -> int:
    which, arguments = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    if which not in ("oldest", "newest", "smoke"):
        sys.exit(f"usage: python tests/versions.py oldest | newest | smoke [arguments for pytest], got {which!r}")
    if which == "smoke":
        if max(interpreters()) == sys.version_info[:2]:
            print("smoke: no newer Python here")
            return 0
        which, arguments = "newest", [*SMOKE, *arguments]
    python = environment(which)
    if SMOKE[0] in arguments:  # NumPy's newest stubs
        subprocess.run([python, "-m", "mypy", "--strict", "lambdaplug"], cwd=ROOT, check=True)
    names = [*(bound.partition("==")[0] for bound in lower_bounds()), "llvmlite", "pandas"]
    show = "import sys, importlib.metadata as m; print(sys.version.split()[0], *(n + ' ' + m.version(n) for n in sys.argv[1:]), sep=', ')"
    print(f"{which}: Python", end=" ", flush=True)
    subprocess.run([python, "-c", show, *names], check=True)
    cache = {"NUMBA_CACHE_DIR": str(python.parent.parent / "numba")}  # versions must not meet in one cache
    command = [python, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **cache}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
