"""Programs that go by the platform's name: WEFT_AS=cpu, hints, libraries with lists of platforms."""

import importlib.util
import json

import pytest
import weft_jax

pytest.importorskip("jax")
needs_plugin = pytest.mark.skipif(not weft_jax.LIBRARY.exists(), reason="the plugin is not built")

ANSWERS = """
import json, jax, jax.numpy as jnp
from jax._src import xla_bridge
d = jax.devices()[0]
print(json.dumps([jax.default_backend(), d.platform, d.client.platform, repr(d), str(d), d.device_kind,
                  "weft" in d.client.platform_version, jnp.ones(3).platform(),
                  sorted(xla_bridge.backends())]))
"""


def answers(**variables):
    result = weft_jax.run(ANSWERS, **variables)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


AS_CPU = ["cpu", "cpu", "cpu", "CpuDevice(id=0)", "cpu:0", "Weft CPU", True, "cpu", ["cpu"]]
AS_WEFT = ["weft", "weft", "weft", "WeftDevice(id=0)", "weft:0", "Weft CPU", True, "weft", ["weft"]]


@needs_plugin
@pytest.mark.parametrize("platforms", ["weft", "cpu", "weft,cpu", None])
def test_weft_is_the_cpu(platforms):
    """XLA's own client of that name is not made, whatever of the two was asked for."""
    assert answers(WEFT_AS="cpu", JAX_PLATFORMS=platforms) == AS_CPU


@needs_plugin
def test_its_own_name():
    assert answers(JAX_PLATFORMS="weft") == AS_WEFT
    assert answers(JAX_PLATFORMS="weft", WEFT_AS="weft") == AS_WEFT


@needs_plugin
def test_both_names_ask_for_it():
    code = """
import jax, jax.numpy as jnp
assert jax.devices("weft") == jax.devices("cpu") == jax.devices()
assert jax.jit(lambda x: x + 1, backend="cpu")(1.0).devices() == set(jax.devices())
with jax.default_device("cpu"):
  assert jnp.ones(3).devices() == set(jax.devices())
print(jax.config.jax_platforms)
"""
    result = weft_jax.run(code, WEFT_AS="cpu", JAX_PLATFORMS="weft,cpu")
    assert result.returncode == 0 and result.stdout.strip() == "cpu", result.stderr


# As libraries do it: a list of platforms, a table of implementations, a device put by name.
LIBRARY = """
import jax, jax.numpy as jnp, numpy as np

IMPLEMENTATIONS = {"cpu": lambda x: x * 2, "gpu": None, "tpu": None}

def choose(device):
  if device.platform not in IMPLEMENTATIONS:
    raise ValueError(f"Unsupported device: {device}")
  return IMPLEMENTATIONS[device.platform]

x = jnp.arange(4.0)
print(float(choose(jax.devices()[0])(x).sum()), float(choose(next(iter(x.devices())))(x).sum()))
y = jax.device_put(x, jax.local_devices(backend="cpu")[0])
assert isinstance(np.asarray(y), np.ndarray)
if jax.default_backend() != "cpu":
  raise ValueError("not on non-CPU backends")
"""


@needs_plugin
def test_library_with_a_list_of_platforms():
    result = weft_jax.run(LIBRARY, WEFT_AS="cpu", JAX_PLATFORMS="weft")
    assert result.returncode == 0 and result.stdout.strip() == "12.0 12.0", result.stderr
    assert "Unsupported device" in weft_jax.run(LIBRARY, JAX_PLATFORMS="weft").stderr


@needs_plugin
def test_topology_by_name():
    code = """
import jax
from jax.experimental import topologies
jax.devices()  # finds the plugins
print({d.platform for d in topologies.get_topology_desc(platform="cpu", topology_name="2").devices})
"""
    result = weft_jax.run(code, WEFT_AS="cpu", JAX_PLATFORMS="weft")
    assert result.returncode == 0 and result.stdout.strip() == "{'cpu'}", result.stderr


def test_other_names_are_refused():
    result = weft_jax.run("import jax; jax.devices()", WEFT_AS="gpu", JAX_PLATFORMS="weft")
    assert result.returncode != 0
    assert "WEFT_AS=gpu: Weft can take the place of cpu only" in result.stderr


def test_xla_does_not_answer_in_its_place():
    """Asked for as the cpu and not there: an error, not XLA's CPU in silence."""
    result = weft_jax.run("import jax; jax.devices()", WEFT_AS="cpu", JAX_PLATFORMS="cpu",
                          WEFT_LIBRARY="/nonexistent.so")
    assert result.returncode != 0 and "weft is not available: no plugin at" in result.stderr


def test_not_asked_for_says_what_to_do():
    result = weft_jax.run("import jax; jax.devices('weft')")
    assert result.returncode != 0
    assert "set JAX_PLATFORMS=weft (or weft,cpu) or WEFT_DEFAULT=1" in result.stderr, result.stderr


@needs_plugin
def test_environment_names_weft():
    result = weft_jax.run("import jax; jax.print_environment_info()", JAX_PLATFORMS="weft")
    assert "device info: Weft CPU-1" in result.stdout, result.stderr


# A module in the place of mujoco.mjx, whose put_model chooses by a list of platforms.
MJX_IO = """
class types:
  class Impl:
    JAX = "jax"
def _resolve_impl(device):
  raise ValueError(f"Unsupported device: {device}")
"""


@needs_plugin
@pytest.mark.parametrize("early", [True, False])
def test_module_is_patched_whenever_it_is_imported(early, tmp_path):
    package = tmp_path / "mujoco" / "mjx" / "_src"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").write_text("")
    (package / "io.py").write_text(MJX_IO)
    lines = ["from mujoco.mjx._src import io", "jax.devices()"]
    code = "\n".join(["import sys, inspect, jax", f"sys.path.insert(0, {str(tmp_path)!r})",
                      *(lines if early else reversed(lines)),
                      "print(io._resolve_impl(jax.devices()[0]), 'Unsupported' in inspect.getsource(io))"])
    result = weft_jax.run(code, JAX_PLATFORMS="weft")
    assert result.stdout.strip() == "jax True", result.stderr
    (package / "io.py").write_text("def resolve(device): pass\n")
    result = weft_jax.run(code, JAX_PLATFORMS="weft")
    assert "mujoco.mjx._src.io is not as it was" in result.stderr


MJX = """
import jax, jax.numpy as jnp, mujoco, numpy as np
from mujoco import mjx
model = mujoco.MjModel.from_xml_string('''
<mujoco><option timestep="0.005" iterations="1" ls_iterations="4"/>
 <worldbody><geom type="plane" size="5 5 .1"/>
  <body pos="0 0 .3"><freejoint/><geom type="sphere" size=".1" mass="1"/>
   <body pos="0 0 -.1"><joint name="j" type="hinge" axis="0 1 0" damping=".1"/>
    <geom type="capsule" size=".04" fromto="0 0 0 0 0 -.1" mass=".3"/></body></body></worldbody>
 <actuator><motor joint="j"/></actuator></mujoco>''')
m, d = mjx.put_model(model), mjx.put_data(model, mujoco.MjData(model))
def loss(control):
  after = mjx.step(m, d.replace(ctrl=control))
  return (after.qpos ** 2).sum() + (after.qvel ** 2).sum()
value, grad = jax.jit(jax.value_and_grad(loss))(jnp.array([0.3]))
print(jax.default_backend(), float(value), float(grad[0]))
"""


@needs_plugin
@pytest.mark.skipif(importlib.util.find_spec("mujoco") is None, reason="mujoco-mjx is not installed")
def test_mjx_step_and_gradient():
    ours, theirs = (weft_jax.run(MJX, JAX_PLATFORMS=p, timeout=600) for p in ("weft", "cpu"))
    assert ours.stdout.startswith("weft "), ours.stderr
    numbers = [[float(x) for x in run.stdout.split()[1:]] for run in (ours, theirs)]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-5)
