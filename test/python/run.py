#!/usr/bin/env python3
"""Runs pytest on the given files with .venv's Python; exits with 77 (skipped) where there is none."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main():
    python = ROOT / ".venv/bin/python"
    probe = [str(python), "-c", "import pytest, numpy, ml_dtypes"]
    if not python.exists() or subprocess.run(probe, capture_output=True).returncode != 0:
        print("SKIPPED: no Python packages; ./dev test installs them into .venv")
        return 77
    os.chdir(ROOT)
    return subprocess.run([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *sys.argv[1:]]).returncode


if __name__ == "__main__":
    sys.exit(main())
