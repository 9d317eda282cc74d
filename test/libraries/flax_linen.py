"""flax.linen with optax: an MLP and a CNN with batch statistics and dropout; clipping and a learning-rate schedule."""

from flax import linen as nn
import jax
import jax.numpy as jnp
import optax

import common


class Mlp(nn.Module):

  @nn.compact
  def __call__(self, x, train):
    x = nn.LayerNorm()(nn.tanh(nn.Dense(32)(x)))
    return nn.Dense(2)(nn.Dropout(0.1, deterministic=not train)(x))


class Cnn(nn.Module):

  @nn.compact
  def __call__(self, x, train):
    x = nn.BatchNorm(use_running_average=not train)(nn.Conv(8, (3, 3))(x))
    x = nn.avg_pool(nn.swish(x), (2, 2), (2, 2))
    x = nn.relu(nn.Conv(8, (3, 3), strides=2)(x))
    return nn.Dense(2)(x.reshape(x.shape[0], -1))


def train(model, steps, x, y):
  key = jax.random.key(0)
  variables = model.init({"params": key, "dropout": key}, x, train=False)
  params, stats = variables["params"], {k: v for k, v in variables.items() if k != "params"}
  schedule = optax.cosine_decay_schedule(1e-2, steps)
  optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))
  state = optimizer.init(params)

  @jax.jit
  def step(params, stats, state, key):
    def loss_of(params):
      logits, new = model.apply({"params": params, **stats}, x, train=True, rngs={"dropout": key}, mutable=list(stats))
      return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), new

    (loss, new), grads = jax.value_and_grad(loss_of, has_aux=True)(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), dict(new), state, loss

  losses = []
  for k in range(steps):
    params, stats, state, loss = step(params, stats, state, jax.random.fold_in(key, k))
    losses.append(loss)
  evaluated = model.apply({"params": params, **stats}, x, train=False)
  return jnp.stack(losses), evaluated


def main():
  mlp, _ = train(Mlp(), 30, *map(jnp.asarray, common.points()))
  cnn, logits = train(Cnn(), 12, *map(jnp.asarray, common.stripes()))
  assert mlp[-1] < mlp[0] and cnn[-1] < cnn[0]
  common.report(exact={"MLP losses": mlp, "CNN losses": cnn}, near={"CNN logits": (logits, 0.02)})


if __name__ == "__main__":
  main()
