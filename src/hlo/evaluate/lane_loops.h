// The loops that lane kernels are: a function of one to three lanes, over a block.
#pragma once

#include <cstdint>

#include "hlo/evaluate/lanes.h"

namespace weft::hlo {

template <class In, class Out, auto fn>
void Lanes1(const LaneArgs& a) {
  const In* x = static_cast<const In*>(a.in[0]);
  Out* out = static_cast<Out*>(a.out);
  for (int64_t i = 0; i < a.n; ++i) out[i] = fn(x[i]);
}

template <class In, class Out, auto fn>
void Lanes2(const LaneArgs& a) {
  const In *x = static_cast<const In*>(a.in[0]), *y = static_cast<const In*>(a.in[1]);
  Out* out = static_cast<Out*>(a.out);
  for (int64_t i = 0; i < a.n; ++i) out[i] = fn(x[i], y[i]);
}

template <class In, class Out, auto fn>
void Lanes3(const LaneArgs& a) {
  const In *x = static_cast<const In*>(a.in[0]), *y = static_cast<const In*>(a.in[1]),
           *z = static_cast<const In*>(a.in[2]);
  Out* out = static_cast<Out*>(a.out);
  for (int64_t i = 0; i < a.n; ++i) out[i] = fn(x[i], y[i], z[i]);
}

}  // namespace weft::hlo
