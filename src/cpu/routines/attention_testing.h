// Attention as tests of its routines call it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cpu/routines/routine_testing.h"

namespace weft::cpu {

using Ints = std::vector<int64_t>;

// q is [b, t, h, g, d], k and v are [b, s, h, d], as jax.nn.dot_product_attention has them.
struct AttentionCase {
  std::string what;
  int64_t b, t, h, g, s, d, v;
  DType dtype = DType::kF32;
  bool bias = false, mask = false;
  double fill = -1e30;
  std::optional<int64_t> first = {}, last = {};
  std::string wanted = "qkv";  // gradients
};

inline CallUnderTest AttentionOf(Random& random, const AttentionCase& c) {
  CallUnderTest call;
  call.routine = "attention";
  call.inputs = {RandomLiteral(random, c.dtype, {c.b, c.t, c.h, c.g, c.d}),
                 RandomLiteral(random, c.dtype, {c.b, c.s, c.h, c.d}),
                 RandomLiteral(random, c.dtype, {c.b, c.s, c.h, c.v})};
  call.outputs = {Shape(c.dtype, {c.b, c.t, c.h, c.g, c.v})};
  int64_t hg = c.h * c.g;
  call.attrs = {{"axes", Ints{c.b, c.h, c.t, c.g}},
                {"keys", c.s},
                {"depth", c.d},
                {"values", c.v},
                {"q", Ints{c.t * hg * c.d, c.g * c.d, hg * c.d, c.d, 1}},
                {"k", Ints{c.s * c.h * c.d, c.d, 0, 0, c.h * c.d, 1}},
                {"v", Ints{c.s * c.h * c.v, c.v, 0, 0, c.h * c.v, 1}},
                {"out", Ints{c.t * hg * c.v, c.g * c.v, hg * c.v, c.v, 1}},
                {"scale", 3.0},
                {"fill", c.fill},
                {"query_axis", int64_t{2}}};
  if (c.bias) {
    call.inputs.push_back(RandomLiteral(random, DType::kF32, {c.h, c.t, c.s}));
    call.attrs.push_back({"bias", Ints{0, c.t * c.s, c.s, 0, 1}});
  }
  if (c.mask) {
    Literal mask(Shape(DType::kPred, {c.b, c.s, c.t}));
    for (int64_t i = 0; i < mask.size(); ++i) mask.SetInt(i, random() % 3 != 0);
    call.inputs.push_back(mask);
    call.attrs.push_back({"mask", Ints{c.s * c.t, 0, 1, 0, c.t}});
  }
  if (c.first) call.attrs.push_back({"first", *c.first});
  if (c.last) call.attrs.push_back({"last", *c.last});
  return call;
}

}  // namespace weft::cpu
