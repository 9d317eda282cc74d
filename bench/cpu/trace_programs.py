"""Writes every program of the suites as StableHLO text into a folder: what `./dev replay` compiles with two commits."""

import pathlib
import sys

import jax

import fused_programs
import harness
import loop_programs
import networks
import spellings
import unseen_programs


def main(folder):
  folder = pathlib.Path(folder)
  steps = [harness.Program(name=make.__name__, kind="network", make=make)
           for make in (networks.mlp, networks.transformer, networks.resnet18)]
  programs = [*loop_programs.PROGRAMS, *fused_programs.PROGRAMS, *spellings.PROGRAMS, *unseen_programs.PROGRAMS, *steps]
  failed = 0
  for program in programs:
    try:
      with program.context():
        function, arguments = program.make()
        text = jax.jit(function).lower(*arguments).as_text()
    except Exception as error:  # one that needs more than is installed
      print(f"{program.name}: {error}", file=sys.stderr)
      failed += 1
      continue
    (folder / f"{program.name}.mlir").write_text(text)
  return 1 if failed else 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1]))
