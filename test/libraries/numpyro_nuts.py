"""numpyro: NUTS on a linear regression and on eight schools."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, log_likelihood

import common


def regression(x, y):
  slope = numpyro.sample("slope", dist.Normal(0, 2))
  offset = numpyro.sample("offset", dist.Normal(0, 2))
  noise = numpyro.sample("noise", dist.HalfNormal(1))
  numpyro.sample("y", dist.Normal(slope * x + offset, noise), obs=y)


def schools(sigma, y):
  mean = numpyro.sample("mean", dist.Normal(0, 5))
  spread = numpyro.sample("spread", dist.HalfCauchy(5))
  with numpyro.plate("school", len(y)):
    raw = numpyro.sample("raw", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mean + spread * raw, sigma), obs=y)


def sample(model, seed, count, *data):
  mcmc = MCMC(NUTS(model), num_warmup=count, num_samples=count, progress_bar=False)
  mcmc.run(jax.random.key(seed), *data)
  return mcmc.get_samples()


def main():
  x, y = map(jnp.asarray, common.line())
  line = sample(regression, 0, 200, x, y)
  effects = sample(schools, 1, 150, jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18]), jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12]))
  score = log_likelihood(regression, {k: v[:1] * 0 + 1 for k, v in line.items()}, x, y)["y"]
  assert abs(line["slope"].mean() - 1.5) < 0.2
  common.report(
      exact={"log likelihood": score},
      near={"slope": (line["slope"].mean(), 0.05), "offset": (line["offset"].mean(), 0.05), "noise": (line["noise"].mean(), 0.05),
            "mean of schools": (effects["mean"].mean(), 2.0)})


if __name__ == "__main__":
  main()
