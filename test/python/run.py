#!/usr/bin/env python3
"""Runs pytest on the given files with .venv's Python; exits with 77 (skipped) where there is none.

`--jax VERSION` takes the virtual environment with that release of JAX, .venv-jax-VERSION.
"""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main(arguments):
    folder, maker = ".venv", "./dev test installs them into .venv"
    if arguments[:1] == ["--jax"]:
        folder = f".venv-jax-{arguments[1]}"
        maker = f"./dev jax-versions {arguments[1]} installs them into {folder}, where there is a Python for them"
        arguments = arguments[2:]
    python = ROOT / folder / "bin" / "python"
    probe = [str(python), "-c", "import pytest, numpy, ml_dtypes"]
    if not python.exists() or subprocess.run(probe, capture_output=True).returncode != 0:
        print(f"SKIPPED: no Python packages; {maker}")
        return 77
    os.chdir(ROOT)
    return subprocess.run([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
