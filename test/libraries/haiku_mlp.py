"""dm-haiku with optax: an MLP, a small convolutional network with state, and an LSTM."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax

import common


def convolutional(x, training):
  x = hk.Conv2D(8, 3)(x)
  x = hk.BatchNorm(True, True, 0.9)(x, is_training=training)
  x = hk.MaxPool((2, 2, 1), (2, 2, 1), "VALID")(jax.nn.relu(x))
  return hk.Linear(2)(hk.Flatten()(x))


def recurrent(x):
  """The class of a point from its two coordinates read one after another."""
  core = hk.LSTM(12)
  outputs, _ = hk.dynamic_unroll(core, x.T[..., None], core.initial_state(x.shape[0]))
  return hk.Linear(2)(outputs[-1])


def train(network, x, y, steps, *arguments):
  params, state = network.init(jax.random.PRNGKey(0), x, *arguments)
  optimizer = optax.adam(1e-2)

  def step(params, state, memory):
    def loss_of(params):
      logits, new = network.apply(params, state, None, x, *arguments)
      return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), new

    (loss, state), grads = jax.value_and_grad(loss_of, has_aux=True)(params)
    updates, memory = optimizer.update(grads, memory)
    return optax.apply_updates(params, updates), state, memory, loss

  step = jax.jit(step)
  memory, losses = optimizer.init(params), []
  for _ in range(steps):
    params, state, memory, loss = step(params, state, memory)
    losses.append(loss)
  return jnp.stack(losses)


def main():
  x, y = map(jnp.asarray, common.points())
  images, labels = map(jnp.asarray, common.stripes())
  mlp = train(hk.transform_with_state(lambda x: hk.nets.MLP([32, 32, 2])(x)), x, y, 30)
  cnn = train(hk.transform_with_state(lambda x: convolutional(x, True)), images, labels, 10)
  lstm = train(hk.transform_with_state(recurrent), x, y, 10)
  assert mlp[-1] < mlp[0] and cnn[-1] < cnn[0] and lstm[-1] < lstm[0]
  common.report(exact={"MLP losses": mlp, "CNN losses": cnn, "LSTM losses": lstm})


if __name__ == "__main__":
  main()
