"""equinox and diffrax: an adaptive ODE solve, an event, an SDE, and a neural ODE trained with optax."""

import diffrax
import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import optax

import common


def lotka_volterra():
  def field(t, y, args):
    prey, predator = y
    a, b, c, d = args
    return jnp.stack([a * prey - b * prey * predator, -c * predator + d * prey * predator])

  solution = diffrax.diffeqsolve(
      diffrax.ODETerm(field), diffrax.Tsit5(), t0=0, t1=10, dt0=0.1, y0=jnp.array([10.0, 10.0]), args=(0.1, 0.02, 0.4, 0.02),
      saveat=diffrax.SaveAt(ts=jnp.linspace(0, 10, 11)), stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-5))
  return solution.ys


def stiff():
  def field(t, y, args):
    return jnp.stack([-0.04 * y[0] + 1e2 * y[1] * y[2], 0.04 * y[0] - 1e2 * y[1] * y[2] - 30.0 * y[1]**2, 30.0 * y[1]**2])

  solution = diffrax.diffeqsolve(
      diffrax.ODETerm(field), diffrax.Kvaerno3(), t0=0, t1=5, dt0=0.01, y0=jnp.array([1.0, 0.0, 0.0]),
      stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6))
  return solution.ys


def brownian():
  motion = diffrax.VirtualBrownianTree(0, 1, tol=1e-2, shape=(), key=jax.random.key(3))
  terms = diffrax.MultiTerm(
      diffrax.ODETerm(lambda t, y, args: -y), diffrax.ControlTerm(lambda t, y, args: jnp.float32(0.2), motion))
  return diffrax.diffeqsolve(terms, diffrax.Euler(), t0=0, t1=1, dt0=0.05, y0=jnp.float32(1.0)).ys


def checkpointed_loops():
  """Gradients through loops that keep a few of their states and compute the others anew."""
  def last(a, kind, steps):
    return eqxi.while_loop(
        lambda c: c[0] < steps, lambda c: (c[0] + 1, jnp.sin(c[1]) * a), (0, a), kind=kind, max_steps=16)[1]

  def scanned(a):
    return eqxi.scan(lambda c, x: (jnp.sin(c) * x, c), a, jnp.linspace(0.5, 1.5, 9), kind="checkpointed")[0]

  gradients = [jax.jit(jax.value_and_grad(last), static_argnums=(1, 2))(0.5, "checkpointed", n) for n in (0, 1, 7, 16)]
  bounded = [jax.jit(jax.value_and_grad(last), static_argnums=(1, 2))(0.5, "bounded", n) for n in (0, 1, 7, 16)]
  assert jnp.allclose(jnp.array(gradients), jnp.array(bounded))
  return jnp.array([*gradients, jax.jit(jax.value_and_grad(scanned))(0.5)])


def adjoints():
  """Of a solve with steps that are chosen on the way."""
  def last(a, adjoint):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, a: -a * y + jnp.sin(t)), diffrax.Tsit5(), t0=0, t1=2, dt0=0.1, y0=jnp.array([1.0, 2.0]), args=a,
        adjoint=adjoint, max_steps=64, stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-4)).ys.sum()

  kinds = [diffrax.RecursiveCheckpointAdjoint(), diffrax.RecursiveCheckpointAdjoint(checkpoints=3), diffrax.DirectAdjoint()]
  return jnp.array([jax.jit(jax.value_and_grad(lambda a, kind=kind: last(a, kind)))(1.5) for kind in kinds])


class NeuralOde(eqx.Module):
  mlp: eqx.nn.MLP

  def __init__(self, key):
    self.mlp = eqx.nn.MLP(2, 2, 16, 1, activation=jnp.tanh, key=key)

  def __call__(self, ts, y0):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: self.mlp(y)), diffrax.Heun(), t0=ts[0], t1=ts[-1], dt0=0.25, y0=y0,
        saveat=diffrax.SaveAt(ts=ts)).ys


def neural_ode(steps=6):
  ts = jnp.linspace(0.0, 2.0, 6)
  y0 = jax.random.normal(jax.random.key(0), (4, 2))
  target = jax.vmap(lambda y: jnp.stack([jnp.cos(ts) * y[0] + jnp.sin(ts) * y[1], jnp.cos(ts) * y[1] - jnp.sin(ts) * y[0]], -1))(y0)
  model = NeuralOde(jax.random.key(1))
  optimizer = optax.adam(1e-2)
  state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

  @eqx.filter_jit
  def step(model, state):
    loss, grads = eqx.filter_value_and_grad(
        lambda model: jnp.mean((jax.vmap(model, in_axes=(None, 0))(ts, y0) - target)**2))(model)
    updates, state = optimizer.update(grads, state)
    return eqx.apply_updates(model, updates), state, loss

  losses = []
  for _ in range(steps):
    model, state, loss = step(model, state)
    losses.append(loss)
  return jnp.stack(losses)


def main():
  losses = neural_ode()
  assert losses[-1] < losses[0]
  common.report(exact={
      "predator and prey": lotka_volterra(), "stiff": stiff(), "SDE": brownian(), "neural ODE losses": losses,
      "checkpointed loops": checkpointed_loops(), "adjoints": adjoints()})


if __name__ == "__main__":
  main()
