// Storage formats: what loads, stores and `narrow` do to values. Floats of 8 bits and less go by
// integer operations on 32-bit lanes, all cases computed and one chosen (base/float_formats.cc has
// the same in C++).
#include "base/float_formats.h"
#include "cpu/render/ops.h"

namespace weft::cpu {
namespace {

// Integer arithmetic on i32 lanes, floats where said.
struct Lanes32 {
  IrBody& ir;
  int lanes;
  std::string type = IrVector("i32", lanes), real = IrVector("float", lanes),
              pred = IrVector("i1", lanes);

  std::string Number(uint32_t value) const {
    return IrSplat("i32", StrCat(static_cast<int32_t>(value)), lanes);
  }
  std::string Op(std::string_view op, const std::string& a, const std::string& b) const {
    return ir.Def(op, " ", type, " ", a, ", ", b);
  }
  std::string Op(std::string_view op, const std::string& a, uint32_t b) const {
    return Op(op, a, Number(b));
  }
  std::string Choose(const std::string& condition, const std::string& a,
                     const std::string& b) const {
    return ir.Def("select ", pred, " ", condition, ", ", type, " ", a, ", ", type, " ", b);
  }
  std::string Choose(const std::string& condition, uint32_t a, const std::string& b) const {
    return Choose(condition, Number(a), b);
  }
  std::string Bits(const std::string& value) const {
    return ir.Def("bitcast ", real, " ", value, " to ", type);
  }
  std::string Float(const std::string& bits) const {
    return ir.Def("bitcast ", type, " ", bits, " to ", real);
  }
  std::string FloatOp(std::string_view op, const std::string& a, uint32_t b_bits) const {
    return ir.Def(op, " ", real, " ", a, ", ", IrSplat("float", IrFloatBits(b_bits), lanes));
  }
};

std::string DecodeByte(IrBody& ir, DType format, int lanes, const std::string& value) {
  FloatFormat f = FormatOf(format);
  Lanes32 v{ir, lanes};
  std::string x = ir.Def("zext ", IrVector("i8", lanes), " ", value, " to ", v.type);
  if (f.specials == FloatSpecials::kExponentOnly) {
    std::string result = v.Op("shl", x, 23);
    result = v.Choose(v.Op("icmp eq", x, 0u), 0x00400000u, result);
    return v.Float(v.Choose(v.Op("icmp eq", x, 255), 0x7fc00000u, result));
  }
  std::string sign = v.Op("shl", v.Op("and", x, static_cast<uint32_t>(f.SignMask())),
                          static_cast<uint32_t>(32 - f.bits));
  std::string magnitude = v.Op("and", x, static_cast<uint32_t>(f.MagnitudeMask()));
  std::string shifted = v.Op("shl", magnitude, static_cast<uint32_t>(23 - f.mantissa_bits));
  uint32_t smallest = static_cast<uint32_t>(128 - f.bias) << 23;  // the smallest normal number
  std::string normal = v.Op("add", shifted, static_cast<uint32_t>(127 - f.bias) << 23);
  std::string raised = v.Float(v.Op("add", shifted, smallest));
  std::string small = v.Bits(v.FloatOp("fsub", raised, smallest));
  std::string result = v.Choose(v.Op("icmp ult", magnitude, 1u << f.mantissa_bits), small, normal);
  if (f.HasInfinity()) {
    uint32_t infinity = static_cast<uint32_t>(f.Infinity());
    result = v.Choose(v.Op("icmp eq", magnitude, infinity), 0x7f800000u, result);
    result = v.Choose(v.Op("icmp ugt", magnitude, infinity), 0x7fc00000u, result);
  } else if (f.specials == FloatSpecials::kFn) {
    std::string nan = v.Op("icmp eq", magnitude, static_cast<uint32_t>(f.MagnitudeMask()));
    result = v.Choose(nan, 0x7fc00000u, result);
  } else if (f.specials == FloatSpecials::kFnuz) {
    std::string nan = v.Op("icmp eq", x, static_cast<uint32_t>(f.SignMask()));
    result = v.Choose(nan, 0x7fc00000u, result);
  }
  return v.Float(v.Op("or", result, sign));
}

std::string EncodePowerOfTwo(const Lanes32& v, const std::string& x) {
  std::string exponent = v.Op("lshr", x, 23), fraction = v.Op("and", x, 0x7fffff);
  std::string limit = v.Choose(v.Op("icmp eq", exponent, 0u), 0x400001u, v.Number(0x400000));
  std::string up =
      v.ir.Def("zext ", v.pred, " ", v.Op("icmp uge", fraction, limit), " to ", v.type);
  std::string sum = v.Op("add", exponent, up);
  std::string result = v.Choose(v.Op("icmp ugt", sum, 254), 255u, sum);
  return v.Choose(v.Op("icmp eq", x, 0u), 255u, result);
}

std::string EncodeByte(const Lanes32& v, DType format, const std::string& bits) {
  FloatFormat f = FormatOf(format);
  if (f.specials == FloatSpecials::kExponentOnly) return EncodePowerOfTwo(v, bits);
  uint32_t shift = static_cast<uint32_t>(23 - f.mantissa_bits);
  uint32_t magic = static_cast<uint32_t>(127 + 24 - f.bias - f.mantissa_bits) << 23;
  uint32_t smallest = static_cast<uint32_t>(128 - f.bias) << 23;
  uint32_t most = static_cast<uint32_t>(f.MaxFinite());
  std::string sign = v.Op("and", v.Op("lshr", bits, static_cast<uint32_t>(32 - f.bits)),
                          static_cast<uint32_t>(f.SignMask()));
  std::string x = v.Op("and", bits, 0x7fffffffu);
  std::string odd = v.Op("and", v.Op("lshr", x, shift), 1u);
  std::string rounded = v.Op("add", v.Op("add", x, (1u << (shift - 1)) - 1), odd);
  std::string result = v.Op("sub", v.Op("lshr", rounded, shift),
                            static_cast<uint32_t>(127 - f.bias) << f.mantissa_bits);
  std::string sum = v.Bits(v.FloatOp("fadd", v.Float(x), magic));
  result = v.Choose(v.Op("icmp ult", x, smallest), v.Op("sub", sum, magic), result);
  std::string nan = v.Op("icmp ugt", x, 0x7f800000u);
  std::string over = v.Op("icmp ugt", result, most);
  if (f.specials == FloatSpecials::kFnuz) {
    std::string with_sign = v.Choose(v.Op("icmp eq", result, 0u), 0u, v.Op("or", result, sign));
    std::string none = v.ir.Def("or ", v.pred, " ", over, ", ", nan);
    return v.Choose(none, static_cast<uint32_t>(f.SignMask()), with_sign);
  }
  uint32_t overflow = f.specials == FloatSpecials::kFinite ? most : most + 1;
  result = v.Op("or", v.Choose(over, overflow, result), sign);
  // NaNs carry their sign over, turned round where the format has none (a zero).
  uint32_t quiet = static_cast<uint32_t>(f.QuietNan(false));
  return v.Choose(nan, v.Op("xor", v.Number(quiet), sign), result);
}

std::string EncodeBf16(IrBody& ir, int lanes, const std::string& value,
                       const RenderTarget& target) {
  std::string half = IrVector("i16", lanes);
  if (target.bf16_conversion) {
    std::string narrow = IrVector("bfloat", lanes);
    std::string rounded = ir.Def("fptrunc ", IrVector("float", lanes), " ", value, " to ", narrow);
    return ir.Def("bitcast ", narrow, " ", rounded, " to ", half);
  }
  Lanes32 v{ir, lanes};
  std::string x = v.Bits(value);
  std::string odd = v.Op("and", v.Op("lshr", x, 16), 1u);
  std::string rounded = v.Op("add", v.Op("add", x, 0x7fffu), odd);
  std::string nan = ir.Def("fcmp uno ", v.real, " ", value, ", ", value);
  std::string kept = v.Choose(nan, v.Op("or", x, 0x400000u), rounded);
  return ir.Def("trunc ", v.type, " ", v.Op("lshr", kept, 16), " to ", half);
}

}  // namespace

std::string FromStorage(IrBody& ir, DType storage, int lanes, const std::string& value) {
  if (storage == DType::kPred) {
    return ir.Def("icmp ne ", IrVector("i8", lanes), " ", value, ", ", IrSplat("i8", "0", lanes));
  }
  if (!IsFloat(storage) || storage == DType::kF32 || storage == DType::kF64) return value;
  std::string real = IrVector("float", lanes);
  if (storage == DType::kF16) {
    return ir.Def("fpext ", IrVector("half", lanes), " ", value, " to ", real);
  }
  if (storage == DType::kBF16) {
    std::string wide = IrVector("i32", lanes);
    std::string bits = ir.Def("zext ", IrVector("i16", lanes), " ", value, " to ", wide);
    std::string high = ir.Def("shl ", wide, " ", bits, ", ", IrSplat("i32", "16", lanes));
    return ir.Def("bitcast ", wide, " ", high, " to ", real);
  }
  return DecodeByte(ir, storage, lanes, value);
}

std::string ToStorage(IrBody& ir, DType storage, int lanes, const std::string& value,
                      const RenderTarget& target) {
  std::string byte = IrVector("i8", lanes);
  if (storage == DType::kPred) {
    return ir.Def("zext ", IrVector("i1", lanes), " ", value, " to ", byte);
  }
  if (IsSubByte(storage) && !IsFloat(storage)) {
    int shift = 8 - BitWidth(storage);
    if (!IsSigned(storage)) {
      return ir.Def("and ", byte, " ", value, ", ", IrSplat("i8", StrCat(0xff >> shift), lanes));
    }
    std::string amount = IrSplat("i8", StrCat(shift), lanes);
    std::string high = ir.Def("shl ", byte, " ", value, ", ", amount);
    return ir.Def("ashr ", byte, " ", high, ", ", amount);
  }
  if (!IsFloat(storage) || storage == DType::kF32 || storage == DType::kF64) return value;
  std::string real = IrVector("float", lanes);
  if (storage == DType::kF16) {
    return ir.Def("fptrunc ", real, " ", value, " to ", IrVector("half", lanes));
  }
  if (storage == DType::kBF16) return EncodeBf16(ir, lanes, value, target);
  Lanes32 v{ir, lanes};
  std::string bits = EncodeByte(v, storage, v.Bits(value));
  return ir.Def("trunc ", v.type, " ", bits, " to ", byte);
}

}  // namespace weft::cpu
