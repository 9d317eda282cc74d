"""Networks by architecture, as their papers' readers write them in plain JAX: images, waves, generators, normalisation by batch."""

import jax
from jax import lax
import jax.numpy as jnp
import numpy as np

import harness

PROGRAMS = []
F32, BF16 = np.float32, jnp.bfloat16
relu, silu, gelu = jax.nn.relu, jax.nn.silu, jax.nn.gelu


def numbers(seed, *shape, scale=1.0, dtype=F32):
  return (np.random.default_rng(seed).standard_normal(shape, F32) * F32(scale)).astype(dtype)


def is_shape(node):
  return isinstance(node, tuple) and all(isinstance(size, int) for size in node)


def weights_of(shapes, dtype=F32):
  """Matrices and windows by the square root of what is summed, vectors near one."""
  def one(path, shape):
    seed = sum(ord(c) * (i + 1) for i, c in enumerate(jax.tree_util.keystr(path)))
    if len(shape) < 2:
      return (1 + numbers(seed, *shape, scale=0.1)).astype(dtype)
    return numbers(seed, *shape, scale=float(np.sqrt(1.5 / np.prod(shape[:-1]))), dtype=dtype)
  return jax.tree_util.tree_map_with_path(one, shapes, is_leaf=is_shape)


def trained(apply):
  """The value and a step of gradient descent with momentum."""
  def step(weights, velocity, *batch):
    loss = lambda w: jnp.mean(jnp.square(apply(w, *batch).astype(F32)))
    value, gradient = jax.value_and_grad(loss)(weights)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, gradient)
    return value, jax.tree.map(lambda w, v: w - 0.01 * v, weights, velocity), velocity
  return step


def network(name, kind, shapes, apply, *batch, forms=("forward", "training"), dtype=F32):
  """The network and a training step of it."""
  for form in forms:
    function = apply if form == "forward" else trained(apply)
    cast = lambda x: x.astype(dtype) if x.dtype == F32 else x
    PROGRAMS.append(harness.Program(
        name=f"{name}_{form}", kind=f"{kind} {form}", tolerance=2e-3 if dtype == F32 else 0.1,
        make=lambda function=function, states=range(1 if form == "forward" else 2): (
            function, (*(weights_of(shapes, dtype) if k == 0 else jax.tree.map(np.zeros_like, weights_of(shapes, dtype)) for k in states),
                       *(cast(make()) for make in batch)))))


def convolve(x, w, stride=1, groups=1, dilation=1, padding="SAME"):
  space = {3: "W", 4: "HW", 5: "DHW"}[x.ndim]
  rank = len(space)
  return lax.conv_general_dilated(x, w, (stride,) * rank, padding, rhs_dilation=(dilation,) * rank, feature_group_count=groups,
                                  dimension_numbers=(f"N{space}C", f"{space}IO", f"N{space}C"))


def pool(x, window, stride, kind=lax.max, padding="SAME"):
  ends = lambda size: (1, *(size,) * (x.ndim - 2), 1)
  start = np.array(-np.inf if kind is lax.max else 0, x.dtype)
  return lax.reduce_window(x, start, kind, ends(window), ends(stride), padding)


def batch_norm(x, scale, shift):
  axes = tuple(range(x.ndim - 1))
  mean, variance = jnp.mean(x, axes), jnp.var(x, axes)
  return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


def layer_norm(x, scale, shift):
  mean = jnp.mean(x, -1, keepdims=True)
  variance = jnp.mean(jnp.square(x - mean), -1, keepdims=True)
  return (x - mean) / jnp.sqrt(variance + 1e-6) * scale + shift


def group_norm(x, scale, shift, groups=8):
  y = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
  y = (y - y.mean((1, 3), keepdims=True)) * lax.rsqrt(y.var((1, 3), keepdims=True) + 1e-5)
  return y.reshape(x.shape) * scale + shift


# Images.


def bottleneck(w, x, stride=1):
  y = relu(batch_norm(convolve(x, w["a"]), *w["na"]))
  y = relu(batch_norm(convolve(y, w["b"], stride), *w["nb"]))
  y = batch_norm(convolve(y, w["c"]), *w["nc"])
  return relu(y + (convolve(x, w["skip"], stride) if "skip" in w else x))


def bottlenecks(w, x):
  x = bottleneck(w[0], x, 2)
  return bottleneck(w[1], x)


def bottleneck_shapes(a, b, c, skip):
  return {"a": (1, 1, a, b), "b": (3, 3, b, b), "c": (1, 1, b, c), "na": [(b,), (b,)], "nb": [(b,), (b,)], "nc": [(c,), (c,)],
          **({"skip": (1, 1, a, c)} if skip else {})}


network("bottleneck_resnet", "residual", [bottleneck_shapes(128, 64, 256, True), bottleneck_shapes(256, 64, 256, False)],
        bottlenecks, lambda: numbers(1, 4, 28, 28, 128))
network("bottleneck_resnet_bf16", "residual", [bottleneck_shapes(128, 64, 256, True), bottleneck_shapes(256, 64, 256, False)],
        bottlenecks, lambda: numbers(1, 4, 28, 28, 128), dtype=BF16, forms=("forward",))  # gradients cancel: XLA's are noise in bf16


def inverted(w, x):
  for layer in w:
    width = layer["up"].shape[-1]
    y = silu(batch_norm(convolve(x, layer["up"]), *layer["n"]))
    y = silu(convolve(y, layer["depth"], groups=width))
    s = jax.nn.sigmoid(silu(jnp.mean(y, (1, 2)) @ layer["squeeze"]) @ layer["excite"])
    x = x + convolve(y * s[:, None, None, :], layer["down"])
  return jnp.mean(x, (1, 2))


network("efficientnet", "depthwise", [{"up": (1, 1, 40, 240), "n": [(240,), (240,)], "depth": (k, k, 1, 240), "squeeze": (240, 10),
                                       "excite": (10, 240), "down": (1, 1, 240, 40)} for k in (3, 5)],
        inverted, lambda: numbers(2, 4, 28, 28, 40))


def mobile_first(w, x):
  """Channels first, as ported from other frameworks."""
  conv = lambda x, w, stride=1, groups=1: lax.conv_general_dilated(x, w, (stride, stride), "SAME", feature_group_count=groups)
  x = jax.nn.relu6(conv(x, w["stem"], 2))
  for depth, point, stride in zip(w["depth"], w["point"], (1, 2, 1)):
    x = jax.nn.relu6(conv(x, depth, stride, x.shape[1]))
    x = jax.nn.relu6(conv(x, point))
  return jnp.mean(x, (2, 3)) @ w["out"]


network("mobilenet_first", "depthwise", {"stem": (32, 3, 3, 3), "depth": [(32, 1, 3, 3), (64, 1, 3, 3), (128, 1, 3, 3)],
                                         "point": [(64, 32, 1, 1), (128, 64, 1, 1), (128, 128, 1, 1)], "out": (128, 10)},
        mobile_first, lambda: numbers(3, 4, 3, 96, 96))


def convnext(w, x):
  for layer in w:
    y = convolve(x, layer["depth"], groups=x.shape[-1])
    y = gelu(layer_norm(y, *layer["n"]) @ layer["up"] + layer["b"]) @ layer["down"]
    x = x + layer["gamma"] * y
  return x


NEXT = [{"depth": (7, 7, 1, 96), "n": [(96,), (96,)], "up": (96, 384), "b": (384,), "down": (384, 96), "gamma": (96,)}] * 2
network("convnext", "depthwise", NEXT, convnext, lambda: numbers(4, 4, 28, 28, 96))


def unet(w, x):
  down = []
  for a, b in w["down"]:
    x = relu(convolve(relu(convolve(x, a)), b))
    down.append(x)
    x = pool(x, 2, 2)
  x = relu(convolve(x, w["middle"]))
  for (up, mix), skip in zip(w["up"], reversed(down)):
    x = lax.conv_transpose(x, up, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = relu(convolve(jnp.concatenate([x, skip], -1), mix))
  return convolve(x, w["out"])


network("unet", "generator", {"down": [((3, 3, 1, 24), (3, 3, 24, 24)), ((3, 3, 24, 48), (3, 3, 48, 48))], "middle": (3, 3, 48, 96),
                              "up": [((2, 2, 96, 48), (3, 3, 96, 48)), ((2, 2, 48, 24), (3, 3, 48, 24))], "out": (1, 1, 24, 2)},
        unet, lambda: numbers(5, 2, 92, 92, 1))


def vgg(w, x):
  for stage in w["stages"]:
    for kernel in stage:
      x = relu(convolve(x, kernel))
    x = pool(x, 2, 2, padding="VALID")
  return relu(x.reshape(x.shape[0], -1) @ w["hidden"] + w["b"]) @ w["out"]


network("vgg", "residual", {"stages": [[(3, 3, 3, 32), (3, 3, 32, 32)], [(3, 3, 32, 64), (3, 3, 64, 64)], [(3, 3, 64, 128)]],
                            "hidden": (4 * 4 * 128, 256), "b": (256,), "out": (256, 100)}, vgg, lambda: numbers(6, 16, 35, 35, 3))


def resnext(w, x):
  for a, b, c in w:
    y = relu(group_norm(convolve(x, a), 1.0, 0.0))
    y = relu(convolve(y, b, groups=16))
    x = relu(x + convolve(y, c))
  return x


network("resnext", "grouped", [((1, 1, 96, 128), (3, 3, 8, 128), (1, 1, 128, 96))] * 2, resnext, lambda: numbers(7, 2, 26, 26, 96))


def inception(w, x):
  branches = [convolve(x, w["one"]), convolve(relu(convolve(x, w["r3"])), w["three"]),
              convolve(relu(convolve(x, w["r5"])), w["five"]), convolve(pool(x, 3, 1), w["pool"])]
  return relu(jnp.concatenate(branches, -1))


network("inception", "grouped", {"one": (1, 1, 192, 64), "r3": (1, 1, 192, 96), "three": (3, 3, 96, 128), "r5": (1, 1, 192, 16),
                                 "five": (5, 5, 16, 32), "pool": (1, 1, 192, 32)}, inception, lambda: numbers(8, 2, 28, 28, 192))


def volumes(w, x):
  for kernel in w[:-1]:
    x = pool(relu(convolve(x, kernel)), 2, 2, lax.add) / 8
  return jnp.mean(x, (1, 2, 3)) @ w[-1]


network("volumes", "3-d", [(3, 3, 3, 1, 16), (3, 3, 3, 16, 32), (32, 4)], volumes, lambda: numbers(9, 2, 24, 30, 28, 1))

# Waves.


def wavenet(w, x):
  x = x @ w["in"]
  skip = 0
  for k, layer in enumerate(w["layers"]):
    y = convolve(x, layer["gate"], dilation=2**k, padding=[(2**k, 0)])
    a, b = jnp.split(y, 2, -1)
    y = jnp.tanh(a) * jax.nn.sigmoid(b)
    skip = skip + y @ layer["skip"]
    x = x + y @ layer["mix"]
  return relu(skip) @ w["out"]


network("wavenet", "1-d", {"in": (1, 48), "out": (48, 64), "layers": [{"gate": (2, 48, 96), "skip": (48, 48), "mix": (48, 48)}] * 6},
        wavenet, lambda: numbers(10, 4, 1500, 1))


def conformer(w, x):
  for layer in w:
    y = jax.nn.glu(layer_norm(x, *layer["n"]) @ layer["up"])
    y = silu(batch_norm(convolve(y, layer["depth"], groups=y.shape[-1]), *layer["m"]))
    x = x + y @ layer["down"]
    x = x + 0.5 * silu(x @ layer["a"]) @ layer["b"]
  return x


network("conformer", "1-d", [{"n": [(144,), (144,)], "m": [(144,), (144,)], "up": (144, 288), "depth": (31, 1, 144), "down": (144, 144),
                              "a": (144, 576), "b": (576, 144)}] * 2, conformer, lambda: numbers(11, 4, 250, 144))

# Generators.


def decoder(w, z):
  x = relu(z @ w["in"]).reshape(-1, 7, 7, 64)
  for kernel in w["up"]:
    x = lax.conv_transpose(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = jax.nn.leaky_relu(x, 0.2) if kernel is not w["up"][-1] else x
  return jax.nn.sigmoid(x)


def autoencoder(w, x, noise):
  y = x
  for kernel in w["down"]:
    y = jax.nn.leaky_relu(convolve(y, kernel, 2), 0.2)
  mean, spread = jnp.split(y.reshape(y.shape[0], -1) @ w["code"], 2, -1)
  z = mean + jnp.exp(0.5 * spread) * noise
  image = decoder(w, z)
  divergence = -0.5 * jnp.mean(1 + spread - mean**2 - jnp.exp(spread))
  return jnp.square(image - x).mean() + 1e-3 * divergence


network("variational", "generator", {"down": [(4, 4, 1, 32), (4, 4, 32, 64)], "code": (7 * 7 * 64, 32), "in": (16, 7 * 7 * 64),
                                     "up": [(5, 5, 64, 32), (5, 5, 32, 1)]}, autoencoder, lambda: numbers(12, 32, 28, 28, 1),
        lambda: numbers(13, 32, 16), forms=("training",))


def adversaries(w, x, z):
  def judge(v, image):
    for kernel in v["down"]:
      image = jax.nn.leaky_relu(convolve(image, kernel, 2), 0.2)
    return image.reshape(image.shape[0], -1) @ v["out"]
  judged = lambda v: jnp.mean(jax.nn.softplus(-judge(v, x))) + jnp.mean(jax.nn.softplus(judge(v, decoder(w["make"], z))))
  fooled = lambda v: jnp.mean(jax.nn.softplus(-judge(w["judge"], decoder(v, z))))
  (a, ga), (b, gb) = jax.value_and_grad(judged)(w["judge"]), jax.value_and_grad(fooled)(w["make"])
  return a, b, jax.tree.map(lambda p, g: p - 0.01 * g, w, {"judge": ga, "make": gb})


network("adversaries", "generator", {"judge": {"down": [(4, 4, 1, 32), (4, 4, 32, 64)], "out": (7 * 7 * 64, 1)},
                                     "make": {"in": (24, 7 * 7 * 64), "up": [(4, 4, 64, 32), (4, 4, 32, 1)]}},
        adversaries, lambda: numbers(14, 16, 28, 28, 1), lambda: numbers(15, 16, 24), forms=("forward",))


def diffusion(w, x, t):
  """Residual blocks with group normalisation and the time's embedding."""
  angles = t[:, None] * jnp.exp(-jnp.arange(32) / 4)
  time = silu(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1) @ w["time"])
  x = convolve(x, w["in"])
  for layer in w["layers"]:
    y = convolve(silu(group_norm(x, *layer["n"])), layer["a"]) + (time @ layer["t"])[:, None, None, :]
    x = x + convolve(silu(group_norm(y, *layer["m"])), layer["b"])
  return convolve(x, w["out"])


network("diffusion", "generator", {"time": (64, 128), "in": (3, 3, 3, 64), "out": (3, 3, 64, 3),
                                   "layers": [{"n": [(64,), (64,)], "m": [(64,), (64,)], "a": (3, 3, 64, 64), "b": (3, 3, 64, 64),
                                               "t": (128, 64)}] * 2},
        diffusion, lambda: numbers(16, 4, 32, 32, 3), lambda: np.arange(4, dtype=F32))
