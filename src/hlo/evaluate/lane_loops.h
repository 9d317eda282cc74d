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

// Functions of integers that look at the width of the element: T's own, or less for narrow integers
// in int64 lanes.
template <class T, bool narrow>
int LaneBits(const LaneArgs& a) {
  return narrow ? BitWidth(a.in_type) : 8 * static_cast<int>(sizeof(T));
}

template <class T, bool narrow, auto fn>
void WidthLanes1(const LaneArgs& a) {
  const T* x = static_cast<const T*>(a.in[0]);
  T* out = static_cast<T*>(a.out);
  int bits = LaneBits<T, narrow>(a);
  WEFT_LANE_LOOP
  for (int64_t i = 0; i < a.n; ++i) out[i] = fn(x[i], bits);
}

template <class T, bool narrow, auto fn>
void WidthLanes2(const LaneArgs& a) {
  const T *x = static_cast<const T*>(a.in[0]), *y = static_cast<const T*>(a.in[1]);
  T* out = static_cast<T*>(a.out);
  int bits = LaneBits<T, narrow>(a);
  if (a.uniform[1]) {  // shifts by one amount are vector instructions everywhere
    T amount = y[0];
    WEFT_LANE_LOOP
    for (int64_t i = 0; i < a.n; ++i) out[i] = fn(x[i], amount, bits);
    return;
  }
  WEFT_LANE_LOOP
  for (int64_t i = 0; i < a.n; ++i) out[i] = fn(x[i], y[i], bits);
}

template <class T>
void SelectLanes(const LaneArgs& a) {
  const uint8_t* pred = static_cast<const uint8_t*>(a.in[0]);
  const T *x = static_cast<const T*>(a.in[1]), *y = static_cast<const T*>(a.in[2]);
  T* out = static_cast<T*>(a.out);
  WEFT_LANE_LOOP
  for (int64_t i = 0; i < a.n; ++i) out[i] = pred[i] != 0 ? x[i] : y[i];
}

}  // namespace weft::hlo

#if defined(__clang__)
#pragma clang diagnostic pop
#endif
