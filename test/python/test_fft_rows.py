"""Batches of real transforms of odd length, two rows of which share one: rows of different sizes, and rows that are not finite."""

import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from weft_jax import LIBRARY, run  # noqa: E402

if not LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)

CODE = """
import jax, jax.numpy as jnp, numpy as np
for n in (11, 37, 1013):
  rows = np.random.default_rng(n).standard_normal((11, n)).astype(np.float32)
  rows[1] *= 1e8
  spectra = np.fft.rfft(rows).astype(np.complex64)
  spoilt, spoilt_spectra = rows.copy(), spectra.copy()
  spoilt[1, 2], spoilt_spectra[1, 2] = np.nan, np.inf
  forward, back = jax.jit(jnp.fft.rfft), jax.jit(lambda x: jnp.fft.irfft(x, n))
  for result, exact in ((forward(rows), np.fft.rfft(rows.astype(np.float64))), (back(spectra), np.fft.irfft(spectra.astype(np.complex128), n))):
    assert (np.abs(result - exact).max(1) < 2e-6 * np.abs(exact).max(1)).all(), n
  for result in (forward(spoilt), back(spoilt_spectra)):
    assert np.isfinite(np.asarray(result)).all(1).tolist() == [k != 1 for k in range(11)], n
print("good")
"""


def test_rows_do_not_disturb_each_other():
    done = run(CODE, JAX_PLATFORMS="weft")
    assert done.stdout == "good\n", done.stderr
