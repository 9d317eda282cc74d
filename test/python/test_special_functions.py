"""Functions of CHLO, which text may contain: what import makes of them, compared with SciPy."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from jax import lax  # noqa: E402
import scipy.special  # noqa: E402

from weft_eval import evaluate  # noqa: E402

NAN, INF = np.nan, np.inf


def spread(low, high, count=400):
    return np.random.default_rng(0).uniform(low, high, count)


def powers_of_ten(low, high, count=200):
    return 10.0 ** np.random.default_rng(1).uniform(low, high, count)


def erfc(x):
    """SciPy's own loses digits where the function is tiny."""
    tail = scipy.special.erfcx(x) * np.exp(-np.longdouble(x) ** 2)
    return np.where((x > 1) & np.isfinite(x), tail, scipy.special.erfc(x)).astype(np.float64)


def by_count(n, x):
    return np.where(n == 0, scipy.special.digamma(x), scipy.special.polygamma(n.astype(int), x))


# Function, reference, arguments, and the relative tolerance in f64.
FUNCTIONS = {
    "lgamma": (lax.lgamma, scipy.special.gammaln,
               (np.concatenate([spread(-20, 50), powers_of_ten(-10, 12), [INF, -INF, NAN, 0.0, -3.0]]),), 4e-14),
    "digamma": (lax.digamma, scipy.special.digamma, (np.concatenate([spread(-20, 50), powers_of_ten(-10, 12), [INF, NAN, -3.0]]),), 4e-14),
    "erfc": (lax.erfc, erfc, (np.concatenate([spread(-3, 3), spread(3, 26), [0.0, INF, -INF, NAN, 40.0]]),), 2e-14),
    "erf_inv": (lax.erf_inv, scipy.special.erfinv,
                (np.concatenate([spread(-1, 1), 1 - powers_of_ten(-15, -1), powers_of_ten(-300, -1), [0.0, 1.0, -1.0, 1.5, NAN]]),), 2e-14),
    "bessel_i1e": (lax.bessel_i1e, scipy.special.i1e, (np.concatenate([spread(-30, 30), powers_of_ten(-8, 8), [0.0, INF, NAN]]),), 2e-14),
    "zeta": (lax.zeta, scipy.special.zeta, (np.concatenate([spread(1.001, 30), [1.0, 0.5]]), np.concatenate([spread(0.01, 40), [2.0, 2.0]])), 2e-14),
    "polygamma": (lax.polygamma, by_count, (np.arange(400) % 6.0, np.abs(spread(0.01, 40)) + 0.01), 4e-14),
    "nextafter": (lax.nextafter, np.nextafter,
                  (np.array([0.0, -0.0, 1.0, 1.0, -1.0, 1.0, 0.0, INF, NAN, 1.0, -INF, 5e-324]),
                   np.array([1.0, -1.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, NAN, 0.0, 0.0])), 0),
    "atan": (lax.atan, np.arctan, (np.concatenate([spread(-5, 5), [INF, -INF, NAN, -0.0]]),), 1e-15),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_function(name, dtype):
    function, reference, arguments, tolerance = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        arguments = [a.astype(dtype) for a in arguments]
        want = reference(*arguments) if name == "nextafter" else reference(*[a.astype(np.float64) for a in arguments])
        want = want.astype(dtype)
    if name == "digamma":  # SciPy and JAX differ at poles and at infinity, where JAX is followed.
        want[arguments[0] == -3] = NAN
    if name == "lgamma":
        want[arguments[0] == -INF] = INF
    with jax.enable_x64(True):
        text = jax.jit(function).lower(*arguments).as_text()
    assert "chlo." in text
    (got,) = evaluate(text, *arguments)
    assert got.dtype == dtype
    # The logarithm of the gamma function is absolutely, not relatively, exact near its zeros 1 and 2.
    absolute = 1e-14 if name in ("lgamma", "digamma") and dtype == np.float64 else 0
    relative = tolerance if dtype == np.float64 else (0 if name == "nextafter" else 2e-7)
    np.testing.assert_allclose(got, want, rtol=relative, atol=absolute)
    zeros = want == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


def test_complex_atan():
    r = np.random.default_rng(0)
    z = (r.standard_normal(100) + 1j * r.standard_normal(100)).astype(np.complex64)
    text = jax.jit(lax.atan).lower(z).as_text()
    (got,) = evaluate(text, z)
    np.testing.assert_allclose(got, np.arctan(z), rtol=1e-5)
