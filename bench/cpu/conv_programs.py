"""Convolutions by layout and form, their gradients, pooling, and small networks of them."""

import jax
from jax import lax
import jax.numpy as jnp
import numpy as np

import harness

LAYOUTS = {1: {"last": ("NWC", "WIO", "NWC"), "first": ("NCW", "OIW", "NCW")},
           2: {"last": ("NHWC", "HWIO", "NHWC"), "first": ("NCHW", "OIHW", "NCHW")},
           3: {"last": ("NDHWC", "DHWIO", "NDHWC"), "first": ("NCDHW", "OIDHW", "NCDHW")}}
PROGRAMS = []


def array(seed, dtype, *shape):
  random = np.random.default_rng(seed)
  if dtype == np.int8:
    return random.integers(-128, 128, shape, np.int8)
  return random.standard_normal(shape, np.float32).astype(dtype)


def conv(name, kind, batch, space, features, window, stride=1, dilation=1, groups=1, transposed=False, layout="last",
         dtype=np.float32, of="result", quick=False):
  """`features`: in, out. `of`: the result, or the gradient by the "input" or the "weights"."""
  rank = len(space)
  names = LAYOUTS[rank][layout]
  feature_in, feature_out = features
  x_shape = (batch, *space, feature_in) if layout == "last" else (batch, feature_in, *space)
  w_shape = (*window, feature_in // groups, feature_out) if layout == "last" else (feature_out, feature_in // groups, *window)
  result = np.int32 if dtype == np.int8 else None

  def function(x, w):
    if transposed:
      return lax.conv_transpose(x, w, (stride,) * rank, "SAME", dimension_numbers=names)
    return lax.conv_general_dilated(x, w, (stride,) * rank, "SAME", rhs_dilation=(dilation,) * rank, dimension_numbers=names,
                                    feature_group_count=groups, preferred_element_type=result)

  out = jax.eval_shape(function, jax.ShapeDtypeStruct(x_shape, dtype), jax.ShapeDtypeStruct(w_shape, dtype))
  argument = {"result": None, "input": 0, "weights": 1}[of]

  def gradient(x, w, g):
    return jax.vjp(function, x, w)[1](g)[argument]

  def make():
    operands = array(0, dtype, *x_shape), array(1, dtype, *w_shape)
    return (function, operands) if of == "result" else (gradient, (*operands, array(2, out.dtype, *out.shape)))
  moved = np.prod(x_shape) if transposed else np.prod(out.shape)
  per_place = feature_out if transposed else feature_in // groups
  narrow = {np.float32: 2e-5, np.int8: 0}.get(dtype, 2e-2)
  PROGRAMS.append(harness.Program(name=name, kind=kind, make=make, tolerance=narrow, quick=quick,
                                  flops=2.0 * float(moved) * float(np.prod(window)) * per_place))


def all_of(name, kind, *args, quick=(), **options):
  for of, ending in (("result", ""), ("input", "_dx"), ("weights", "_dw")):
    conv(name + ending, kind + (" gradient" if ending else ""), *args, of=of, quick=of in quick, **options)


RESNET = ((56, 64), (28, 128), (14, 256), (7, 512))
for size, width in RESNET:
  all_of(f"f32_3x3_{size}x{size}x{width}", "3x3", 4, (size, size), (width, width), (3, 3),
         quick=("result", "input", "weights") if size == 28 else ())
all_of("f32_3x3_s2_56x56x64", "strided", 4, (56, 56), (64, 128), (3, 3), stride=2, quick=("result", "input", "weights"))
all_of("f32_1x1_28x28x256", "1x1", 4, (28, 28), (256, 256), (1, 1), quick=("result",))
all_of("f32_7x7_s2_224x224x3", "stem", 2, (224, 224), (3, 64), (7, 7), stride=2, quick=("result", "weights"))
all_of("f32_3x3_28x28x128_first", "channels first", 4, (28, 28), (128, 128), (3, 3), layout="first",
       quick=("result", "input", "weights"))
all_of("f32_5x5_28x28x1", "few channels", 64, (28, 28), (1, 32), (5, 5), quick=("result", "weights"))
all_of("f32_1d_k5_2048x64", "1-d", 8, (2048,), (64, 64), (5,), quick=("result", "input", "weights"))
all_of("f32_1d_k3_d8_4096x32", "1-d dilated", 8, (4096,), (32, 32), (3,), dilation=8, quick=("result",))
all_of("f32_1d_k9_4096x1", "1-d of one channel", 16, (4096,), (1, 16), (9,), quick=("result",))
all_of("f32_depthwise_56x56x128", "depthwise", 4, (56, 56), (128, 128), (3, 3), groups=128, quick=("result", "input", "weights"))
all_of("f32_depthwise_56x56x128_first", "depthwise channels first", 4, (56, 56), (128, 128), (3, 3), groups=128, layout="first",
       quick=("result",))
all_of("f32_groups_of_16_28x28x128", "grouped", 4, (28, 28), (128, 128), (3, 3), groups=8, quick=("result", "weights"))
all_of("f32_transposed_4x4_s2_16x16x128", "transposed", 8, (16, 16), (128, 64), (4, 4), stride=2, transposed=True,
       quick=("result", "input", "weights"))
all_of("f32_transposed_3x3_s2_28x28x64", "transposed", 4, (28, 28), (64, 64), (3, 3), stride=2, transposed=True)
all_of("f32_3x3_d2_28x28x128", "dilated", 4, (28, 28), (128, 128), (3, 3), dilation=2, quick=("result",))
all_of("f32_3d_3x3x3_16x28x28x32", "3-d", 1, (16, 28, 28), (32, 32), (3, 3, 3), quick=("result",))
all_of("bf16_3x3_28x28x128", "bf16", 4, (28, 28), (128, 128), (3, 3), dtype=jnp.bfloat16, quick=("result", "input", "weights"))
conv("s8_3x3_28x28x128", "s8", 4, (28, 28), (128, 128), (3, 3), dtype=np.int8, quick=True)


def pooling(name, kind, function, shape, quick=True):
  def gradient(x):
    return jax.grad(lambda x: jnp.sum(jnp.sin(function(x))))(x)
  for ending, program in (("", function), ("_dx", gradient)):
    PROGRAMS.append(harness.Program(name=name + ending, kind=kind, make=lambda program=program: (program, (array(0, np.float32, *shape),)),
                                    quick=quick))


def max_pool(window, stride, first=False):
  ends = (lambda *space: (1, 1, *space)) if first else (lambda *space: (1, *space, 1))
  return lambda x: lax.reduce_window(x, -jnp.inf, lax.max, ends(window, window), ends(stride, stride), "SAME")


def mean_pool(window, stride):
  return lambda x: lax.reduce_window(x, 0.0, lax.add, (1, window, window, 1), (1, stride, stride, 1), "VALID") / window**2


pooling("max_pool_3x3_s2_112x112x64", "max pooling", max_pool(3, 2), (4, 112, 112, 64))
pooling("max_pool_2x2_s2_first", "max pooling", max_pool(2, 2, first=True), (4, 64, 112, 112))
pooling("mean_pool_2x2_56x56x128", "mean pooling", mean_pool(2, 2), (8, 56, 56, 128))


def weights_of(shapes):
  return [array(i, np.float32, *shape) * np.float32(1 / np.sqrt(np.prod(shape[:-1]))) for i, shape in enumerate(shapes)]


def network(name, shapes, apply, x_shape, quick=True):
  def loss(weights, x):
    return jnp.mean(jnp.square(apply(weights, x)))

  def train(weights, x):
    value, gradient = jax.value_and_grad(loss)(weights, x)
    return value, [w - 0.01 * g for w, g in zip(weights, gradient)]
  for ending, program in (("forward", apply), ("training", train)):
    PROGRAMS.append(harness.Program(
        name=f"{name}_{ending}", kind=f"network {ending}", tolerance=1e-4, quick=quick,
        make=lambda program=program: (program, (weights_of(shapes), array(99, np.float32, *x_shape)))))


def convolve(x, w, stride=1):
  space = "HW"[:x.ndim - 2] if x.ndim == 4 else "W"
  return lax.conv_general_dilated(x, w, (stride,) * (x.ndim - 2), "SAME", dimension_numbers=(f"N{space}C", f"{space}IO", f"N{space}C"))


def digits(weights, x):
  x = max_pool(2, 2)(jax.nn.relu(convolve(x, weights[0])))
  x = max_pool(2, 2)(jax.nn.relu(convolve(x, weights[1])))
  return jax.nn.relu(x.reshape(x.shape[0], -1) @ weights[2]) @ weights[3]


def residual(weights, x):
  x = jax.nn.relu(convolve(x, weights[0]))
  for a, b in zip(weights[1:7:2], weights[2:8:2]):
    x = jax.nn.relu(x + convolve(jax.nn.relu(convolve(x, a)), b))
  x = jax.nn.relu(convolve(x, weights[7], 2))
  return jnp.mean(x, (1, 2)) @ weights[8]


def waves(weights, x):
  for i, w in enumerate(weights[:-1]):
    x = x + jnp.tanh(lax.conv_general_dilated(x, w, (1,), "SAME", rhs_dilation=(2**i,), dimension_numbers=("NWC", "WIO", "NWC")))
  return convolve(x, weights[-1])


def painter(weights, x):
  for w in weights[:-1]:
    x = jax.nn.relu(lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
  return jnp.tanh(lax.conv_transpose(x, weights[-1], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))


network("digits", [(3, 3, 1, 32), (3, 3, 32, 64), (7 * 7 * 64, 128), (128, 10)], digits, (64, 28, 28, 1))
network("residual", [(3, 3, 3, 64), *[(3, 3, 64, 64)] * 6, (3, 3, 64, 128), (128, 10)], residual, (8, 32, 32, 3))
network("waves", [*[(3, 64, 64)] * 6, (1, 64, 64)], waves, (4, 2048, 64))
network("painter", [(4, 4, 256, 128), (4, 4, 128, 64), (4, 4, 64, 3)], painter, (16, 4, 4, 256))
