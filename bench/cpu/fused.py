"""Programs without loops on Weft and on XLA:CPU in one process, interleaved; medians, in milliseconds.

cpu:weft is XLA:CPU's time over Weft's. GB/s are the bytes of arguments and results over Weft's time; copying memory, measured in
the same run, is what they are compared with.
"""

import sys

import harness
from fused_programs import PROGRAMS

if __name__ == "__main__":
  sys.exit(harness.run("fused", PROGRAMS, __doc__))
