#include "gpu/render_ops.h"

#include "base/check.h"
#include "gpu/cuda_text.h"

namespace weft::gpu {
namespace {

using program::Instr;
using program::Op;
using program::Type;

// The structure of lib/formats.cuh and lib/halves.cuh: the type's name in capitals.
std::string FormatName(DType storage) {
  std::string name;
  for (char c : Name(storage)) name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

bool IsNarrowFloat(DType t) {
  return IsFloat(t) && t != DType::kF32 && t != DType::kF64;
}

std::string CastOf(DType from, DType to, const std::string& a) {
  if (from == to) return a;
  if (to == DType::kPred) return StrCat(a, " != 0");
  if (IsFloat(from) && IsInteger(to)) return StrCat("ToInteger<", CudaType(to), ">(", a, ")");
  return StrCat(CudaType(to), "(", a, ")");
}

std::string BitcastOf(DType from, DType to, const std::string& a) {
  if (from == to) return a;
  if (IsFloat(from)) return StrCat("FromBits<", CudaType(to), ">(", a, ")");
  if (to == DType::kF32) return StrCat("__uint_as_float(u32(", a, "))");
  if (to == DType::kF64) return StrCat("__longlong_as_double(s64(", a, "))");
  return StrCat(CudaType(to), "(", a, ")");
}

// Names of the functions for f32 and f64 that C has.
std::string_view FloatFunction(Op op, bool wide) {
  switch (op) {
    case Op::kAbs: return wide ? "fabs" : "fabsf";
    case Op::kSqrt: return wide ? "__dsqrt_rn" : "__fsqrt_rn";
    case Op::kExp2: return wide ? "exp2" : "exp2f";
    case Op::kLog2: return wide ? "log2" : "log2f";
    case Op::kSin: return wide ? "sin" : "sinf";
    case Op::kCos: return wide ? "cos" : "cosf";
    case Op::kFloor: return wide ? "floor" : "floorf";
    case Op::kCeil: return wide ? "ceil" : "ceilf";
    case Op::kTrunc: return wide ? "trunc" : "truncf";
    case Op::kRound: return wide ? "rint" : "rintf";
    case Op::kRem: return wide ? "fmod" : "fmodf";
    case Op::kFma: return wide ? "__fma_rn" : "__fmaf_rn";
    case Op::kExp: return wide ? "exp" : "expf";
    case Op::kExpm1: return wide ? "expm1" : "expm1f";
    case Op::kLog: return wide ? "log" : "logf";
    case Op::kLog1p: return wide ? "log1p" : "log1pf";
    case Op::kTan: return wide ? "tan" : "tanf";
    case Op::kAsin: return wide ? "asin" : "asinf";
    case Op::kAcos: return wide ? "acos" : "acosf";
    case Op::kSinh: return wide ? "sinh" : "sinhf";
    case Op::kCosh: return wide ? "cosh" : "coshf";
    case Op::kTanh: return wide ? "tanh" : "tanhf";
    case Op::kAsinh: return wide ? "asinh" : "asinhf";
    case Op::kAcosh: return wide ? "acosh" : "acoshf";
    case Op::kAtanh: return wide ? "atanh" : "atanhf";
    case Op::kErf: return wide ? "erf" : "erff";
    case Op::kCbrt: return wide ? "cbrt" : "cbrtf";
    case Op::kRsqrt: return wide ? "rsqrt" : "rsqrtf";
    case Op::kAtan2: return wide ? "atan2" : "atan2f";
    case Op::kPow: return wide ? "pow" : "powf";
    default: return "";
  }
}

// The operator of C that means just this, for the type.
std::string_view Infix(Op op, DType type) {
  bool is_float = IsFloat(type);
  switch (op) {
    case Op::kAdd: return is_float ? "+" : "";
    case Op::kSub: return is_float ? "-" : "";
    case Op::kMul: return is_float ? "*" : "";
    case Op::kDiv: return is_float ? "/" : "";
    case Op::kAnd: return "&";
    case Op::kOr: return "|";
    case Op::kXor: return "^";
    case Op::kEq: return "==";
    case Op::kNe: return "!=";
    case Op::kLt: return "<";
    case Op::kLe: return "<=";
    case Op::kGt: return ">";
    case Op::kGe: return ">=";
    default: return "";
  }
}

// The same of integers that fit: what wraps around is undefined in C.
std::string_view PlainInfix(const Instr& instr) {
  bool plain = instr.nowrap && (instr.type.dtype == DType::kS32 || instr.type.dtype == DType::kS64);
  if (!plain) return "";
  return instr.op == Op::kAdd ? "+" : instr.op == Op::kSub ? "-" : instr.op == Op::kMul ? "*" : "";
}

// The function of lib/numbers.cuh.
std::string_view LibraryFunction(Op op) {
  switch (op) {
    case Op::kNeg: return "Neg";
    case Op::kAbs: return "Abs";
    case Op::kPopcount: return "Popcount";
    case Op::kClz: return "Clz";
    case Op::kAdd: return "Add";
    case Op::kSub: return "Sub";
    case Op::kMul: return "Mul";
    case Op::kDiv: return "Div";
    case Op::kRem: return "Rem";
    case Op::kMin: return "Min";
    case Op::kMax: return "Max";
    case Op::kShl: return "Shl";
    case Op::kShr: return "Shr";
    default: CHECK(false) << Name(op); return "";
  }
}

}  // namespace

std::string RenderOp(const Instr& instr, std::span<const std::string> args,
                     std::span<const Type> types) {
  DType type = instr.type.dtype;
  switch (instr.op) {
    case Op::kSelect: return StrCat(args[0], " ? ", args[1], " : ", args[2]);
    case Op::kCast: return CastOf(types[0].dtype, type, args[0]);
    case Op::kBitcast: return BitcastOf(types[0].dtype, type, args[0]);
    case Op::kNarrow: return FromStorage(instr.format, ToStorage(instr.format, args[0]));
    case Op::kNot:
      return type == DType::kPred ? StrCat("!", args[0]) : StrCat("Not(", args[0], ")");
    case Op::kNeg:
      if (IsFloat(type)) return StrCat("Minus(", args[0], ")");
      break;
    case Op::kMul:
      if (!instr.rounded) break;
      return StrCat(type == DType::kF64 ? "__dmul_rn(" : "__fmul_rn(", args[0], ", ", args[1], ")");
    case Op::kSub:
      // Said as what it is, or the compiler finds it out: see Neg.
      if (!IsFloat(type) && args[0] == "0") return StrCat("Neg(", args[1], ")");
      break;
    default: break;
  }
  if (std::string_view op = PlainInfix(instr); !op.empty()) {
    return StrCat(args[0], " ", op, " ", args[1]);
  }
  if (std::string_view op = Infix(instr.op, types[0].dtype); !op.empty()) {
    return StrCat(args[0], " ", op, " ", args[1]);
  }
  std::string_view function = IsFloat(type) ? FloatFunction(instr.op, type == DType::kF64) : "";
  if (function.empty()) function = LibraryFunction(instr.op);
  return StrCat(function, "(", StrJoin(args, ", "), ")");
}

std::string RenderAtomicCall(Op op, DType type, const std::string& address,
                             const std::string& value) {
  // Sums and bits of signed numbers of 64 bits are those of unsigned ones.
  bool orders = op == Op::kMin || op == Op::kMax;
  bool as_unsigned = type == DType::kS64 && !orders;
  std::string name = op == Op::kAdd   ? "Add"
                     : op == Op::kMin ? "Min"
                     : op == Op::kMax ? "Max"
                     : op == Op::kAnd ? "And"
                     : op == Op::kOr  ? "Or"
                                      : "Xor";
  if (!as_unsigned) return StrCat("atomic", name, "(", address, ", ", value, ")");
  return StrCat("atomic", name, "((u64*)(", address, "), u64(", value, "))");
}

std::string FromStorage(DType storage, const std::string& value) {
  if (storage == DType::kPred) return StrCat(value, " != 0");
  if (IsNarrowFloat(storage)) return StrCat(FormatName(storage), "::Decode(", value, ")");
  return value;
}

std::string ToStorage(DType storage, const std::string& value) {
  if (storage == DType::kPred) return StrCat("u8(", value, ")");
  if (IsNarrowFloat(storage)) return StrCat(FormatName(storage), "::Encode(", value, ")");
  if (!IsSubByte(storage)) return value;
  int bits = BitWidth(storage), shift = 8 - bits;
  if (!IsSigned(storage)) return StrCat("u8(", value, " & ", (1 << bits) - 1, ")");
  return StrCat("s8(s8(", value, " << ", shift, ") >> ", shift, ")");
}

}  // namespace weft::gpu
