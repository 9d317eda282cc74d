// Coordinates of elements in all lanes, and arithmetic on them.
#include <algorithm>
#include <numeric>

#include "compiler/lower/element/element.h"

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

}  // namespace

Coord ElementEmitter::Constant(int64_t value) const {
  return {b_.Int(value), 0, value == 0 ? int64_t{1} << 40 : std::abs(value), value, value};
}

ValueId ElementEmitter::LaneValue(const Coord& coord, DType type) {
  Type have = b_.type(coord.base);
  if (have.lanes > 1) return b_.Cast(coord.base, type);
  ValueId base = b_.Cast(coord.base, type);
  if (coord.step == 0 || lanes_ == 1) return base;
  ValueId lane = b_.Iota({type, lanes_});
  if (coord.each != 1) lane = b_.Div(lane, b_.Int(coord.each, {type, lanes_}));
  if (coord.step != 1) lane = b_.Mul(lane, b_.Int(coord.step, {type, lanes_}));
  return b_.Add(b_.Splat(base, lanes_), lane);
}

Coord ElementEmitter::Add(const Coord& a, const Coord& b) {
  if (a.step == 0 && b_.IntConstant(a.base) == 0) return b;
  if (b.step == 0 && b_.IntConstant(b.base) == 0) return a;
  bool wide = b_.type(a.base).lanes > 1 || b_.type(b.base).lanes > 1;
  wide |= a.step != 0 && b.step != 0 && a.each != b.each;
  int64_t multiple = std::gcd(a.multiple, b.multiple);
  int64_t low = SumOfBounds(a.low, b.low, -Coord::kUnknownCoord);
  int64_t high = SumOfBounds(a.high, b.high, Coord::kUnknownCoord);
  if (!wide) {
    Coord sum{b_.Add(a.base, b.base), a.step + b.step, multiple, low, high};
    auto modulus_of = [](const Coord& c) { return std::max(c.modulus, c.multiple); };
    auto residue_of = [](const Coord& c) { return c.modulus >= c.multiple ? c.residue : 0; };
    std::optional<int64_t> x = b_.IntConstant(a.base), y = b_.IntConstant(b.base);
    sum.modulus = x ? modulus_of(b) : y ? modulus_of(a) : std::gcd(modulus_of(a), modulus_of(b));
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
  ValueId x = LaneValue(a, type), y = LaneValue(b, type);
  Match(x, y);
  return {b_.Add(x, y), 0, 1, low, high};
}

Coord ElementEmitter::AddConstant(const Coord& a, int64_t c) {
  if (c == 0) return a;
  return Add(a, Constant(c));
}

Coord ElementEmitter::Scale(const Coord& a, int64_t factor) {
  if (factor == 1) return a;
  int lanes = b_.type(a.base).lanes;
  int64_t multiple = factor == 0 ? int64_t{1} << 40 : a.multiple * std::abs(factor);
  if (multiple <= 0 || multiple > (int64_t{1} << 40)) multiple = std::abs(factor);
  int64_t low = ScaledBound(factor < 0 ? a.high : a.low, factor, -Coord::kUnknownCoord);
  int64_t high = ScaledBound(factor < 0 ? a.low : a.high, factor, Coord::kUnknownCoord);
  DType type = DType::kS64;
  if (lanes > 1 && LaneType(a) == DType::kS32 && FitsS32(std::abs(factor))) {
    type = LaneType(low, high);
  }
  Coord scaled{b_.Mul(b_.Cast(a.base, type), b_.Int(factor, {type, lanes})), a.step * factor,
               multiple, low, high};
  if (scaled.step != 0) scaled.each = a.each;
  return scaled;
}

// The lanes of a coordinate less a multiple of `divisor`, in 32 bits, which vectors divide by a
// number more easily than 64; -1: they do not hold it. Lanes reach base + span - 1.
ValueId ElementEmitter::SmallLaneValue(const Coord& a, int64_t span, int64_t divisor) {
  if (a.low < 0 || span + divisor > (int64_t{1} << 30)) return -1;
  Coord within{b_.Rem(a.base, b_.Int(divisor)), a.step};
  within.each = a.each;
  return LaneValue(within, DType::kS32);
}

// (base + step * lane) / d is base / d in all lanes when no lane leaves base's multiple of d.
Coord ElementEmitter::Divide(const Coord& a, int64_t divisor) {
  if (divisor == 1) return a;
  int lanes = b_.type(a.base).lanes;
  int64_t low = a.low >= 0 ? a.low / divisor : 0;
  int64_t high = IsKnown(a.high) ? std::max<int64_t>(a.high, 0) / divisor : a.high;
  if (lanes == 1 && (a.step == 0 || lanes_ == 1)) {
    return {b_.Div(a.base, b_.Int(divisor)), 0,
            a.multiple % divisor == 0 ? a.multiple / divisor : 1, low, high};
  }
  if (lanes == 1 && a.step > 0) {
    int64_t span = a.step * ((lanes_ - 1) / a.each) + 1;  // lanes reach base + span - 1
    int64_t common = std::gcd(a.multiple, divisor);
    if (common >= span) return {b_.Div(a.base, b_.Int(divisor)), 0, 1, low, high};
    bool even = a.multiple % divisor == 0;
    Coord part{b_.Div(a.base, b_.Int(divisor)), 0, even ? a.multiple / divisor : 1, low, high};
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
    if (ValueId x = SmallLaneValue(a, span, divisor); x >= 0) {
      DType type = LaneType(low, high);
      ValueId more = b_.Cast(b_.Div(x, b_.Int(divisor, b_.type(x))), type);
      return {b_.Add(b_.Splat(b_.Cast(part.base, type), lanes_), more), 0, 1, low, high};
    }
  }
  DType type = a.low >= 0 && FitsS32(divisor) ? LaneType(a) : DType::kS64;
  ValueId x = LaneValue(a, type);
  return {b_.Div(x, b_.Int(divisor, b_.type(x))), 0, 1, low, high};
}

// What every lane leaves, where that is known of the first one.
std::optional<Coord> ElementEmitter::KnownRemainder(const Coord& a, int64_t divisor) {
  if (b_.type(a.base).lanes != 1 || a.step <= 0 || lanes_ == 1 || a.modulus % divisor != 0) {
    return std::nullopt;
  }
  std::vector<int64_t> lanes;
  for (int64_t lane = 0; lane < lanes_; ++lane) {
    lanes.push_back((a.residue + a.step * (lane / a.each)) % divisor);
  }
  Type type{DType::kS32, lanes_};
  Coord from{b_.Int(a.residue % divisor), a.step};
  from.each = a.each;
  ValueId value = b_.Rem(LaneValue(from, DType::kS32), b_.Int(divisor, type));
  listed_[value] = std::move(lanes);
  return Coord{value, 0, 1, 0, divisor - 1};
}

Coord ElementEmitter::Remainder(const Coord& a, int64_t divisor) {
  if (divisor == 1) return Constant(0);
  if (a.low >= 0 && a.high < divisor) return a;
  int lanes = b_.type(a.base).lanes;
  int64_t low = 0, high = divisor - 1;
  if (lanes == 1 && (a.step == 0 || lanes_ == 1)) {
    return {b_.Rem(a.base, b_.Int(divisor)), 0, std::gcd(a.multiple, divisor), low, high};
  }
  if (lanes == 1 && a.step > 0) {
    int64_t span = a.step * ((lanes_ - 1) / a.each) + 1;
    int64_t common = std::gcd(a.multiple, divisor);
    if (common >= span) {
      Coord rest{b_.Rem(a.base, b_.Int(divisor)), a.step, common, low, high};
      rest.each = a.each;
      return rest;
    }
    if (a.step % divisor == 0) return {b_.Rem(a.base, b_.Int(divisor)), 0, common, low, high};
    if (auto known = KnownRemainder(a, divisor)) return *known;
    if (ValueId x = SmallLaneValue(a, span, divisor); x >= 0) {
      ValueId rest = b_.Rem(x, b_.Int(divisor, b_.type(x)));
      return {rest, 0, 1, low, high};
    }
  }
  DType type = a.low >= 0 && FitsS32(divisor) ? LaneType(a) : DType::kS64;
  ValueId x = LaneValue(a, type);
  return {b_.Rem(x, b_.Int(divisor, b_.type(x))), 0, 1, low, high};
}

Coord ElementEmitter::Linear(std::span<const int64_t> dims, const Index& index) {
  if (index.is_linear) return index.linear;
  Coord linear = Constant(0);
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] != 1) linear = Add(Scale(index.coords[i], stride), linear);
    stride *= dims[i];
  }
  return linear;
}

Coord ElementEmitter::CoordinateAt(std::span<const int64_t> dims, const Index& index, size_t d) {
  if (!index.is_linear) return index.coords[d];
  if (dims[d] == 1) return Constant(0);
  int64_t stride = 1;
  for (size_t i = d + 1; i < dims.size(); ++i) stride *= dims[i];
  bool outermost = true;
  for (size_t i = 0; i < d; ++i) outermost &= dims[i] == 1;
  Coord at = Divide(index.linear, stride);
  return outermost ? at : Remainder(at, dims[d]);
}

Index ElementEmitter::Coordinates(std::span<const int64_t> dims, const Index& index) {
  if (!index.is_linear) return index;
  Index result;
  result.coords.resize(dims.size());
  int64_t stride = 1;
  size_t outermost = 0;
  while (outermost < dims.size() && dims[outermost] == 1) ++outermost;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) {
      result.coords[i] = Constant(0);
      continue;
    }
    Coord at = Divide(index.linear, stride);
    result.coords[i] = i == outermost ? at : Remainder(at, dims[i]);
    stride *= dims[i];
  }
  return result;
}

ValueId ElementEmitter::IsWithin(const Coord& coord, int64_t low, int64_t high,
                                 int64_t size_known) {
  bool check_low = low > 0 && coord.low < low;
  bool check_high = high < size_known && coord.high >= high;
  if (!check_low && !check_high) return -1;
  DType type = FitsS32(size_known) && FitsS32(std::abs(high) + 1) ? DType::kS32 : DType::kS64;
  bool wide = b_.type(coord.base).lanes > 1 || (coord.step != 0 && lanes_ > 1);
  ValueId x = wide ? LaneValue(coord, type) : coord.base;
  ValueId inside = -1;
  if (check_low) inside = b_.Emit(Op::kGe, {x, b_.Int(low, b_.type(x))});
  if (check_high) {
    ValueId below = b_.Emit(Op::kLt, {x, b_.Int(high, b_.type(x))});
    inside = inside < 0 ? below : b_.Emit(Op::kAnd, {inside, below});
  }
  return inside;
}

Coord ElementEmitter::Clamp(const Coord& coord, int64_t low, int64_t high) {
  if (coord.low >= low && coord.high <= high) return coord;
  bool wide = b_.type(coord.base).lanes > 1 || (coord.step != 0 && lanes_ > 1);
  DType lane = LaneType(std::min(coord.low, low), std::max(coord.high, high));
  ValueId x = wide ? LaneValue(coord, lane) : coord.base;
  Type type = b_.type(x);
  if (coord.high > high) x = b_.Min(x, b_.Int(high, type));
  if (coord.low < low) x = b_.Max(x, b_.Int(low, type));
  return {x, 0, 1, low, high};
}

// u64 indices beyond the range of s64 are larger than any array.
Coord ElementEmitter::FromElement(Element element) {
  Type type = b_.type(element.re);
  ValueId value = element.re;
  if (type.dtype == DType::kU64) {
    value = b_.Min(value, b_.Int(std::numeric_limits<int64_t>::max(), type));
  }
  Coord coord{b_.Cast(value, DType::kS64), 0, 1};
  if (IsUnsigned(type.dtype)) coord.low = 0;
  return coord;
}

}  // namespace weft::compiler
