"""Programs in users' styles that no pass was written for, on Weft and on XLA:CPU in one process, interleaved; medians."""

import sys

import harness
from unseen_programs import PROGRAMS

if __name__ == "__main__":
  sys.exit(harness.run("unseen", PROGRAMS, __doc__))
