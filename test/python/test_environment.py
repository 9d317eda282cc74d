"""Environment variables through JAX: a value that is not allowed is an exception that says what is; the cache."""

import os
import stat
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from weft_jax import run  # noqa: E402

USE = "import jax, jax.numpy as jnp; print(float(jnp.sum(jnp.ones(3))))"


@pytest.mark.parametrize("name, value, allowed", [
    ("WEFT_MEMORY_LIMIT", "1XB", "expected a number of bytes, with a unit or without: 8GiB, 512MB, 1.5g"),
    ("WEFT_THREADS", "none", "expected a whole number from 1 to 4096"),
    ("WEFT_CPU_DEVICES", "two", "expected a whole number from 1 to 1024"),
    ("WEFT_CHECK", "yes", "expected 0 or 1"),
    ("WEFT_DEBUG", "loud", "expected a level from 0 to 9"),
    ("WEFT_CACHE", "off", "expected 0 for none, or a folder"),
    ("WEFT_OPTIONS", "cpu.naive=1", "unknown option: cpu.naive; did you mean `cpu.native`?"),
])
def test_wrong_values_are_exceptions(name, value, allowed):
    done = run(USE, JAX_PLATFORMS="weft", **{name: value})
    assert done.returncode == 1, done.stderr  # an exception, not an abort
    assert "RuntimeError" in done.stderr
    assert f"{name}: wrong value: {value}: {allowed}" in done.stderr
    assert "weft help variables" in done.stderr or "options are" in done.stderr


def test_wrong_value_beside_another_platform():
    done = run(USE, JAX_PLATFORMS="weft,cpu", WEFT_THREADS="none")
    assert "WEFT_THREADS: wrong value: none" in done.stderr


def test_wrong_default_is_told():
    done = run(USE, WEFT_DEFAULT="perhaps")
    assert "WEFT_DEFAULT: wrong value: perhaps: expected 0 or 1" in done.stderr


@pytest.mark.parametrize("limit", ["1GB", "8GiB", "512MB", "1.5g", str(1 << 30)])
def test_memory_limits(limit):
    assert run(USE, JAX_PLATFORMS="weft", WEFT_CACHE=0, WEFT_MEMORY_LIMIT=limit).stdout == "3.0\n"


def test_memory_limit_holds():
    code = "import jax, jax.numpy as jnp; jax.block_until_ready(jnp.ones(1 << 22))"
    assert " 4.0 MB" in run(code, JAX_PLATFORMS="weft", WEFT_CACHE=0, WEFT_MEMORY_LIMIT="4MB").stderr


def test_unknown_names_are_warned_of():
    done = run(USE, JAX_PLATFORMS="weft", WEFT_CACHE=0, WEFT_DEBGU="1")
    assert done.stdout == "3.0\n"
    assert "no such variable: WEFT_DEBGU; did you mean `WEFT_DEBUG`?" in done.stderr


def test_cache_leaves_the_directory_alone(tmp_path):
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o755)
    (place / "notes.txt").write_text("mine")
    code = "import jax, jax.numpy as jnp; print(float(jax.jit(lambda x: jnp.sin(x) + 1)(0.0)))"
    assert run(code, JAX_PLATFORMS="weft", WEFT_CACHE=place).stdout == "1.0\n"
    assert stat.S_IMODE(place.stat().st_mode) == 0o755
    assert stat.S_IMODE((place / "weft-cache").stat().st_mode) == 0o700
    objects = list((place / "weft-cache").glob("cpu-*.weft"))
    assert objects
    # Damaged, and whole but no object (a checksum that is right): compiled again, and replaced.
    import hashlib
    for bad in (b"", objects[0].read_bytes()[:-10], b"WEFTCACH" + hashlib.sha256(b"junk").digest() + b"junk"):
        good = [path.read_bytes() for path in objects]
        for path in objects:
            path.write_bytes(bad)
        assert run(code, JAX_PLATFORMS="weft", WEFT_CACHE=place).stdout == "1.0\n"
        assert [path.read_bytes() for path in objects] == good
    (place / "weft-cache").chmod(0o777)
    done = run(code, JAX_PLATFORMS="weft", WEFT_CACHE=place)
    assert done.stdout == "1.0\n"
    assert "is open to other users" in done.stderr
