// The operations of kernels, one row each: what a backend implements.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::program {

// What operands a row takes. All but the last five groups: args and result have the written type.
enum class OpClass : uint8_t {
  kArith,     // integers and floats
  kFloat,     // f32, f64
  kFunction,  // the same, of targets that have functions (TargetInfo)
  kInteger,   // integers
  kBits,      // integers and pred
  kCompare,   // written type is the operands', result is pred; eq, ne also compare pred
  kSelect,    // pred, then two of the written type, which may be any
  kConvert,   // cast, bitcast, narrow
  kLanes,     // splat, iota, extract, shuffle, any
  kMemory,    // load, store, atomic, array
  kControl,   // loop, if, else, combine, end
};

// OP(enumerator, mnemonic, arity (-1: varies), class)
#define WEFT_KERNEL_OPS(OP)              \
  OP(kNeg, "neg", 1, kArith)             \
  OP(kAbs, "abs", 1, kArith)             \
  OP(kSqrt, "sqrt", 1, kFloat)           \
  OP(kExp2, "exp2", 1, kFloat)           \
  OP(kLog2, "log2", 1, kFloat)           \
  OP(kSin, "sin", 1, kFloat)             \
  OP(kCos, "cos", 1, kFloat)             \
  OP(kFloor, "floor", 1, kFloat)         \
  OP(kCeil, "ceil", 1, kFloat)           \
  OP(kTrunc, "trunc", 1, kFloat)         \
  OP(kRound, "round", 1, kFloat)         \
  OP(kNot, "not", 1, kBits)              \
  OP(kPopcount, "popcount", 1, kInteger) \
  OP(kClz, "clz", 1, kInteger)           \
  OP(kAdd, "add", 2, kArith)             \
  OP(kSub, "sub", 2, kArith)             \
  OP(kMul, "mul", 2, kArith)             \
  OP(kDiv, "div", 2, kArith)             \
  OP(kRem, "rem", 2, kArith)             \
  OP(kMin, "min", 2, kArith)             \
  OP(kMax, "max", 2, kArith)             \
  OP(kAnd, "and", 2, kBits)              \
  OP(kOr, "or", 2, kBits)                \
  OP(kXor, "xor", 2, kBits)              \
  OP(kShl, "shl", 2, kInteger)           \
  OP(kShr, "shr", 2, kInteger)           \
  OP(kFma, "fma", 3, kFloat)             \
  OP(kExp, "exp", 1, kFunction)          \
  OP(kExpm1, "expm1", 1, kFunction)      \
  OP(kLog, "log", 1, kFunction)          \
  OP(kLog1p, "log1p", 1, kFunction)      \
  OP(kTan, "tan", 1, kFunction)          \
  OP(kAsin, "asin", 1, kFunction)        \
  OP(kAcos, "acos", 1, kFunction)        \
  OP(kSinh, "sinh", 1, kFunction)        \
  OP(kCosh, "cosh", 1, kFunction)        \
  OP(kTanh, "tanh", 1, kFunction)        \
  OP(kAsinh, "asinh", 1, kFunction)      \
  OP(kAcosh, "acosh", 1, kFunction)      \
  OP(kAtanh, "atanh", 1, kFunction)      \
  OP(kErf, "erf", 1, kFunction)          \
  OP(kCbrt, "cbrt", 1, kFunction)        \
  OP(kRsqrt, "rsqrt", 1, kFunction)      \
  OP(kAtan2, "atan2", 2, kFunction)      \
  OP(kPow, "pow", 2, kFunction)          \
  OP(kEq, "eq", 2, kCompare)             \
  OP(kNe, "ne", 2, kCompare)             \
  OP(kLt, "lt", 2, kCompare)             \
  OP(kLe, "le", 2, kCompare)             \
  OP(kGt, "gt", 2, kCompare)             \
  OP(kGe, "ge", 2, kCompare)             \
  OP(kSelect, "select", 3, kSelect)      \
  OP(kCast, "cast", 1, kConvert)         \
  OP(kBitcast, "bitcast", 1, kConvert)   \
  OP(kNarrow, "narrow", 1, kConvert)     \
  OP(kSplat, "splat", 1, kLanes)         \
  OP(kIota, "iota", 0, kLanes)           \
  OP(kExtract, "extract", 1, kLanes)     \
  OP(kShuffle, "shuffle", 2, kLanes)     \
  OP(kAny, "any", 1, kLanes)             \
  OP(kLoad, "load", -1, kMemory)         \
  OP(kStore, "store", -1, kMemory)       \
  OP(kAtomic, "atomic", -1, kMemory)     \
  OP(kArray, "array", 0, kMemory)        \
  OP(kLoop, "loop", -1, kControl)        \
  OP(kIf, "if", 1, kControl)             \
  OP(kElse, "else", -1, kControl)        \
  OP(kCombine, "combine", -1, kControl)  \
  OP(kEnd, "end", -1, kControl)

enum class Op : uint8_t {
#define WEFT_OP_ENUM(e, name, arity, cls) e,
  WEFT_KERNEL_OPS(WEFT_OP_ENUM)
#undef WEFT_OP_ENUM
};

struct OpInfo {
  std::string_view name;
  int arity;
  OpClass cls;
};
namespace detail {
inline constexpr OpInfo kOpInfo[] = {
#define WEFT_OP_ROW(e, name, arity, cls) {name, arity, OpClass::cls},
    WEFT_KERNEL_OPS(WEFT_OP_ROW)
#undef WEFT_OP_ROW
};
}  // namespace detail
inline constexpr int kOpCount = sizeof(detail::kOpInfo) / sizeof(OpInfo);

constexpr const OpInfo& Info(Op op) {
  return detail::kOpInfo[static_cast<int>(op)];
}
constexpr std::string_view Name(Op op) {
  return Info(op).name;
}
std::optional<Op> ParseOp(std::string_view name);

enum class LoopKind : uint8_t { kSerial, kUnroll, kParallel, kThread, kVector };
std::string_view Name(LoopKind kind);
std::optional<LoopKind> ParseLoopKind(std::string_view name);
// Iterations may run at the same time.
constexpr bool IsConcurrent(LoopKind kind) {
  return kind >= LoopKind::kParallel;
}

}  // namespace weft::program
