"""Loops: scan, while and fori programs on Weft, on XLA:CPU and in C, in one process, interleaved; medians, in milliseconds.

weft:C and cpu:C are times over that of C (gcc -O3, one thread), cpu:weft is XLA:CPU's over Weft's.
"""

import sys

import harness
import c_versions
from loop_programs import PROGRAMS
import scalar_programs  # noqa: F401: adds its own
import structure_programs  # noqa: F401: likewise

if __name__ == "__main__":
  sys.exit(harness.run("loops", PROGRAMS, __doc__, compiled_c=c_versions.description()))
