"""Convolutions, their gradients, pooling and networks of them on Weft and on XLA:CPU in one process, interleaved; medians, in ms.

cpu:weft is XLA:CPU's time over Weft's. GFLOP/s are those of Weft: products of the convolution as it is written, without those by
padding's zeroes taken off. `_dx` and `_dw` are the gradients by input and weights, `_first` has channels before places.
"""

import sys

import harness
from conv_programs import PROGRAMS

if __name__ == "__main__":
  sys.exit(harness.run("conv", PROGRAMS, __doc__))
