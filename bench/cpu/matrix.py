"""Matrix products on Weft and on XLA:CPU in one process, interleaved; medians, in milliseconds.

cpu:weft is XLA:CPU's time over Weft's. GFLOP/s are those of Weft (operations of integers counted alike). Peaks are measured in
the same run by `matrix_speed` (`ninja -C build matrix_speed`): multiply-adds in registers, and the micro-kernel of each type on
panels that lie in the first cache, on one thread and on all.
"""

import pathlib
import subprocess
import sys

import harness
from matrix_programs import PROGRAMS

MICRO = pathlib.Path(__file__).resolve().parents[2] / "build" / "matrix_speed"


def print_peaks():
  if not MICRO.exists():
    print(f"peaks: not measured: {MICRO.name} is not built")
    return
  print(subprocess.run([MICRO, "--peaks"], check=True, capture_output=True, text=True).stdout, end="")


if __name__ == "__main__":
  if not any(flag.startswith(("--list", "--probe", "-h", "--help")) for flag in sys.argv):
    print_peaks()
  sys.exit(harness.run("matrix", PROGRAMS, __doc__))
