// What the compiler knows about the machine it compiles for. Plain data, so that programs for any
// target can be made and tested on any machine; a device at hand fills one in from what it finds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace weft::program {

enum class TargetKind : uint8_t { kCpu, kGpu };

// Cycles from the operands to the result, about; what is there holds for cores since Skylake and
// Neoverse N1. They decide which sums are contracted: machines that differ here differ in results.
struct OpLatency {
  int64_t arithmetic = 4;  // +, -, * of floats, contracted or not
  int64_t division = 12;   // of floats, and square roots
  int64_t other = 2;

  bool operator==(const OpLatency&) const = default;
};

struct TargetInfo {
  TargetKind kind = TargetKind::kCpu;
  std::string arch;      // "x86_64", "aarch64", "nvptx64"; empty: nothing is known
  std::string name;      // "neoverse-v1", "sm_90a": what the code generator is told
  std::string features;  // "+bf16,+i8mm,-sve": likewise
  int64_t cores = 1;     // CPU cores, or SMs
  int64_t vector_bits = 128;
  int64_t vector_registers = 32;
  int64_t l1_bytes = 32 << 10;  // per core
  int64_t l2_bytes = 1 << 20;   // per core on CPUs, in all on GPUs
  int64_t l3_bytes = 0;         // in all
  int64_t cache_line = 64;
  int64_t page_bytes = 4096;  // addresses that one entry of the TLB covers
  int64_t memory_bytes = int64_t{1} << 32;
  double bytes_per_second = 20e9;  // of memory, all cores
  double f32_flops = 50e9;         // all cores, without matrix units
  double bf16_matrix_flops = 0;    // 0: no matrix units
  double launch_seconds = 1e-6;    // what one more step costs
  OpLatency latency = {};          // of operations
  bool fast_bf16 = false;          // arithmetic, not only conversions
  bool tf32 = false;               // matrix units take f32 rounded to 10 bits, where that will do
  bool matrix_tiles = false;       // CPUs: AMX; such processors keep their clock for wide vectors
  bool slow_subnormals = false;    // results below the normal numbers take a hundred times as long

  // GPUs.
  int64_t warp = 1;              // threads in lockstep
  int64_t max_threads = 1;       // of a block
  int64_t threads_per_core = 1;  // resident on an SM
  int64_t shared_bytes = 0;      // of a block, at most
  int64_t shared_bytes_per_core = 0;
  int64_t registers_per_core = 0;

  bool operator==(const TargetInfo&) const = default;

  // A loop nest is a grid of threads, one for each iteration, which compute with scalars.
  bool HasThreadGrid() const { return kind == TargetKind::kGpu; }
  // Of the vectors that a thread computes with; 0: scalars.
  int64_t LaneBits() const { return HasThreadGrid() ? 0 : vector_bits; }
  // Predicates of all lanes of a vector are one register, however wide its elements.
  bool HasMaskRegisters() const { return LaneBits() >= 512; }
  // Of one access of a thread, where it pays that neighbouring elements are one; 0: it does not.
  int64_t AccessBytes() const { return HasThreadGrid() ? 16 : 0; }
  // Elementary functions are operations of kernels, not polynomials (math.h).
  bool HasFunctions() const { return kind == TargetKind::kGpu; }
  // Loops of steps and of single threads become native functions, in which the host counts rounds,
  // and calls of the library take kernels along (epilogues).
  bool RunsOnHost() const { return kind == TargetKind::kCpu; }

  // What products by vectors get of f32_flops, which for a CPU guesses two a cycle at 2.5 GHz: with
  // 512 bits that is 160 GFLOP/s a core, of which eight devices on two cores get 73 to 93, where
  // the clock is kept 115.
  double VectorProductShare() const {
    if (!RunsOnHost() || vector_bits < 512) return 1;
    return matrix_tiles ? 0.72 : 0.5;
  }
  // Whether matrix units multiply floats of so many bits; AMX knows bf16 alone.
  bool MatrixUnitsTake(DType dtype) const {
    if (bf16_matrix_flops == 0 || !IsFloat(dtype)) return false;
    return !matrix_tiles || dtype == DType::kBF16;
  }
  // What products of bf16 reach on a core with tiles: 41 % of what tiles give that stay in
  // registers.
  static constexpr double kTileFlopsOfCore = 1e12;

  // Work in units of ElementCost, measured with vectors of 128 bits: longer ones get through more
  // in the same time. What a thread that has to be woken should find to do.
  double WorkOfThread() const { return 65'536 * Speed(); }
  // One round of a loop below this is run by one thread, without steps between its kernels.
  double WorkOfSerialRound() const { return 150'000 * static_cast<double>(vector_bits) / 128; }
  // Work (in the same units) worth a piece of its own whose result is joined with those of others:
  // some 25 us, so that what threads cost is little beside it.
  double WorkOfPiece() const { return 100'000; }
  // Vectors of one value that straight code holds at once: 4, where operands and results of a few
  // such values fill the registers.
  int64_t VectorsAtOnce() const { return std::clamp<int64_t>(vector_registers / 8, 1, 4); }
  // Registers for sums: half of them, which hides the latency of an addition (4 cycles on 2 units
  // and more); the others are for operands.
  int64_t Accumulators() const { return vector_registers / 2; }
  // Registers for values of a lane that stay from one operation to the next; a quarter is for what
  // is computed on the way.
  int64_t ValuesOfLane() const { return vector_registers * 3 / 4; }
  // Bytes of state that a scan of columns goes through for each row: half of the smallest
  // first-level cache of servers, the other half being for what is read.
  int64_t CarriedBytes() const { return std::min<int64_t>(l1_bytes, 32 << 10) / 2; }
  // Bytes of a vector register that every CPU has (SSE2, NEON).
  static constexpr int64_t kNarrowVectorBytes = 16;
  // Chunks of a loop: few enough that each reads memory in long runs, enough that threads end
  // together.
  int64_t MostChunks() const { return std::clamp<int64_t>(8 * cores, 16, 256); }

  // Rematerialisation: arrays of at least `bytes` whose elements cost no more than `cost`
  // (ElementCost) are computed again by each of up to `readers` consumers, through up to `depth`
  // of them behind each other. On GPUs, where arithmetic costs less than memory, an exponential
  // (12) for arrays beyond half of the L2 of an H200, as its layer norms and softmaxes showed.
  struct Recomputation {
    int64_t bytes;
    double cost;
    int64_t readers, depth;
  };
  Recomputation LargeRecomputation() const {
    if (!HasThreadGrid()) return {.bytes = INT64_MAX, .cost = 1, .readers = 3, .depth = 3};
    return {.bytes = int64_t{32} << 20, .cost = 12, .readers = 8, .depth = 8};
  }

  // Machines that tests and plans name, whatever machine they run on.
  static TargetInfo GenericCpu() { return {}; }
  static TargetInfo CpuAvx512();  // a server of 16 Sapphire Rapids cores
  static TargetInfo CpuNeon();    // two Neoverse V1 cores
  static TargetInfo A100();       // SXM, 80 GB
  static TargetInfo H200();
  static TargetInfo B200();
  static TargetInfo Rtx5090();

 private:
  double Speed() const { return static_cast<double>(std::max<int64_t>(vector_bits, 128)) / 128; }
};

// The presets by the names that `--target` and text tests take.
struct NamedTarget {
  std::string_view name;
  TargetInfo (*make)();
};
std::span<const NamedTarget> NamedTargets();

}  // namespace weft::program
