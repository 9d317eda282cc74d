"""What gpu-check needs on another machine, in one archive: a build with LLVM inside, the package, the tests."""

import io
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

TARGETS = ["weft", "pjrt_weft", "gpu_test", "runtime_test", "client_test", "pjrt_test", "pjrt_stress"]
BINARIES = ["weft", "libpjrt_weft.so", "gpu_test", "runtime_test", "client_test", "pjrt_test", "pjrt_stress"]
FOLDERS = ["python", "test", "bench/gpu", "examples"]
MOST_BYTES = 50 << 20
# Each binary has LLVM inside: a dictionary that reaches from one to the next finds it again.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 192 << 20}]
SYSTEM = re.compile(r"(libc|libm|libdl|librt|libpthread)\.so\.\d+|ld-linux-.*")

RUNNER = """#!/usr/bin/env bash
cd "$(dirname "${BASH_SOURCE[0]}")" && exec "${PYTHON:-python3}" test/gpu/check.py "$@"
"""


def build(root):
  folder = root / "build-gpu"
  subprocess.run(["cmake", "--preset", "gpu"], cwd=root, check=True, stdout=sys.stderr)
  subprocess.run(["ninja", "-C", str(folder), *TARGETS], check=True, stdout=sys.stderr)
  return folder


def needs(path):
  """Libraries that a binary wants of the machine, but the C library."""
  tool = shutil.which("readelf") or "llvm-readelf-19"
  text = subprocess.run([tool, "-d", str(path)], check=True, capture_output=True, text=True).stdout
  return [name for name in re.findall(r"\(NEEDED\).*\[(.*)\]", text) if not SYSTEM.fullmatch(name)]


def make(root, _, path, commit):
  folder = build(root)
  path.parent.mkdir(parents=True, exist_ok=True)
  top = pathlib.PurePath("weft-gpu-check")

  def keep(info):
    return None if "__pycache__" in info.name or info.name.endswith(".pyc") else info

  with lzma.open(path, "wb", filters=FILTERS) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
    for name in BINARIES:
      if others := needs(folder / name):
        sys.exit(f"gpu-check: {name} needs {', '.join(others)}, which other machines may lack")
      archive.add(folder / name, top / "build" / name)
    for name in FOLDERS:
      archive.add(root / name, top / name, filter=keep)
    for name, text in (("COMMIT", commit + "\n"), ("gpu-check", RUNNER)):
      info = tarfile.TarInfo(str(top / name))
      info.size, info.mode = len(text), 0o755
      archive.addfile(info, io.BytesIO(text.encode()))
  size = os.path.getsize(path)
  print(f"{path}: {size / 1e6:.1f} MB, commit {commit}; there: tar xf {path.name} && weft-gpu-check/gpu-check")
  if size > MOST_BYTES:
    sys.exit(f"gpu-check: the bundle has {size} bytes, {MOST_BYTES} at most are wanted")
  return 0
