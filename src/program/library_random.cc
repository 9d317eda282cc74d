// rng_bit_generator, slowly: one element after the other.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/counter_random.h"
#include "base/elements.h"
#include "program/library_routines.h"

namespace weft::program {
namespace {

using Two = std::array<uint32_t, 2>;
using Four = std::array<uint32_t, 4>;

Two HalvesOf(uint64_t x) {
  return {static_cast<uint32_t>(x), static_cast<uint32_t>(x >> 32)};
}

// Narrower types keep the low bits; integers in storage form.
void StoreBits(DType dtype, uint64_t bits, std::byte* to) {
  int width = BitWidth(dtype);
  if ((IsInteger(dtype) && width < 8) || dtype == DType::kPred) {
    int64_t value = static_cast<int64_t>(dtype == DType::kPred ? bits & 1 : bits);
    return StoreI64(dtype, &value, 1, to);
  }
  if (width < 8) bits &= (uint64_t{1} << width) - 1;
  std::memset(to, 0, static_cast<size_t>(ByteWidth(dtype)));
  std::memcpy(to, &bits, static_cast<size_t>(std::min<int64_t>(ByteWidth(dtype), 8)));
}

Status VerifyRngBitGenerator(const Program& program, const Step& step) {
  TRY(CheckAccess(step, {Access::kRead, Access::kWrite, Access::kWrite}, "rng_bit_generator",
                  "(read state, write new state, write bits)"));
  const auto& call = std::get<LibraryStep>(step.op);
  std::string_view algorithm = StringAttr(call, "algorithm", "default");
  if (algorithm != "default" && algorithm != "philox" && algorithm != "three_fry") {
    return InvalidArgument("rng_bit_generator: unknown algorithm ", algorithm);
  }
  int64_t state = step.uses[0].slice.size;
  if ((state != 16 && state != 24) || step.uses[1].slice.size != state) {
    return InvalidArgument("rng_bit_generator: a state of ", state, " bytes");
  }
  const std::vector<int64_t>* dims = IntsAttr(call, "dims");
  if (dims == nullptr) return InvalidArgument("rng_bit_generator: needs dims");
  int64_t elements = 1;
  for (int64_t dim : *dims) elements = elements < 0 ? -1 : Product({elements, dim});
  return CheckElements(program, step.uses[2], elements, "rng_bit_generator", "bits");
}

// Fills `out` and returns the number of counters used.
uint64_t FillThreefry(uint64_t key, uint64_t counter, DType dtype, const std::vector<int64_t>& dims,
                      std::span<std::byte> out) {
  int64_t width = ByteWidth(dtype), n = static_cast<int64_t>(out.size()) / width;
  auto at = [&](int64_t i) {
    return Threefry2x32(HalvesOf(counter + static_cast<uint64_t>(i)), HalvesOf(key));
  };
  if (BitWidth(dtype) == 64) {
    for (int64_t i = 0; i < n; ++i) {
      auto [low, high] = at(i);
      StoreBits(dtype, low | uint64_t{high} << 32, out.data() + i * width);
    }
    return static_cast<uint64_t>(n);
  }
  // One dimension is cut in two halves whose elements are the two words of one counter: the first
  // of even size, else the first of the largest size.
  size_t split = 0;
  while (split < dims.size() && dims[split] % 2 != 0) ++split;
  if (split == dims.size()) {
    split = static_cast<size_t>(std::max_element(dims.begin(), dims.end()) - dims.begin());
  }
  int64_t size = dims.empty() ? 1 : dims[split], half = size / 2 + size % 2, inner = 1, outer = 1;
  for (size_t d = 0; d < split; ++d) outer *= dims[d];
  for (size_t d = split + 1; d < dims.size(); ++d) inner *= dims[d];
  for (int64_t i = 0; i < n; ++i) {
    int64_t in = i % inner, s = i / inner % size, o = i / inner / size;
    Two words = at((o * half + s / 2) * inner + in);
    StoreBits(dtype, words[static_cast<size_t>(s % 2)], out.data() + i * width);
  }
  return static_cast<uint64_t>(outer * half * inner);
}

// The counter has 128 bits.
uint64_t FillPhilox(uint64_t key, uint64_t low, uint64_t high, DType dtype,
                    std::span<std::byte> out) {
  int64_t width = ByteWidth(dtype), n = static_cast<int64_t>(out.size()) / width;
  bool wide = BitWidth(dtype) == 64;
  int64_t per_block = wide ? 2 : 4;
  for (int64_t i = 0; i < n; ++i) {
    uint64_t sum = low + static_cast<uint64_t>(i / per_block);
    auto [c0, c1] = HalvesOf(sum);
    auto [c2, c3] = HalvesOf(high + (sum < low ? 1 : 0));
    Four x = Philox4x32({c0, c1, c2, c3}, HalvesOf(key));
    size_t lane = static_cast<size_t>(i % per_block);
    StoreBits(dtype, wide ? x[2 * lane] | uint64_t{x[2 * lane + 1]} << 32 : x[lane],
              out.data() + i * width);
  }
  return static_cast<uint64_t>((n + per_block - 1) / per_block);
}

Status InterpretRngBitGenerator(const Program& program, const Step& step, int64_t,
                                std::span<const std::span<std::byte>> memory) {
  const auto& call = std::get<LibraryStep>(step.op);
  DType dtype = DTypeOf(program, step.uses[2]);
  uint64_t words[3] = {};
  std::memcpy(words, memory[0].data(), memory[0].size());
  if (StringAttr(call, "algorithm", "default") == "three_fry") {
    words[1] += FillThreefry(words[0], words[1], dtype, *IntsAttr(call, "dims"), memory[2]);
  } else {
    // A state of two words counts in 128 bits whose upper half is the key, and keeps the lower.
    bool full = memory[0].size() == 24;
    uint64_t used = FillPhilox(words[0], words[1], words[full ? 2 : 0], dtype, memory[2]);
    uint64_t low = words[1];
    words[1] += used;
    if (full && words[1] < low) ++words[2];
  }
  std::memcpy(memory[1].data(), words, memory[1].size());
  return {};
}

int64_t RngCost(const Program&, const Step& step) {
  return SaturatingCost({step.uses[2].slice.size, 20});
}

}  // namespace

Routine RngBitGeneratorRoutine() {
  return {"rng_bit_generator", VerifyRngBitGenerator, RngCost, InterpretRngBitGenerator};
}

}  // namespace weft::program
