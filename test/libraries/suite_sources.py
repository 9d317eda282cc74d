"""Where a library's tests come from: its source archive of PyPI, or a checkout; and the environment they run in."""

import pathlib
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def pinned(entry):
  """(name, version) of the library itself: its first requirement; a suite that is no package says its version."""
  name, _, version = entry["requires"][0].partition("==")
  return name, entry.get("version", version)


def files_of(entry, folder):
  """The test files in a checkout, relative to it."""
  return sorted({str(path.relative_to(folder)) for pattern in entry["tests"] for path in folder.glob(pattern)})


def download(name, version, folder):
  """The source archive of a release; None when there is none. `pip download` would also build it, for its metadata."""
  from pip._internal.commands import create_command
  from pip._internal.network.download import Downloader
  command = create_command("download")
  with command.main_context():
    options, _ = command.parse_args([name])
    session = command.get_default_session(options)
    finder = command._build_package_finder(options, session)  # pylint: disable=protected-access
    for candidate in finder.find_all_candidates(name):
      if str(candidate.version) == version and not candidate.link.is_wheel:
        return pathlib.Path(Downloader(session, "off")(candidate.link, str(folder))[0])
  return None


def make_packages(entry, folder):
  """Archives may lack the `__init__.py` without which tests cannot import what lies beside them."""
  for file in files_of(entry, folder):
    path = folder / file
    if any(line.startswith("from .") for line in path.read_text().splitlines()):
      (path.parent / "__init__.py").touch()


def unpacked_archive(entry, folder):
  """The folder that the source archive was unpacked into."""
  name, version = pinned(entry)
  folder = folder / f"{name}-{version}"
  if not (folder / "unpacked").exists():
    folder.mkdir(parents=True, exist_ok=True)
    path = download(name, version, folder)
    if path is None:
      return None
    with tarfile.open(path) as archive:
      archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    for path in folder.iterdir():
      if path.is_dir():
        make_packages(entry, path)
    (folder / "unpacked").touch()
  return next((path for path in folder.iterdir() if path.is_dir()), None)


def find(library, entry, checkouts, archives):
  """(folder of the sources, "") or (None, why there is none)."""

  def checkout():
    return (checkouts / library).resolve() if checkouts else None

  def archive():
    return unpacked_archive(entry, archives)

  why = []
  for place in (checkout, archive) if entry.get("prefer") == "checkout" else (archive, checkout):
    try:
      folder = place()
    except Exception as error:  # pip's own, of many kinds: no network, no such release.
      why.append(f"source archive: {error}")
      continue
    if folder and files_of(entry, folder):
      return folder, ""
    why.append(f"no tests in its {'checkout ' + str(folder) if place is checkout else 'source archive'}" if folder
               else "no source archive" if place is archive else "no --sources")
  return None, f"{'; '.join(why)}; DIR/{library} of --sources DIR may be a checkout of {' '.join(pinned(entry))}"


def install(library, entry):
  """The Python of the library's environment with what it requires; raises CalledProcessError when that cannot be had."""
  folder = ROOT / (".venv-libraries" + (f"-{entry['environment']}" if "environment" in entry else ""))
  python, stamp = folder / "bin" / "python", folder / f"suite-{library}.txt"
  wanted = "\n".join(entry["requires"]) + "\n"
  if not stamp.exists() or stamp.read_text() != wanted:
    print(f"{library}: installing {' '.join(entry['requires'])}", file=sys.stderr, flush=True)
    if not python.exists():
      subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    constraints = ["-c", str(HERE / "requirements.txt")] if "environment" not in entry else []
    subprocess.run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *constraints, "pytest",
                    *entry["requires"]], check=True)
    stamp.write_text(wanted)
  return str(python)
