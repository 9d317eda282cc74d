#!/usr/bin/env python3
"""Looks into a wheel of the package, renames it for what it needs, and tries it as a new user would.

wheel.py WHEEL [--try PROGRAM]...

What is linked must be the C library alone, the plugin must show GetPjrtApi alone, and licences must be inside. The platform tag becomes
manylinux_X_Y of the newest version of the C library that is asked for. --try installs the wheel and JAX into a fresh environment and runs the
programs there, far from this tree.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

SYSTEM = re.compile(r"(libc|libm|libdl|librt|libpthread)\.so\.\d+|ld-linux-.*")
LARGEST = 60 << 20  # bytes of a wheel


def readelf(*arguments):
  tool = shutil.which("readelf") or shutil.which("llvm-readelf-19")
  if tool is None:
    sys.exit("wheel.py: neither readelf nor llvm-readelf-19 is installed")
  return subprocess.run([tool, "-W", *arguments], check=True, capture_output=True, text=True).stdout


def check(condition, message):
  if not condition:
    sys.exit(f"wheel.py: {message}")


def newest_glibc(path):
  found = re.findall(r"GLIBC_(\d+)\.(\d+)", readelf("-V", str(path)))
  return max((int(a), int(b)) for a, b in found)


def check_binary(path):
  """Says what a binary needs; returns the version of the C library."""
  needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", str(path)))
  others = [name for name in needed if not SYSTEM.fullmatch(name)]
  check(not others, f"{path.name} needs {', '.join(others)}, which other machines may lack")
  version = newest_glibc(path)
  print(f"  {path.name}: {path.stat().st_size / 1e6:.1f} MB, needs {' '.join(needed)} (glibc {version[0]}.{version[1]})")
  return version


def check_exports(path):
  rows = [row.split() for row in readelf("--dyn-syms", str(path)).splitlines()]
  shown = [row[7].split("@")[0] for row in rows if len(row) > 7 and row[4] in ("GLOBAL", "WEAK") and row[6] != "UND" and row[6] != "ABS"]
  check(shown == ["GetPjrtApi"], f"{path.name} shows {shown}, should be GetPjrtApi alone")


def check_metadata(folder):
  info = next(folder.glob("*.dist-info"))
  text = (info / "METADATA").read_text()
  for wanted in ("Name: weft", "License-Expression: Apache-2.0", "License-File: LICENSE", "License-File: NOTICE", "Requires-Dist: jax"):
    check(wanted in text, f"METADATA lacks '{wanted}'")
  check("Description-Content-Type: text/markdown" in text, "METADATA has no description in Markdown")
  for page in ("index.md", "settings.md", "troubleshooting.md"):
    check((folder / "weft" / "guide" / page).exists(), f"no page {page} of the guide inside")
  check((folder / "weft" / "py.typed").exists(), "no py.typed inside")
  check("weft = weft.jax_plugin" in (info / "entry_points.txt").read_text(), "no entry point for JAX")
  for name in ("LICENSE", "NOTICE"):
    check(list(info.rglob(name)), f"no {name} inside")


def retag(wheel, version):
  """Writes the wheel anew under the tag of the C library that it needs."""
  stem, machine = re.fullmatch(r"(.*)-linux_(.*)\.whl", wheel.name).groups()
  tag = f"manylinux_{version[0]}_{version[1]}_{machine}"
  target = wheel.with_name(f"{stem}-{tag}.whl")
  with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
    rows = []
    for item in old.infolist():
      data = old.read(item)
      if item.filename.endswith(".dist-info/RECORD"):
        record = item
        continue
      if item.filename.endswith(".dist-info/WHEEL"):
        data = data.replace(f"linux_{machine}".encode(), tag.encode())
      digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
      rows.append(f"{item.filename},sha256={digest},{len(data)}\n")
      new.writestr(item, data, zipfile.ZIP_DEFLATED)
    rows.append(f"{record.filename},,\n")
    new.writestr(record, "".join(rows), zipfile.ZIP_DEFLATED)
  wheel.unlink()
  return target


def inspect(wheel):
  """Returns the wheel under its new name."""
  print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
  check(wheel.stat().st_size <= LARGEST, f"larger than {LARGEST >> 20} MB")
  with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    with zipfile.ZipFile(wheel) as archive:
      archive.extractall(folder)
    check_metadata(folder)
    plugin = folder / "weft" / "libpjrt_weft.so"
    check_exports(plugin)
    version = max(map(check_binary, [plugin, *folder.glob("*.data/scripts/weft")]))
  return retag(wheel, version) if "-linux_" in wheel.name else wheel


def attempt(wheel, programs):
  """A fresh environment with JAX from the package index, nothing of this tree on any path."""
  clean = {name: value for name, value in os.environ.items() if not name.startswith(("WEFT", "JAX", "PYTHON", "VIRTUAL_ENV"))}
  with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, env=clean)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel.resolve()], check=True, env=clean, cwd=folder)
    for program in programs:
      shutil.copy(program, folder)
      print(f"{program.name}, in a fresh environment:", flush=True)
      env = dict(clean, JAX_PLATFORMS="weft", XDG_CACHE_HOME=str(folder / "cache"))
      subprocess.run([python, program.name], check=True, env=env, cwd=folder)
    subprocess.run([folder / "venv" / "bin" / "weft", "doc", "add"], check=True, env=clean, cwd=folder, stdout=subprocess.DEVNULL)


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("wheel", type=pathlib.Path)
  parser.add_argument("--try", dest="programs", type=pathlib.Path, action="append", default=[], metavar="PROGRAM")
  options = parser.parse_args()
  wheel = inspect(options.wheel)
  if options.programs:
    attempt(wheel, options.programs)
  print(wheel)


if __name__ == "__main__":
  main()
