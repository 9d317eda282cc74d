"""Batches of real transforms of odd length, two rows of which share one: rows of different sizes, and rows that are not finite."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest


@pytest.mark.parametrize("n", [11, 37, 1013])
def test_rows_do_not_disturb_each_other(n):
  rows = np.random.default_rng(n).standard_normal((11, n)).astype(np.float32)
  rows[1] *= 1e8
  spectra = np.fft.rfft(rows).astype(np.complex64)
  spoilt, spoilt_spectra = rows.copy(), spectra.copy()
  spoilt[1, 2], spoilt_spectra[1, 2] = np.nan, np.inf
  got = jax.jit(jnp.fft.rfft)(rows), jax.jit(lambda x: jnp.fft.irfft(x, n))(spectra)
  for result, exact in zip(got, (np.fft.rfft(rows.astype(np.float64)), np.fft.irfft(spectra.astype(np.complex128), n))):
    assert (np.abs(result - exact).max(1) < 2e-6 * np.abs(exact).max(1)).all()
  for result in (jax.jit(jnp.fft.rfft)(spoilt), jax.jit(lambda x: jnp.fft.irfft(x, n))(spoilt_spectra)):
    assert np.isfinite(np.asarray(result)).all(1).tolist() == [k != 1 for k in range(11)]
