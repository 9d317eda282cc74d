"""flax.nnx with optax: an MLP (with dropout) and a CNN (with batch norm), a few steps of Adam each."""

from flax import nnx
import jax
import jax.numpy as jnp
import optax

import common


class Mlp(nnx.Module):

  def __init__(self, rngs):
    self.hidden = nnx.Linear(2, 32, rngs=rngs)
    self.dropout = nnx.Dropout(0.1, rngs=rngs)
    self.out = nnx.Linear(32, 2, rngs=rngs)

  def __call__(self, x):
    return self.out(self.dropout(nnx.gelu(self.hidden(x))))


class Cnn(nnx.Module):

  def __init__(self, rngs):
    self.conv1 = nnx.Conv(1, 8, (3, 3), rngs=rngs)
    self.norm = nnx.BatchNorm(8, rngs=rngs)
    self.conv2 = nnx.Conv(8, 8, (3, 3), strides=2, rngs=rngs)
    self.out = nnx.Linear(8 * 9, 2, rngs=rngs)

  def __call__(self, x):
    x = nnx.max_pool(nnx.relu(self.norm(self.conv1(x))), (2, 2), (2, 2))
    x = nnx.relu(self.conv2(x))
    return self.out(x.reshape(x.shape[0], -1))


@nnx.jit
def step(model, optimizer, x, y):
  def loss_of(model):
    return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

  loss, grads = nnx.value_and_grad(loss_of)(model)
  optimizer.update(model, grads)
  return loss


def train(model, rate, steps, x, y):
  optimizer = nnx.Optimizer(model, optax.adam(rate), wrt=nnx.Param)
  return jnp.stack([step(model, optimizer, x, y) for _ in range(steps)])


def main():
  mlp = train(Mlp(nnx.Rngs(0)), 1e-2, 30, *map(jnp.asarray, common.points()))
  cnn = train(Cnn(nnx.Rngs(1)), 3e-3, 12, *map(jnp.asarray, common.stripes()))
  assert mlp[-1] < mlp[0] and cnn[-1] < cnn[0]
  common.report(exact={"MLP losses": mlp, "CNN losses": cnn})


if __name__ == "__main__":
  main()
