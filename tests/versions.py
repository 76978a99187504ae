"""Run the tests with the oldest and with the newest supported versions, each in a virtual environment made for it.

    python tests/versions.py [oldest | newest] [arguments for pytest]

oldest: the lower bounds of pyproject.toml, exactly, on its oldest Python if there is one here, else on this one.
newest: whatever pip finds, on this Python. Neither: both, one after the other. Environments are kept from run to run in
the folder that LAMBDAPLUG_VERSIONS names (default: .versions, beside the tests' folder).
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project]")[2]


def lower_bounds() -> list[str]:
    """``name==version`` for every ``"name>=version"`` among the dependencies and the extras that tests install."""
    installed = re.sub(r"^(spark|ray) = .*", "", PROJECT, flags=re.M)
    return [f"{name}=={version}" for name, version in re.findall(r'"([\w-]+)>=([\d.]+)"', installed)]


def oldest_python() -> str:
    """The interpreter of requires-python's lower bound: on the path, or among pyenv's; else the one running this."""
    match = re.search(r'requires-python = ">=(\d+\.\d+)"', PROJECT)
    assert match is not None
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{match[1]}"), *sorted(pyenv.glob(f"{match[1]}.*/bin/python"))]
    for candidate in filter(None, candidates):
        said = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False).stdout
        if said.startswith(f"Python {match[1]}."):
            return str(candidate)
    return sys.executable


def environment(which: str) -> Path:
    """The Python of the environment, made if it is not there yet."""
    folder = Path(os.environ.get("LAMBDAPLUG_VERSIONS", ROOT / ".versions")) / which
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        subprocess.run([oldest_python() if which == "oldest" else sys.executable, "-m", "venv", folder], check=True)
    pins = lower_bounds() if which == "oldest" else ["--upgrade"]
    install = [python, "-m", "pip", "install", "--quiet", "--prefer-binary", *pins, f"{ROOT}[test]"]
    subprocess.run(install, check=True)
    # The tests run from the checkout: the package that was installed for its dependencies must not be what is tested.
    subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "lambdaplug"], check=True)
    return python


def main() -> int:
    chosen = sys.argv[1:2] if sys.argv[1:2] in (["oldest"], ["newest"]) else []
    arguments = sys.argv[1 + len(chosen) :]
    failed = 0
    for which in chosen or ["oldest", "newest"]:
        python = environment(which)
        names = [*(bound.partition("==")[0] for bound in lower_bounds()), "llvmlite", "pandas"]
        show = "import sys, importlib.metadata as m; print(sys.version.split()[0], *(n + ' ' + m.version(n) for n in sys.argv[1:]), sep=', ')"
        print(f"{which}: Python", end=" ", flush=True)
        subprocess.run([python, "-c", show, *names], check=True)
        cache = {"NUMBA_CACHE_DIR": str(python.parent.parent / "numba")}  # versions must not meet in one cache
        command = [python, "-m", "pytest", *arguments]
        failed |= subprocess.run(command, cwd=ROOT, env={**os.environ, **cache}, check=False).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
