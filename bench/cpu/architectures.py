"""Networks by architecture, training, decode and optimizer steps, losses, sums over indices and linear algebra as users write them, on Weft and on XLA:CPU in one process, interleaved; medians."""

import sys

import harness
import algebra_programs
import architecture_programs
import family_programs
import step_programs

if __name__ == "__main__":
  sys.exit(harness.run("architectures", architecture_programs.PROGRAMS + step_programs.PROGRAMS + algebra_programs.PROGRAMS + family_programs.PROGRAMS, __doc__))
