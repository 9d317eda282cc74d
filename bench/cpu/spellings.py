"""Algorithms in several spellings each on Weft and on XLA:CPU in one process, interleaved; medians, in milliseconds.

A kind is an algorithm, its programs do the same work: their times beside each other say what a way of writing costs.
"""

import sys

import harness
import spelling_arrays  # this and the next add to the list
import spelling_kinds
import spelling_matrices
import spelling_numbers
import spelling_steps
from spelling_programs import PROGRAMS

if __name__ == "__main__":
  sys.exit(harness.run("spellings", PROGRAMS, __doc__))
