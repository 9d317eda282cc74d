"""A gymnast swings up: a robot of three links in MuJoCo's MJX, whose motors are planned by the cross-entropy method."""

import show  # first: it chooses the platform

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import mjx

STEPS, HOLD = 40, 4  # motor commands of a plan; time steps that each is held for

# Hands at the bar have no motor; hips and knees have one each.
GYMNAST = """
<mujoco>
  <option timestep="0.01" integrator="implicitfast"><flag contact="disable" constraint="disable"/></option>
  <default><joint type="hinge" axis="0 1 0" damping="0.2" armature="0.02"/><geom type="capsule" size="0.04" density="1000"/></default>
  <worldbody>
    <body><joint name="hands"/><geom fromto="0 0 0 0 0 -0.5"/>
      <body name="hips" pos="0 0 -0.5"><joint name="hips"/><geom fromto="0 0 0 0 0 -0.4"/>
        <body name="knees" pos="0 0 -0.4"><joint name="knees"/><geom fromto="0 0 0 0 0 -0.4"/>
          <site name="feet" pos="0 0 -0.4"/></body></body></body>
  </worldbody>
  <actuator><motor joint="hips" gear="20"/><motor joint="knees" gear="10"/></actuator>
</mujoco>
"""


# ---- the program


def rollout(model, data, plan):
    """The gymnast's joints, from hands to feet, after each command."""

    def command(data, torque):
        data = data.replace(ctrl=torque)
        data = jax.lax.fori_loop(0, HOLD, lambda _, data: mjx.step(model, data), data)
        return data, jnp.concatenate([data.xpos[2:], data.site_xpos])[:, ::2]

    return jax.lax.scan(command, data, jnp.tanh(plan))[1]


def cost_of(model, data, plan):
    """How far the feet are below where they could be, in the last third most; and a little for effort."""
    heights = rollout(model, data, plan)[:, -1, 1]
    return jnp.mean((1.3 - heights) * jnp.linspace(0, 1, STEPS) ** 2) + 1e-3 * jnp.mean(plan**2)


def plan_motion(model, data, keys, candidates):
    """Each round draws plans, keeps the best tenth, and draws the next ones around those."""

    def improve(state, key):
        mean, spread = state
        noise = jax.random.normal(key, (candidates, *mean.shape))
        plans = mean + spread * noise
        costs = jax.vmap(lambda plan: cost_of(model, data, plan))(plans)
        best = plans[jnp.argsort(costs)[:candidates // 10]]
        return (best.mean(0), best.std(0) + 0.05), costs.min()

    shape = STEPS, model.nu
    (mean, _), costs = jax.lax.scan(improve, (jnp.zeros(shape), jnp.ones(shape)), jax.vmap(jax.random.key)(keys))
    return dict(costs=costs, first=costs[:3], joints=rollout(model, data, mean))


# ---- the picture


def draw(result):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
    joints = np.concatenate([np.zeros((STEPS, 1, 2)), result["joints"]], 1)
    for k, figure_of in enumerate(joints):
        left.plot(*figure_of.T, "-", color=plt.cm.viridis(k / STEPS), lw=2, alpha=0.3 + 0.7 * k / STEPS, solid_capstyle="round")
    left.plot(0, 0, "ko")
    left.set_aspect("equal")
    left.set_title(f"{STEPS * HOLD * 0.01:.1f} s, from dark to light", fontsize=9)
    right.plot(result["costs"])
    right.set_xlabel("round")
    right.set_ylabel("cost of the best plan")
    return figure


def program(quick):
    rounds, candidates = (2, 20) if quick else (30, 100)
    model = mjx.put_model(mujoco.MjModel.from_xml_string(GYMNAST))
    data = mjx.make_data(model)
    run = lambda model, data, keys: plan_motion(model, data, keys, candidates)
    return run, (*jax.tree.map(np.asarray, (model, data)), np.arange(rounds, dtype=np.uint32))


if __name__ == "__main__":
    # Choosing the best amplifies rounding: the first rounds are compared.
    show.main(program, draw, compared=["first"], tolerance=1e-3)
