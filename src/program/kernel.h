// Kernels: loop nests over scalars (and short vectors of them), printed by the CPU backend as LLVM
// IR text and by the GPU backend as CUDA C text. The text form is described in FORMAT.md.
//
// Semantics
//  Values    SSA, typed: a compute type and a number of lanes (f32, s64, f32x8). Compute types are
//            pred, s8..s64, u8..u64, f32, f64. Every operation works lane by lane. Constants are
//            values without an instruction; one with lanes has that number in every lane.
//  Memory    Parameters and arrays are flat, typed by a storage dtype, indexed by element. A load
//            converts to ComputeType(dtype) (bf16 -> f32, s4 -> s8), a store converts back (round
//            to nearest even, integers wrap). Complex memory is a real parameter of twice the
//            elements: real part at 2i, imaginary part at 2i+1. Sub-byte elements take one byte.
//            Parameters do not overlap, except that several read ones may be the same memory.
//            Every access is in bounds; lanes whose mask is false do not access, and load as 0.
//  Integers  + - * wrap; marked nowrap they promise that the type holds what comes out, or that it
//  is
//            not used. x/0 has all bits set, x rem 0 is x, min/-1 wraps. Shifts by the width or
//            more give 0 (or the sign, for shr of signed). Division truncates toward zero.
//  Floats    IEEE, subnormals kept (unless the program says flush_subnormals), no reassociation. A
//            backend may contract mul + add, but for a mul that is marked rounded; fma always
//            rounds once. min/max return NaN when an operand is NaN, and take -0 for less than +0.
//            Comparisons with NaN are false, ne is true. sqrt, div and the conversions are
//            correctly rounded; exp2, log2, sin, cos are within 2 ULP, functions (exp .. pow)
//            within 4, pow 8. round is half to even. `narrow bf16` rounds an f32 to what a bf16
//            holds and keeps it an f32.
//  cast      value conversion: float -> int truncates, saturates, NaN -> 0 (marked nowrap it
//            promises that the type holds what comes out, or that it is not used); int -> int
//            wraps;
//            -> pred is != 0; int -> float rounds to nearest even.
//  any       one pred from the lanes of a pred: whether one of them is true.
//  atomic    memory[index] = op(memory[index], value) as one: add, min, max, and, or, xor of
//            integers of 32 or 64 bits, which come out the same in any order.
//  Order     Instructions run in order; an instruction has no effect besides its stores.
//  Loops     for (i = begin; i < end; i += step), step > 0 constant.
//    serial    in order; may carry values from one iteration to the next
//    unroll    serial with constant bounds; a wish that the backend unrolls
//    parallel  iterations may run at once, in any order: no iteration touches memory that another
//              one writes, but by atomics of one kind. Constant bounds; one nest at the top of the
//              kernel, perfectly nested, nothing is stored outside it. This is the grid.
//    thread    like parallel, inside one iteration of the grid, and all its iterations have ended
//              before what follows starts (a barrier). The threads of a block. Where it ends in a
//              `combine`, what its iterations yield becomes one value of each, by a balanced tree:
//              neighbours first (0 with 1, 2 with 3, ...), then neighbours of those, the one of
//              the lower number on the left. A power of two of iterations, counted from 0 by 1.
//    vector    like parallel, with constant bounds, innermost: lanes of one vector instruction.
//  Arrays    come to life at their `array` line with undefined content and end with the enclosing
//            block. Inside a thread loop they are private to the iteration. Outside, the threads
//            share them, unless they are `per_thread`: then iteration number n (counted through
//            the nested thread loops) of every thread loop sees the n-th copy, and nobody else
//            does. Such arrays are registers that outlive a barrier.
// Running every loop in order, one iteration after the other, is always a correct execution.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/inline_vec.h"
#include "program/ops.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::program {

// Lanes of a value: bytes of the widest vector.
inline constexpr int kMaxLanes = TargetFacts::kLineBytes;
inline constexpr int kMaxNesting = WorkBounds::kPath;  // blocks within blocks of a kernel
// Product of the nested thread loops.
inline constexpr int64_t kMaxThreads = TargetFacts::kBlockThreads;

struct Position {  // where it stood in the text; 0: built in memory
  int line = 0, column = 0;
};

struct Type {
  DType dtype = DType::kInvalid;
  int lanes = 1;
  bool operator==(const Type&) const = default;
  std::string ToString() const;  // "f32", "s64x4"
};
std::optional<Type> ParseType(std::string_view text);
bool IsComputeType(DType dtype);
bool FitsInteger(int64_t value, DType integer_type);  // u64: any value that is not negative
DType ComputeType(DType storage);                     // kInvalid for complex and non-array types

enum class Access : uint8_t { kRead = 1, kWrite = 2, kReadWrite = 3 };
std::string_view Name(Access access);  // "read", "write", "update"
constexpr bool Reads(Access a) {
  return static_cast<int>(a) & 1;
}
constexpr bool Writes(Access a) {
  return static_cast<int>(a) & 2;
}

using ValueId = int32_t;

struct Value {
  Type type;
  std::string name;  // empty: numbered when printed
  bool is_constant = false;
  uint64_t bits = 0;  // of a constant: int64_t (also u64, pred), or a double for f32 and f64
  int64_t AsInt() const { return static_cast<int64_t>(bits); }
  double AsDouble() const { return std::bit_cast<double>(bits); }
};

// A parameter (the first num_params memories of a kernel) or an array.
struct Memory {
  std::string name;
  DType dtype = DType::kInvalid;  // any real storage type
  int64_t count = 0;              // elements
  Access access = Access::kReadWrite;
  int64_t align = 0;        // bytes that the address is a multiple of; 0: the element's width
  bool per_thread = false;  // arrays: see above
  Position pos;
};

// What is expected of an `if`: hints, which change nothing of what is computed.
//  likely    the first block runs nearly always
//  unlikely  the first block is a slow path, which backends may outline
//  guard     a check that nearly always holds: the second block is a slow path that backends
//  neither
//            speculate nor turn into selects (if-conversion)
enum class Branch : uint8_t { kEven, kLikely, kUnlikely, kGuard };
std::string_view Name(Branch branch);  // "", "likely", "unlikely", "guard"
std::optional<Branch> ParseBranch(std::string_view text);

struct Instr {
  Op op = Op::kAdd;
  LoopKind loop = LoopKind::kSerial;  // kLoop
  Branch branch = Branch::kEven;      // kIf
  Op atomic = Op::kAdd;               // kAtomic: what is done to the element
  DType format = DType::kInvalid;     // kNarrow
  bool nowrap = false;                // kAdd, kSub, kMul of integers; kCast of floats to them
  bool rounded = false;               // kMul of floats: never contracted
  Type type;            // result type; operand type for comparisons; element type of a store
  int32_t memory = -1;  // kLoad, kStore, kArray: index into Kernel::memories
  int32_t align = 0;    // kLoad, kStore: the address is a multiple of this; 0: the element's width
  // kLoad: index [mask]. kStore: index, value [mask]. An index with lanes gathers or scatters; one
  // without addresses consecutive elements. kLoop: begin, end, step, initial carried values...
  // kAtomic: as kStore. kIf: condition. kElse: what the first block yields. kCombine: what each
  // iteration of the thread loop yields. kEnd: what the loop or second block yields.
  InlineVec<ValueId, 4> args;
  // kLoop: the counter, then the carried values inside. kCombine: the left values, then the right
  // ones, in the block that combines two. kEnd: the values after the loop or if.
  InlineVec<ValueId, 2> results;
  InlineVec<int32_t, 4> lanes;  // kExtract: one lane; kShuffle: lanes of the two operands joined
  Position pos;
};

struct Kernel {
  std::string name;
  int32_t num_params = 0;
  std::vector<Memory> memories;
  std::vector<Value> values;
  std::vector<Instr> code;  // blocks are bracketed by kLoop [kCombine] / kIf [kElse] and kEnd
  Position pos;

  const Value& value(ValueId id) const { return values[id]; }
  Type type(ValueId id) const { return values[id].type; }
};

// The constant trip count of a loop instruction, if its bounds are constant.
std::optional<int64_t> TripCount(const Kernel& kernel, const Instr& loop);

// Where blocks end: for the instruction that opens one, its else or combine (0: none) and its end.
struct Blocks {
  std::vector<size_t> else_at, end_at;
};
Blocks MatchBlocks(const Kernel& kernel);

// What a launch needs: trip counts of the parallel nest, outermost first, and how many threads
// the largest nest of thread loops has (1 without any). The kernel must verify.
struct LaunchExtents {
  std::vector<int64_t> grid;
  int64_t threads = 1;
};
LaunchExtents Extents(const Kernel& kernel);

}  // namespace weft::program
