"""What the tests of the Python package share."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIBRARY = pathlib.Path(os.environ.get("WEFT_LIBRARY") or
                       pathlib.Path(os.environ.get("WEFT_BUILD_DIR", ROOT / "build")) / "libpjrt_weft.so")


def environment(**variables):
    """The environment of a process that finds the package in the source tree; None removes."""
    env = dict(os.environ, PYTHONPATH=str(ROOT / "python"), WEFT_LIBRARY=str(LIBRARY))
    for name in ("JAX_PLATFORMS", "WEFT_DEFAULT", "WEFT_AS"):
        env.pop(name, None)
    for name, value in variables.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = str(value)
    return env


def run(code, timeout=120, input=None, **variables):
    """Runs Python code in a process of its own."""
    return subprocess.run([sys.executable, "-c", code], env=environment(**variables), input=input,
                          capture_output=True, text=True, timeout=timeout, check=False)
