"""What random programs are made of: types, values with their types, and the text that turns one type into another."""

import dataclasses
import random

FLOATS = ("f32", "bf16", "f16", "f64")
COMPLEX = ("c64", "c128")
INTS = ("s32", "u32", "s8", "u8", "s16", "s64")
SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 11, 13, 16, 17)
LONG_SIZES = (31, 33, 64, 65, 127, 130, 257)
MAX_ELEMENTS = 3000


def elements(shape):
  count = 1
  for size in shape:
    count *= size
  return count


def broadcast(a, b):
  """The shape of two broadcast together, or None."""
  rank = max(len(a), len(b))
  a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
  if any(x != y and x != 1 and y != 1 for x, y in zip(a, b)):
    return None
  return tuple(y if x == 1 else x for x, y in zip(a, b))


@dataclasses.dataclass(frozen=True)
class Value:
  """A variable: `size` bounds the logarithm (base 2) of what its elements may be, roughly."""
  name: str
  shape: tuple
  dtype: str
  size: float = 1

  @property
  def rank(self):
    return len(self.shape)

  @property
  def is_float(self):
    return self.dtype in FLOATS

  @property
  def is_complex(self):
    return self.dtype in COMPLEX

  @property
  def is_int(self):
    return self.dtype in INTS

  def __str__(self):
    return self.name


@dataclasses.dataclass
class Context:
  """What one program may use. `smooth`: inside of something that is differentiated, so that loops have known trip counts."""
  random: random.Random
  dtypes: tuple
  count: int = 0
  specials: bool = False

  def name(self, prefix="v"):
    self.count += 1
    return f"{prefix}{self.count}"

  def chance(self, share):
    return self.random.random() < share

  def dim(self):
    return self.random.choice(LONG_SIZES if self.chance(0.06) else SIZES[1:] if self.chance(0.85) else SIZES)

  def shape(self, rank=None, limit=MAX_ELEMENTS):
    rank = self.random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)) if rank is None else rank
    shape = tuple(self.dim() for _ in range(rank))
    while elements(shape) > limit:
      shape = tuple(min(size, self.random.choice(SIZES[1:8])) for size in shape)
    return shape

  def dtype(self):
    return self.random.choice(self.dtypes)


def cast(text, source, target):
  """`text` of one type as another."""
  if source == target:
    return text
  if source in COMPLEX and target not in COMPLEX:
    text, source = f"jnp.real({text})", "f32"
  if target == "pred":
    return f"({text} > 0)"
  if source in FLOATS and target in INTS:  # Away from where it overflows, and from ties.
    return f"jnp.floor(jnp.clip({text}, -50, 50) * 3.7 + 0.21).astype({target})" if target[0] == "s" else \
        f"jnp.floor(jnp.clip(jnp.abs({text}), 0, 50) * 3.7 + 0.21).astype({target})"
  if source in INTS and target in (*FLOATS, *COMPLEX):
    return f"(({text} % 31).astype({target}) * 0.1)" if source[0] == "u" else f"(({text} % 31).astype({target}) * 0.1 - 1.5)"
  return f"({text}).astype({target})"


def tamed(value):
  """Text of a value that stays small, so that loops do not run into infinities."""
  if (value.is_float or value.is_complex) and value.size > 2:
    return f"({value} / (1 + jnp.abs({value})))"
  return str(value)


def fitted(context, value, shape, dtype):
  """Text that makes a value of any type one of this shape and dtype, bounded by 1 or so."""
  text, have = tamed(value), value.shape
  if have != shape:
    if broadcast(have, shape) != shape:
      together = tuple(range(value.rank))
      if elements(have) == elements(shape):
        text, have = f"jnp.reshape({text}, {shape})", shape
      elif value.dtype == "pred":
        text, have = f"jnp.any({text})", ()
      elif elements(have) and context.chance(0.5):
        text, have = f"jnp.max({text})" if not value.is_complex else f"jnp.mean({text})", ()
      else:
        text, have = (f"(jnp.sum({text}, axis={together}) / {max(1, elements(have))})" if not value.is_int else
                      f"jnp.sum({text}, dtype={value.dtype})"), ()
    if have != shape:
      text = f"jnp.broadcast_to({text}, {shape})"
  return cast(text, value.dtype, dtype)
