// Complex helpers shared by the math_complex*.cc files.
#pragma once

#include "program/math.h"
#include "program/math_values.h"

namespace weft::program::math::detail {

struct C {
  V re, im;
};

// To f64 and back to the type of `like`.
C Widen(C z);
C NarrowTo(C z, V like);
C SelectC(V p, C a, C b);

V AbsC(C z);  // of either type
// Of f64 parts.
C DivC(C x, C y);
C SqrtC(C z);
V LogAbs(C z);  // log |z|, exact near |z| = 1
C LogC(C z);
// Of either type.
V RealAtan2(V y, V x);
C ExpC(C z);

struct SinCosParts {
  V sine, cosine;
};
SinCosParts SinCos(V x);  // one reduction for both

// sinh x and cosh x, both to be multiplied by factor: they overflow later than their products.
struct Hyperbolic {
  V sinh, cosh, factor;
};
Hyperbolic SinhCosh(V x);

}  // namespace weft::program::math::detail
