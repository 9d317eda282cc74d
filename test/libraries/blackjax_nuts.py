"""blackjax: window adaptation and NUTS, a fixed HMC trajectory, and sequential Monte Carlo."""

import blackjax
import blackjax.smc.resampling
import jax
import jax.numpy as jnp

import common


def log_density(position, x, y):
  slope, offset, log_noise = position["slope"], position["offset"], position["log_noise"]
  residual = (y - slope * x - offset) * jnp.exp(-log_noise)
  prior = -0.5 * (slope**2 + offset**2) / 4 - 0.5 * log_noise**2
  return prior - 0.5 * jnp.sum(residual**2) - x.size * log_noise


def main():
  x, y = map(jnp.asarray, common.line())
  density = lambda position: log_density(position, x, y)
  start = {"slope": jnp.float32(1), "offset": jnp.float32(0), "log_noise": jnp.float32(0)}

  warmup = blackjax.window_adaptation(blackjax.nuts, density)
  (state, parameters), _ = warmup.run(jax.random.key(0), start, 200)
  kernel = jax.jit(blackjax.nuts(density, **parameters).step)

  def one(state, key):
    state, _ = kernel(key, state)
    return state, state.position

  _, samples = jax.lax.scan(one, state, jax.random.split(jax.random.key(1), 200))

  hmc = blackjax.hmc(density, step_size=0.05, inverse_mass_matrix=jnp.ones(3), num_integration_steps=5)
  moved, information = jax.jit(hmc.step)(jax.random.key(2), hmc.init(start))

  weights = jnp.exp(jax.random.normal(jax.random.key(3), (64,)))
  chosen = blackjax.smc.resampling.systematic(jax.random.key(4), weights / weights.sum(), 64)

  assert abs(samples["slope"].mean() - 1.5) < 0.2
  common.report(
      exact={"one HMC step": jnp.stack(list(moved.position.values())), "energy": information.energy, "resampled": chosen},
      near={"slope": (samples["slope"].mean(), 0.05), "offset": (samples["offset"].mean(), 0.05),
            "log noise": (samples["log_noise"].mean(), 0.1)})


if __name__ == "__main__":
  main()
