// The loops that lane kernels are: a function of one to three lanes, over a block.
#pragma once

#include <cstdint>

#include "hlo/evaluate/lanes.h"

// Lanes may be written over those they are computed from, never over later ones.
#if defined(__clang__)
#define WEFT_LANE_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define WEFT_LANE_LOOP _Pragma("GCC ivdep")
#endif

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"  // functions that are calls stay scalar
#endif

namespace weft::hlo {

template <class In, class Out, auto fn>
void Lanes1(const LaneArgs& a) {
  const In* x = static_cast<const In*>(a.in[0]);
  Out* out = static_cast<Out*>(a.out);
  WEFT_LANE_LOOP
  for (int64_t i = 0; i < a.n; ++i) out[i] = fn(x[i]);
}

template <class In, class Out, auto fn>
void Lanes2(const LaneArgs& a) {
  const In *x = static_cast<const In*>(a.in[0]), *y = static_cast<const In*>(a.in[1]);
  Out* out = static_cast<Out*>(a.out);
  WEFT_LANE_LOOP
  for (int64_t i = 0; i < a.n; ++i) out[i] = fn(x[i], y[i]);
}

template <class In, class Out, auto fn>
void Lanes3(const LaneArgs& a) {
  const In *x = static_cast<const In*>(a.in[0]), *y = static_cast<const In*>(a.in[1]),
           *z = static_cast<const In*>(a.in[2]);
  Out* out = static_cast<Out*>(a.out);
  WEFT_LANE_LOOP
  for (int64_t i = 0; i < a.n; ++i) out[i] = fn(x[i], y[i], z[i]);
}

}  // namespace weft::hlo

#if defined(__clang__)
#pragma clang diagnostic pop
#endif
