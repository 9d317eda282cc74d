"""bench/gpu without a GPU: its programs give what NumPy does at the size for checks, and rows are what they say."""

import os
import pathlib
import sys
import types

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"))

import programs  # noqa: E402
import run  # noqa: E402
import unseen  # noqa: E402

OPTIONS = types.SimpleNamespace(quick=True, check=False)


ALL = programs.PROGRAMS + unseen.PROGRAMS


@pytest.mark.parametrize("name,kind,make", ALL, ids=[p[0] for p in ALL])
def test_programs_give_what_numpy_does(name, kind, make):
    off, fine = run.check(make, jax.devices()[0])
    assert fine, off
    made = make("check")
    assert made.bytes > 0 and made.peak in run.PEAKS


def test_errors_are_relative_to_the_largest():
    assert run.error([np.array([1.0, 2.0])], [np.array([1.5, 2.0])]) == 0.25
    assert run.error([np.array([np.nan])], [np.array([1.0])]) == np.inf


def test_a_row_has_times_of_both_and_carries_donated_arguments():
    def make(_):
        return programs.Program(lambda p, g: (p - g,), (np.full(8, 5.0), np.ones(8)), bytes=64, carried=1)

    device = jax.devices()[0]
    row = run.measure("step", "optimizer", make, {"one": device, "two": device}, OPTIONS)
    assert row["wrong"] == [] and row["apart"] == 0
    assert row["one"]["us"] > 0 and len(row["two"]["rounds_us"]) == 3
    assert run.summary([row], ["one", "two"]) == pytest.approx(row["two"]["us"] / row["one"]["us"])


def test_a_failure_is_a_row():
    def make(_):
        return programs.Program(lambda x: x.nothing(), (np.ones(2),), bytes=8)

    row = run.measure("bad", "none", make, {"one": jax.devices()[0]}, OPTIONS)
    assert row["wrong"] == ["one: failed"] and "AttributeError" in row["one"]["failed"]
