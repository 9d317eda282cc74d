"""Writes the tests of tensorflow_probability.substrates.jax: those of a checkout of TensorFlow Probability, rewritten for JAX as its own build does.

  python test/libraries/suite_tfp.py ../probability ../checkouts/tfp-jax

They are in its BUILD files as `multi_substrate_py_test` that does not leave out JAX. Libraries of tests that the wheel lacks are written
beside them, and a conftest.py adds them to its packages.
"""

import io
import pathlib
import re
import sys

from absl import flags

HELPERS = ("bijectors/bijector_test_util.py", "bijectors/hypothesis_testlib.py", "distributions/discrete_rejection_sampling.py",
           "distributions/hypothesis_testlib.py", "distributions/internal/statistical_testing.py", "experimental/mcmc/internal/test_fixtures.py",
           "experimental/tangent_spaces/spaces_test_util.py", "internal/distribute_test_lib.py", "internal/hypothesis_testlib.py",
           "internal/numerics_testing.py")
CONFTEST = '''import importlib
import pathlib

from absl import flags

flags.FLAGS.mark_as_parsed()  # Seeds of tests ask for one.
helpers = pathlib.Path(__file__).parent / "helpers"
for folder in sorted({path.parent for path in helpers.rglob("*.py")}):
  name = "tensorflow_probability.substrates.jax." + ".".join(folder.relative_to(helpers).parts)
  try:
    importlib.import_module(name).__path__.append(str(folder))
  except ImportError:  # A package that the wheel lacks as a whole.
    importlib.import_module(name.rpartition(".")[0]).__path__.append(str(folder.parent))
'''


def tests_of(python):
  """Test files for JAX, relative to the folder `python` of a checkout."""
  for build in sorted(python.rglob("BUILD")):
    for rule in re.findall(r"^multi_substrate_py_test\((.*?)^\)", build.read_text(), re.S | re.M):
      left_out = re.search(r"disabled_substrates = \[([^\]]*)\]", rule)
      if not left_out or "jax" not in left_out[1]:
        for source in re.findall(r'"([^"]+\.py)"', re.search(r"srcs = \[(.*?)\]", rule, re.S)[1]):
          yield (build.parent / source).relative_to(python)


def rewriter(package):
  """What turns one file into its text for JAX: `rewrite.py` of the checkout, which prints to the file 1."""
  names = {"__name__": "rewrite"}
  path = package / "substrates" / "meta" / "rewrite.py"
  exec(compile(path.read_text(), path, "exec"), names)  # pylint: disable=exec-used
  flags.FLAGS(["rewrite", "--numpy_to_jax"])

  def rewrite(file):
    text = io.StringIO()
    names["open"] = lambda name, *rest, **options: text if name == 1 else open(name, *rest, encoding="utf-8")
    names["main"](["rewrite", str(file)])
    return text.getvalue()

  return rewrite


def main(checkout, out):
  package = checkout / "tensorflow_probability"
  rewrite = rewriter(package)
  for folder, files in (("tfp_tests", sorted(set(tests_of(package / "python")))), ("helpers", map(pathlib.Path, HELPERS))):
    for file in files:
      target = out / folder / file
      target.parent.mkdir(parents=True, exist_ok=True)
      target.write_text(rewrite(package / "python" / file))
      for parent in target.relative_to(out).parents[:-1] if folder == "tfp_tests" else ():  # `math` and `random` are no packages of ours.
        (out / parent / "__init__.py").touch()
  (out / "conftest.py").write_text(CONFTEST)


if __name__ == "__main__":
  main(*map(pathlib.Path, sys.argv[1:]))
