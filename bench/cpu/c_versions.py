"""The C versions of the loop programs: loops.c, structures.c and scalars.c, compiled here and now for this machine, called through ctypes."""

import ctypes
import functools
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np

SOURCES = [pathlib.Path(__file__).with_name(name) for name in ("loops.c", "structures.c", "scalars.c")]
FLAGS = ["-O3", "-march=native", "-std=c11", "-shared", "-fPIC"]

# The sizes of the programs: C gets them as macros, so that its compiler knows as much as the others.
SIZES = {
    "LOGISTIC_STEPS": 500_000, "NEWTON_STEPS": 150_000, "RK4_STEPS": 80_000, "LORENZ_STEPS": 300_000,
    "MATVEC_OUTER": 3_000, "MATVEC_INNER": 40, "COLLATZ_LAST": 20_000, "GCD_PAIRS": 20_000, "XORSHIFT_STEPS": 1_000_000,
    "FILL_SIZE": 1_500_000, "SIEVE_SIZE": 1_000_000, "INSERTION_SIZE": 2_400, "HEAT_SIZE": 1_024, "HEAT_STEPS": 8_000,
    "JACOBI_SIZE": 256, "JACOBI_STEPS": 100, "BODIES": 64, "BODY_STEPS": 150, "LIFE_SIZE": 256, "LIFE_STEPS": 200,
    "EDIT_SIZE": 1_000, "KNAPSACK_ITEMS": 800, "KNAPSACK_CAPACITY": 8_192, "KALMAN_STEPS": 20_000, "CHAIN_STEPS": 100_000,
    "RICCATI_STEPS": 1_500, "INVERSE_STEPS": 80_000, "COVARIANCE_STEPS": 60_000, "GRU_STEPS": 2_000,
    "VITERBI_STEPS": 2_000, "L96_STEPS": 15_000, "WHILE_SIZE": 1 << 22, "MANDELBROT_SIZE": 128, "MANDELBROT_STEPS": 100,
    "PRODUCT_SIZE": 1_000_000, "BISECT_COUNT": 16_384, "BISECT_STEPS": 60, "WAVE_SIZE": 128, "WAVE_STEPS": 150, "BUBBLE_SIZE": 1_200,
    "HISTOGRAM_SIZE": 1_500_000, "HISTOGRAM_BINS": 64, "OSCILLATOR_END": 1_000,
    "FILTER_SIZE": 400_000, "HEAP_SIZE": 131_072, "GRAPH_NODES": 256, "GRAPH_EDGES": 2_048, "GRAPH_ROUNDS": 400,
    "STRING_SIZE": 200_000, "HMM_STEPS": 30_000, "CONTROL_END": 1_500,
    "PENDULUM_STEPS": 60_000, "KEPLER_COUNT": 5_000, "NORMAL_COUNT": 100_000, "ROTATION_STEPS": 60_000, "WAYS_STEPS": 60_000,
    "CHAIN_LENGTH": 200, "UNION_NODES": 4_096, "UNION_EDGES": 150_000, "TABLE_SIZE": 65_536, "TABLE_KEYS": 48_000, "SEARCH_NODES": 20_000,
}


def compiler():
  return shutil.which("gcc") or shutil.which("cc")


def description():
  """The command line without the sizes, and the compiler's version; empty where there is no compiler."""
  if compiler() is None:
    return ""
  version = subprocess.run([compiler(), "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
  return f"{version}, {' '.join(FLAGS)}, one thread"


@functools.cache
def library():
  with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/loops.so"
    subprocess.run([compiler(), *FLAGS, *(f"-D{name}={value}" for name, value in SIZES.items()), *SOURCES, "-o", path, "-lm"],
                   check=True)
    return ctypes.CDLL(path)


def version(name, *results):
  """The C function of that name, on NumPy arrays; `results` are (dtype, shape) of what it writes after its arguments."""
  if compiler() is None:
    return None

  def call(*arguments):
    outputs = tuple(np.empty(shape, dtype) for dtype, shape in results)
    arrays = [np.ascontiguousarray(a) for a in arguments]
    getattr(library(), name)(*(ctypes.c_void_p(a.ctypes.data) for a in (*arrays, *outputs)))
    return outputs
  return call
