"""Kernels compiled by NVRTC without a GPU: for every machine that it knows; registers and spills beside those of resources.txt.

resources.py WEFT --bless writes resources.txt anew.
"""

import ctypes
import glob
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
BLESSED = HERE / "resources.txt"
MACHINE = "sm_90a"  # whose registers are compared
OLDEST = 80
MORE = 1.25  # so many times the registers are a failure
PLACES = ["libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib*/libnvrtc.so.1*", "/usr/local/cuda/lib*/libnvrtc.so",
          str(HERE.parent.parent / ".venv*/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1*")]


class Nvrtc:
  """The compiler, loaded where it is found."""

  def __init__(self):
    self.library = None
    for place in PLACES:
      for path in [place] if "/" not in place else sorted(glob.glob(place)):
        try:
          self.library = ctypes.CDLL(path)
          break
        except OSError:
          continue
      if self.library:
        break

  def version(self):
    major, minor = ctypes.c_int(), ctypes.c_int()
    self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"

  def machines(self):
    """sm_80 and later as the compiler lists them, and those with the features of one machine alone."""
    number = ctypes.c_int()
    self.library.nvrtcGetNumSupportedArchs(ctypes.byref(number))
    listed = (ctypes.c_int * number.value)()
    self.library.nvrtcGetSupportedArchs(listed)
    return [f"sm_{n}{'a' if n >= 90 else ''}" for n in listed if n >= OLDEST]

  def compile(self, text, machine):
    """(whether it compiles, the log, with what ptxas says of each kernel)"""
    program = ctypes.c_void_p()
    self.library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"program.cu", 0, None, None)
    options = [f"--gpu-architecture={machine}".encode(), b"--ptxas-options=-v", b"--std=c++17", b"--minimal",
               b"--device-as-default-execution-space"]
    status = self.library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    self.library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value or 1)
    self.library.nvrtcGetProgramLog(program, log)
    self.library.nvrtcDestroyProgram(ctypes.byref(program))
    return status == 0, log.value.decode(errors="replace")


def emitted(weft, path):
  return subprocess.run([weft, "program", "--target=h200", "--emit=cuda", str(path)], capture_output=True, text=True, check=True).stdout


def used(log):
  """{kernel: (registers, bytes spilled)} of what ptxas says."""
  kernels = {}
  for block in re.split(r"Compiling entry function '", log)[1:]:
    name = block[:block.index("'")]
    registers = re.search(r"Used (\d+) registers", block)
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", block)
    kernels[name] = (int(registers[1]) if registers else 0, sum(map(int, spills.groups())) if spills else 0)
  return kernels


def measure(weft, nvrtc):
  found = {}
  for path in sorted(HERE.glob("*.hlo")):
    fine, log = nvrtc.compile(emitted(weft, path), MACHINE)
    for name, numbers in used(log).items() if fine else ():
      found[f"{path.stem} {name}"] = numbers
  return found


def read_blessed():
  lines = BLESSED.read_text().splitlines()
  version = lines[0].split()[-1]
  return version, {" ".join(words[:2]): (int(words[2]), int(words[3])) for words in map(str.split, lines[1:])}


def worse(found, blessed):
  """Kernels of the file that take more now; one that is not in the file may not spill."""
  out = []
  for name, (registers, spilled) in found.items():
    most, spills = blessed.get(name, (255, 0))
    if registers > most * MORE or spilled > spills:
      out.append(f"{name}: {registers} registers and {spilled} bytes spilled, were {most} and {spills}")
  return out


def rows(setting):
  from parts import Row
  nvrtc = Nvrtc()
  if nvrtc.library is None:
    return [Row("NVRTC", "it is not installed", "skipped")]
  made = []
  texts = {path.name: emitted(setting.weft, path) for path in sorted(HERE.glob("*.hlo"))}
  for machine in nvrtc.machines():
    begin, logs = time.monotonic(), []
    for name, text in texts.items():
      fine, log = nvrtc.compile(text, machine)
      if not fine:
        logs.append(f"{name}: {log}")
    made.append(Row(f"{machine}, NVRTC {nvrtc.version()}", "\n".join(logs)[:4000], "failed" if logs else "ok", len(texts) - len(logs), len(logs),
                    time.monotonic() - begin))
  begin = time.monotonic()
  version, blessed = read_blessed()
  found = measure(setting.weft, nvrtc)
  bad = worse(found, blessed) if version == nvrtc.version() else []
  known = "" if version == nvrtc.version() else f", not compared: the file is of NVRTC {version}"
  made.append(Row(f"registers and spills{known}", "\n".join(bad), "failed" if bad else "ok" if found and not known else "skipped",
                  len(found) - len(bad), len(bad), time.monotonic() - begin))
  return made


def main(arguments):
  nvrtc = Nvrtc()
  found = measure(arguments[0], nvrtc)
  lines = [f"{name} {registers} {spilled}" for name, (registers, spilled) in sorted(found.items())]
  if "--bless" in arguments:
    BLESSED.write_text("\n".join([f"# module kernel registers bytes-spilled; {MACHINE}, NVRTC {nvrtc.version()}", *lines]) + "\n")
  print("\n".join(lines))


if __name__ == "__main__":
  main(sys.argv[1:])
