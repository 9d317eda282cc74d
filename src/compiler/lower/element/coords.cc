// Coordinates of elements in all lanes, and arithmetic on them.
#include "compiler/lower/element/coords.h"

#include <algorithm>
#include <numeric>

#include "compiler/lower/element/values.h"

namespace weft::compiler {

using program::Op;
using program::Type;

namespace {

// Ends of ranges; beyond the sentinel nothing is known.
int64_t Bounded(int64_t x) {
  return std::clamp(x, -Coord::kUnknownCoord, Coord::kUnknownCoord);
}

bool IsKnown(int64_t x) {
  return x > -Coord::kUnknownCoord && x < Coord::kUnknownCoord;
}

int64_t SumOfBounds(int64_t x, int64_t y, int64_t unknown) {
  return IsKnown(x) && IsKnown(y) ? Bounded(x + y) : unknown;
}

int64_t ScaledBound(int64_t x, int64_t factor, int64_t unknown) {
  int64_t product;
  if (!IsKnown(x) || __builtin_mul_overflow(x, factor, &product)) return unknown;
  return Bounded(product);
}

// The lanes of a coordinate less a multiple of `divisor`, in 32 bits, which vectors divide by a
// number more easily than 64; -1: they do not hold it. Lanes reach base + span - 1.
ValueId SmallLaneValue(ElementContext& e, const Coord& a, int64_t span, int64_t divisor) {
  if (a.low < 0 || span + divisor > (int64_t{1} << 30)) return -1;
  Coord within{e.b.Rem(a.base, e.b.Int(divisor)), a.step};
  within.each = a.each;
  return LaneValue(e, within, DType::kS32);
}

// What every lane leaves, where that is known of the first one.
std::optional<Coord> KnownRemainder(ElementContext& e, const Coord& a, int64_t divisor) {
  if (e.b.type(a.base).lanes != 1 || a.step <= 0 || e.lanes == 1 || a.modulus % divisor != 0) {
    return std::nullopt;
  }
  std::vector<int64_t> lanes;
  for (int64_t lane = 0; lane < e.lanes; ++lane) {
    lanes.push_back((a.residue + a.step * (lane / a.each)) % divisor);
  }
  Type type{DType::kS32, e.lanes};
  Coord from{e.b.Int(a.residue % divisor), a.step};
  from.each = a.each;
  ValueId value = e.b.Rem(LaneValue(e, from, DType::kS32), e.b.Int(divisor, type));
  e.listed[value] = std::move(lanes);
  return Coord{value, 0, 1, 0, divisor - 1};
}

}  // namespace

Coord ConstantCoord(const ElementContext& e, int64_t value) {
  return {e.b.Int(value), 0, value == 0 ? int64_t{1} << 40 : std::abs(value), value, value};
}

ValueId LaneValue(ElementContext& e, const Coord& coord, DType type) {
  Type have = e.b.type(coord.base);
  if (have.lanes > 1) return e.b.Cast(coord.base, type);
  ValueId base = e.b.Cast(coord.base, type);
  if (coord.step == 0 || e.lanes == 1) return base;
  ValueId lane = e.b.Iota({type, e.lanes});
  if (coord.each != 1) lane = e.b.Div(lane, e.b.Int(coord.each, {type, e.lanes}));
  if (coord.step != 1) lane = e.b.Mul(lane, e.b.Int(coord.step, {type, e.lanes}));
  return e.b.Add(e.b.Splat(base, e.lanes), lane);
}

Coord AddCoords(ElementContext& e, const Coord& a, const Coord& b) {
  if (a.step == 0 && e.b.IntConstant(a.base) == 0) return b;
  if (b.step == 0 && e.b.IntConstant(b.base) == 0) return a;
  bool wide = e.b.type(a.base).lanes > 1 || e.b.type(b.base).lanes > 1;
  wide |= a.step != 0 && b.step != 0 && a.each != b.each;
  int64_t multiple = std::gcd(a.multiple, b.multiple);
  int64_t low = SumOfBounds(a.low, b.low, -Coord::kUnknownCoord);
  int64_t high = SumOfBounds(a.high, b.high, Coord::kUnknownCoord);
  if (!wide) {
    Coord sum{e.b.Add(a.base, b.base), a.step + b.step, multiple, low, high};
    auto modulus_of = [](const Coord& c) { return std::max(c.modulus, c.multiple); };
    auto residue_of = [](const Coord& c) { return c.modulus >= c.multiple ? c.residue : 0; };
    std::optional<int64_t> x = e.b.IntConstant(a.base), y = e.b.IntConstant(b.base);
    // Of a known number every remainder is known: that by what the lanes' distance goes with.
    bool of_b = x && (!y || a.step == 0);
    sum.modulus = of_b ? modulus_of(b) : y ? modulus_of(a) : std::gcd(modulus_of(a), modulus_of(b));
    int64_t residue = (x ? *x : residue_of(a)) + (y ? *y : residue_of(b));
    sum.residue = (residue % sum.modulus + sum.modulus) % sum.modulus;
    if (sum.step != 0) sum.each = a.step != 0 ? a.each : b.each;
    if (x || y) {
      const Coord& from = x ? b : a;
      sum.origin = from.origin >= 0 ? from.origin : from.base;
      sum.offset = from.offset + (x ? *x : *y);
    }
    return sum;
  }
  DType type = LaneType(std::min({low, a.low, b.low}), std::max({high, a.high, b.high}));
  ValueId x = LaneValue(e, a, type), y = LaneValue(e, b, type);
  MatchLanes(e, x, y);
  return {e.b.Add(x, y), 0, 1, low, high};
}

Coord AddConstant(ElementContext& e, const Coord& a, int64_t c) {
  if (c == 0) return a;
  return AddCoords(e, a, ConstantCoord(e, c));
}

Coord ScaleCoord(ElementContext& e, const Coord& a, int64_t factor) {
  if (factor == 1) return a;
  int lanes = e.b.type(a.base).lanes;
  int64_t multiple = factor == 0 ? int64_t{1} << 40 : a.multiple * std::abs(factor);
  if (multiple <= 0 || multiple > (int64_t{1} << 40)) multiple = std::abs(factor);
  int64_t low = ScaledBound(factor < 0 ? a.high : a.low, factor, -Coord::kUnknownCoord);
  int64_t high = ScaledBound(factor < 0 ? a.low : a.high, factor, Coord::kUnknownCoord);
  DType type = DType::kS64;
  if (lanes > 1 && LaneType(a) == DType::kS32 && FitsS32(std::abs(factor))) {
    type = LaneType(low, high);
  }
  Coord scaled{e.b.Mul(e.b.Cast(a.base, type), e.b.Int(factor, {type, lanes})), a.step * factor,
               multiple, low, high};
  if (scaled.step != 0) scaled.each = a.each;
  return scaled;
}

// (base + step * lane) / d is base / d in all lanes when no lane leaves base's multiple of d.
Coord DivideCoord(ElementContext& e, const Coord& a, int64_t divisor) {
  if (divisor == 1) return a;
  int lanes = e.b.type(a.base).lanes;
  int64_t low = a.low >= 0 ? a.low / divisor : 0;
  int64_t high = IsKnown(a.high) ? std::max<int64_t>(a.high, 0) / divisor : a.high;
  if (lanes == 1 && (a.step == 0 || e.lanes == 1)) {
    return {e.b.Div(a.base, e.b.Int(divisor)), 0,
            a.multiple % divisor == 0 ? a.multiple / divisor : 1, low, high};
  }
  if (lanes == 1 && a.step > 0) {
    int64_t span = a.step * ((e.lanes - 1) / a.each) + 1;  // lanes reach base + span - 1
    int64_t common = std::gcd(a.multiple, divisor);
    if (common >= span) return {e.b.Div(a.base, e.b.Int(divisor)), 0, 1, low, high};
    bool even = a.multiple % divisor == 0;
    Coord part{e.b.Div(a.base, e.b.Int(divisor)), 0, even ? a.multiple / divisor : 1, low, high};
    if (even && a.step % divisor == 0) {
      part.step = a.step / divisor;
      part.each = a.each;
      return part;
    }
    if (even && divisor % a.step == 0) {
      part.step = 1;
      part.each = divisor / a.step * a.each;
      return part;
    }
    if (ValueId x = SmallLaneValue(e, a, span, divisor); x >= 0) {
      DType type = LaneType(low, high);
      ValueId more = e.b.Cast(e.b.Div(x, e.b.Int(divisor, e.b.type(x))), type);
      return {e.b.Add(e.b.Splat(e.b.Cast(part.base, type), e.lanes), more), 0, 1, low, high};
    }
  }
  DType type = a.low >= 0 && FitsS32(divisor) ? LaneType(a) : DType::kS64;
  ValueId x = LaneValue(e, a, type);
  return {e.b.Div(x, e.b.Int(divisor, e.b.type(x))), 0, 1, low, high};
}

Coord CoordRemainder(ElementContext& e, const Coord& a, int64_t divisor) {
  if (divisor == 1) return ConstantCoord(e, 0);
  if (a.low >= 0 && a.high < divisor) return a;
  int lanes = e.b.type(a.base).lanes;
  int64_t low = 0, high = divisor - 1;
  if (lanes == 1 && (a.step == 0 || e.lanes == 1)) {
    return {e.b.Rem(a.base, e.b.Int(divisor)), 0, std::gcd(a.multiple, divisor), low, high};
  }
  if (lanes == 1 && a.step > 0) {
    int64_t span = a.step * ((e.lanes - 1) / a.each) + 1;
    int64_t common = std::gcd(a.multiple, divisor);
    if (common >= span) {
      Coord rest{e.b.Rem(a.base, e.b.Int(divisor)), a.step, common, low, high};
      rest.each = a.each;
      return rest;
    }
    if (a.step % divisor == 0) return {e.b.Rem(a.base, e.b.Int(divisor)), 0, common, low, high};
    if (auto known = KnownRemainder(e, a, divisor)) return *known;
    if (ValueId x = SmallLaneValue(e, a, span, divisor); x >= 0) {
      ValueId rest = e.b.Rem(x, e.b.Int(divisor, e.b.type(x)));
      return {rest, 0, 1, low, high};
    }
  }
  DType type = a.low >= 0 && FitsS32(divisor) ? LaneType(a) : DType::kS64;
  ValueId x = LaneValue(e, a, type);
  return {e.b.Rem(x, e.b.Int(divisor, e.b.type(x))), 0, 1, low, high};
}

Coord LinearCoord(ElementContext& e, std::span<const int64_t> dims, const Index& index) {
  if (index.is_linear) return index.linear;
  Coord linear = ConstantCoord(e, 0);
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] != 1) linear = AddCoords(e, ScaleCoord(e, index.coords[i], stride), linear);
    stride *= dims[i];
  }
  return linear;
}

Coord CoordinateAt(ElementContext& e, std::span<const int64_t> dims, const Index& index, size_t d) {
  if (!index.is_linear) return index.coords[d];
  if (dims[d] == 1) return ConstantCoord(e, 0);
  int64_t stride = 1;
  for (size_t i = d + 1; i < dims.size(); ++i) stride *= dims[i];
  bool outermost = true;
  for (size_t i = 0; i < d; ++i) outermost &= dims[i] == 1;
  Coord at = DivideCoord(e, index.linear, stride);
  return outermost ? at : CoordRemainder(e, at, dims[d]);
}

Index Coordinates(ElementContext& e, std::span<const int64_t> dims, const Index& index) {
  if (!index.is_linear) return index;
  Index result;
  result.coords.resize(dims.size());
  int64_t stride = 1;
  size_t outermost = 0;
  while (outermost < dims.size() && dims[outermost] == 1) ++outermost;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) {
      result.coords[i] = ConstantCoord(e, 0);
      continue;
    }
    Coord at = DivideCoord(e, index.linear, stride);
    result.coords[i] = i == outermost ? at : CoordRemainder(e, at, dims[i]);
    stride *= dims[i];
  }
  return result;
}

ValueId IsWithin(ElementContext& e, const Coord& coord, int64_t low, int64_t high,
                 int64_t size_known) {
  bool check_low = low > 0 && coord.low < low;
  bool check_high = high < size_known && coord.high >= high;
  if (!check_low && !check_high) return -1;
  DType type = FitsS32(size_known) && FitsS32(std::abs(high) + 1) ? DType::kS32 : DType::kS64;
  bool wide = e.b.type(coord.base).lanes > 1 || (coord.step != 0 && e.lanes > 1);
  ValueId x = wide ? LaneValue(e, coord, type) : coord.base;
  ValueId inside = -1;
  if (check_low) inside = e.b.Emit(Op::kGe, {x, e.b.Int(low, e.b.type(x))});
  if (check_high) {
    ValueId below = e.b.Emit(Op::kLt, {x, e.b.Int(high, e.b.type(x))});
    inside = inside < 0 ? below : e.b.Emit(Op::kAnd, {inside, below});
  }
  return inside;
}

Coord ClampCoord(ElementContext& e, const Coord& coord, int64_t low, int64_t high) {
  if (coord.low >= low && coord.high <= high) return coord;
  bool wide = e.b.type(coord.base).lanes > 1 || (coord.step != 0 && e.lanes > 1);
  DType lane = LaneType(std::min(coord.low, low), std::max(coord.high, high));
  ValueId x = wide ? LaneValue(e, coord, lane) : coord.base;
  Type type = e.b.type(x);
  if (coord.high > high) x = e.b.Min(x, e.b.Int(high, type));
  if (coord.low < low) x = e.b.Max(x, e.b.Int(low, type));
  return {x, 0, 1, low, high};
}

// u64 indices beyond the range of s64 are larger than any array.
Coord CoordOfElement(ElementContext& e, Element element) {
  Type type = e.b.type(element.re);
  ValueId value = element.re;
  if (type.dtype == DType::kU64) {
    value = e.b.Min(value, e.b.Int(std::numeric_limits<int64_t>::max(), type));
  }
  Coord coord{e.b.Cast(value, DType::kS64), 0, 1};
  if (IsUnsigned(type.dtype)) coord.low = 0;
  return coord;
}

}  // namespace weft::compiler
