// rng: numbers of a stream that every run of a program begins anew.
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/counter_random.h"
#include "base/elements.h"
#include "program/library_routines.h"

namespace weft::program {
namespace {

uint64_t StreamBits(uint64_t counter) {
  return SplitMix(kSplitMixStep * counter);
}

double UnitFrom(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

int64_t OutUse(const Step& step) {
  return static_cast<int64_t>(step.uses.size()) - 1;
}

Status VerifyRng(const Program& program, const Step& step) {
  std::string_view kind = StringAttr(std::get<LibraryStep>(step.op), "distribution", "");
  if (kind != "uniform" && kind != "normal" && kind != "bits") {
    return InvalidArgument("rng: unknown distribution ", kind);
  }
  if (kind == "bits") {
    TRY(CheckAccess(step, {Access::kReadWrite, Access::kWrite}, "rng",
                    "(update counter, write numbers)"));
  } else {
    TRY(CheckAccess(step, {Access::kReadWrite, Access::kRead, Access::kRead, Access::kWrite}, "rng",
                    "(update counter, read a, read b, write numbers)"));
  }
  DType type = DTypeOf(program, step.uses.back());
  if (DTypeOf(program, step.uses[0]) != DType::kU64)
    return InvalidArgument("rng: counter is no u64");
  TRY(CheckElements(program, step.uses[0], 1, "rng", "counter"));
  bool known = kind == "uniform"  ? IsFloat(type) || IsInteger(type) || type == DType::kPred
               : kind == "normal" ? IsFloat(type)
                                  : IsInteger(type);
  if (!known) return InvalidArgument("rng: no ", kind, " numbers of ", weft::Name(type));
  for (int64_t k = 1; k < OutUse(step); ++k) {
    const Use& use = step.uses[static_cast<size_t>(k)];
    TRY(CheckElements(program, use, 1, "rng", "a bound"));
    if (IsComplex(DTypeOf(program, use))) return InvalidArgument("rng: complex bounds");
  }
  return {};
}

Status InterpretRng(const Program& program, const Step& step, int64_t,
                    std::span<const std::span<std::byte>> memory) {
  RngForm form = RngFormOf(program, step);
  uint64_t counter;
  std::memcpy(&counter, memory[0].data(), 8);
  bool bits = form.kind == RngForm::kBits;
  form.Fill(counter, bits ? nullptr : memory[1].data(), bits ? nullptr : memory[2].data(), 0,
            form.elements, memory.back().data());
  counter += form.numbers();
  std::memcpy(memory[0].data(), &counter, 8);
  return {};
}

int64_t RngNumbersCost(const Program&, const Step& step) {
  return SaturatingCost({step.uses.back().slice.size, 20});
}

}  // namespace

RngForm RngFormOf(const Program& program, const Step& step) {
  RngForm form;
  std::string_view kind = StringAttr(std::get<LibraryStep>(step.op), "distribution", "");
  form.kind = kind == "uniform"  ? RngForm::kUniform
              : kind == "normal" ? RngForm::kNormal
                                 : RngForm::kBits;
  form.type = DTypeOf(program, step.uses.back());
  if (form.kind != RngForm::kBits) {
    form.a_type = DTypeOf(program, step.uses[1]);
    form.b_type = DTypeOf(program, step.uses[2]);
  }
  form.elements = step.uses.back().slice.size / ByteWidth(form.type);
  return form;
}

void RngForm::Fill(uint64_t counter, const std::byte* a_data, const std::byte* b_data,
                   int64_t begin, int64_t end, std::byte* out) const {
  const int64_t width = ByteWidth(type);
  if (kind == kBits || !IsFloat(type)) {
    int64_t low = 0, high = 0;
    if (kind != kBits) LoadI64(a_type, a_data, 1, &low), LoadI64(b_type, b_data, 1, &high);
    bool empty = type == DType::kU64 ? static_cast<uint64_t>(high) <= static_cast<uint64_t>(low)
                                     : high <= low;
    uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    for (int64_t i = begin; i < end; ++i) {
      uint64_t value = StreamBits(counter + static_cast<uint64_t>(i) + 1);
      if (kind != kBits) value = static_cast<uint64_t>(low) + (empty ? 0 : value % range);
      auto number = static_cast<int64_t>(value);
      StoreI64(type, &number, 1, out + i * width);
    }
    return;
  }
  double a, b, first;
  LoadF64(a_type, a_data, 1, &a);
  LoadF64(b_type, b_data, 1, &b);
  for (int64_t i = begin; i < end; ++i) {
    uint64_t at = counter + static_cast<uint64_t>(i) + 1;
    if (kind == kNormal) {
      // Box and Muller, of (0, 1] and [0, 1).
      at += static_cast<uint64_t>(i);
      double u = static_cast<double>((StreamBits(at) >> 11) + 1) * 0x1p-53;
      double angle = 2 * std::numbers::pi * UnitFrom(StreamBits(at + 1));
      first = a + b * (std::sqrt(-2 * std::log(u)) * std::cos(angle));
      StoreF64(type, &first, 1, out + i * width);
      continue;
    }
    first = a + (b - a) * UnitFrom(StreamBits(at));
    StoreF64(type, &first, 1, out + i * width);
    // Rounding may reach the end, which does not belong to the range.
    double stored;
    LoadF64(type, out + i * width, 1, &stored);
    if (a < b && stored >= b) StoreF64(type, &a, 1, out + i * width);
  }
}

Routine RngRoutine() {
  return {"rng", VerifyRng, RngNumbersCost, InterpretRng};
}

}  // namespace weft::program
