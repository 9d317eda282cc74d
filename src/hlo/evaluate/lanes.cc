#include "hlo/evaluate/lanes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/elements.h"
#include "base/float_formats.h"
#include "hlo/evaluate/lane_loops.h"
#include "hlo/ops/array_rules.h"

namespace weft::hlo {
namespace {

template <class T>
void FillFrom(void* lanes, int64_t n) {
  T* values = static_cast<T*>(lanes);
  std::fill(values + 1, values + n, values[0]);
}

LaneKernel SelectKernel(Lane lane) {
  switch (LaneBytes(lane)) {
    case 1: return SelectLanes<uint8_t>;
    case 4: return SelectLanes<uint32_t>;
    case 8: return SelectLanes<uint64_t>;
    default: return SelectLanes<std::pair<uint64_t, uint64_t>>;
  }
}

void ConvertKernel(const LaneArgs& a) {
  bool stored = IsStoredAsLane(a.in_type), direct = IsStoredAsLane(a.out_type);
  if (stored && direct) {
    ConvertElements(a.in_type, static_cast<const std::byte*>(a.in[0]), a.out_type,
                    static_cast<std::byte*>(a.out), a.n);
    return;
  }
  LaneBlock from, to;
  StoreLanes(LaneOf(a.in_type), a.in[0], a.n, a.in_type, from.bytes);
  ConvertElements(a.in_type, from.bytes, a.out_type, to.bytes, a.n);
  LoadLanes(a.out_type, to.bytes, a.n, LaneOf(a.out_type), a.out);
}

// Types of one width alone.
void BitcastKernel(const LaneArgs& a) {
  if (IsStoredAsLane(a.in_type) && IsStoredAsLane(a.out_type)) {
    if (a.out != a.in[0])
      std::memcpy(a.out, a.in[0], static_cast<size_t>(a.n * ByteWidth(a.out_type)));
    return;
  }
  LaneBlock stored;
  StoreLanes(LaneOf(a.in_type), a.in[0], a.n, a.in_type, stored.bytes);
  LoadLanes(a.out_type, stored.bytes, a.n, LaneOf(a.out_type), a.out);
}

void CopyKernel(const LaneArgs& a) {
  std::memcpy(a.out, a.in[0], static_cast<size_t>(a.n * LaneBytes(LaneOf(a.out_type))));
}

// One value of an IEEE-like format as bits, to fewer exponent and mantissa bits.
uint64_t ReduceBits(uint64_t bits, const FloatFormat& format, int64_t exponent_bits,
                    int64_t mantissa_bits) {
  if (format.IsNan(bits)) return mantissa_bits > 0 ? bits : format.Infinity();
  if (mantissa_bits < format.mantissa_bits) {
    int dropped = format.mantissa_bits - static_cast<int>(mantissa_bits);
    uint64_t last = uint64_t{1} << dropped;
    bits += (last >> 1) - 1 + (bits >> dropped & 1);
    bits &= ~(last - 1);
  }
  if (exponent_bits < format.exponent_bits) {
    uint64_t reduced_bias = (uint64_t{1} << (exponent_bits - 1)) - 1;
    uint64_t exponent = (bits & format.MagnitudeMask()) >> format.mantissa_bits;
    uint64_t bias = static_cast<uint64_t>(format.bias);
    if (exponent > bias + reduced_bias) return (bits & format.SignMask()) | format.Infinity();
    if (exponent <= bias - reduced_bias) return bits & format.SignMask();
  }
  return bits;
}

template <class Bits>
void ReduceStored(std::byte* data, int64_t n, const FloatFormat& format,
                  const ReducePrecisionAttrs& attrs) {
  Bits* values = reinterpret_cast<Bits*>(data);
  for (int64_t i = 0; i < n; ++i) {
    values[i] =
        static_cast<Bits>(ReduceBits(values[i], format, attrs.exponent_bits, attrs.mantissa_bits));
  }
}

void ReducePrecisionKernel(const LaneArgs& a) {
  // Formats without infinities are reduced as f32 and rounded back.
  DType dtype = FormatOf(a.in_type).HasInfinity() ? a.in_type : DType::kF32;
  FloatFormat format = FormatOf(dtype);
  const auto& attrs = a.attrs->As<ReducePrecisionAttrs>();
  LaneBlock block;
  StoreLanes(LaneOf(a.in_type), a.in[0], a.n, dtype, block.bytes);
  switch (ByteWidth(dtype)) {
    case 1: ReduceStored<uint8_t>(block.bytes, a.n, format, attrs); break;
    case 2: ReduceStored<uint16_t>(block.bytes, a.n, format, attrs); break;
    case 4: ReduceStored<uint32_t>(block.bytes, a.n, format, attrs); break;
    default: ReduceStored<uint64_t>(block.bytes, a.n, format, attrs); break;
  }
  LoadLanes(dtype, block.bytes, a.n, LaneOf(a.out_type), a.out);
}

}  // namespace

void LoadLanes(DType from, const std::byte* src, int64_t n, Lane lane, void* dst) {
  switch (lane) {
    case Lane::kF32: return LoadF32(from, src, n, static_cast<float*>(dst));
    case Lane::kF64: return LoadF64(from, src, n, static_cast<double*>(dst));
    case Lane::kI64: return LoadI64(from, src, n, static_cast<int64_t*>(dst));
    case Lane::kPred:
    case Lane::kI32:
    case Lane::kC64:
    case Lane::kC128: std::memcpy(dst, src, static_cast<size_t>(n * LaneBytes(lane))); return;
  }
}

void StoreLanes(Lane lane, const void* src, int64_t n, DType to, std::byte* dst) {
  switch (lane) {
    case Lane::kF32: return StoreF32(to, static_cast<const float*>(src), n, dst);
    case Lane::kF64: return StoreF64(to, static_cast<const double*>(src), n, dst);
    case Lane::kI64: return StoreI64(to, static_cast<const int64_t*>(src), n, dst);
    case Lane::kPred:
    case Lane::kI32:
    case Lane::kC64:
    case Lane::kC128: std::memcpy(dst, src, static_cast<size_t>(n * LaneBytes(lane))); return;
  }
}

void RoundLanes(DType dtype, Lane lane, void* lanes, int64_t n) {
  if (IsStoredAsLane(dtype)) return;
  LaneBlock stored;
  StoreLanes(lane, lanes, n, dtype, stored.bytes);
  LoadLanes(dtype, stored.bytes, n, lane, lanes);
}

void FillLanes(DType from, const std::byte* element, int64_t n, Lane lane, void* dst) {
  if (n == 0) return;
  LoadLanes(from, element, 1, lane, dst);
  switch (LaneBytes(lane)) {
    case 1: return FillFrom<uint8_t>(dst, n);
    case 4: return FillFrom<uint32_t>(dst, n);
    case 8: return FillFrom<uint64_t>(dst, n);
    default: return FillFrom<std::pair<uint64_t, uint64_t>>(dst, n);
  }
}

Result<LaneOp> FindLaneOp(Op op, const Attrs& attrs, std::span<const DType> operands,
                          DType result) {
  DType common = operands.back();
  for (DType t : operands.subspan(op == Op::kSelect ? 1 : 0)) common = MorePrecise(common, t);
  // A written result type may be more precise than the operands.
  if (IsFloat(common) && IsFloat(result) && op != Op::kConvert && op != Op::kBitcastConvert &&
      op != Op::kReducePrecision && result == DType::kF64) {
    common = result;
  }
  Lane lane = LaneOf(common);
  LaneOp found{nullptr, {lane, lane, lane}, LaneOf(result), common};
  switch (op) {
    case Op::kSelect:
      found.in[0] = Lane::kPred;
      found.kernel = SelectKernel(lane);
      found.out = lane;
      break;
    case Op::kConvert: found.kernel = ConvertKernel; break;
    case Op::kBitcastConvert:
      if (ByteWidth(common) == ByteWidth(result)) found.kernel = BitcastKernel;
      break;
    case Op::kReducePrecision: found.kernel = ReducePrecisionKernel; break;
    case Op::kCopy:
      if (common == result) found.kernel = CopyKernel;
      break;
    case Op::kCompare:
      found.out = Lane::kPred;
      found.kernel = FindCompareKernel(attrs.As<CompareAttrs>(), common, lane);
      break;
    default:
      switch (lane) {
        case Lane::kF32:
        case Lane::kF64: found.kernel = FindFloatKernel(op, lane); break;
        case Lane::kPred:
        case Lane::kI32:
        case Lane::kI64: found.kernel = FindIntegerKernel(op, common); break;
        case Lane::kC64:
        case Lane::kC128: found.kernel = FindComplexKernel(op, lane); break;
      }
      if (op == Op::kIsFinite) {
        found.out = Lane::kPred;
      } else if (op == Op::kComplex) {
        found.out = LaneOf(ComplexType(common));
      } else if (op == Op::kAbs || op == Op::kReal || op == Op::kImag) {
        found.out = LaneOf(RealType(common));
      } else {
        found.out = lane;
      }
  }
  if (found.kernel == nullptr) {
    return Unimplemented(Mnemonic(op), ": not defined for elements of type ", Name(common));
  }
  return found;
}

}  // namespace weft::hlo
