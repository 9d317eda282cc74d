#include "program/collective.h"

#include <algorithm>
#include <complex>
#include <cstring>

#include "base/elements.h"
#include "base/extremes.h"

namespace weft::program {
namespace {

constexpr int64_t kBlock = 1024;  // elements reduced at once

template <class T>
T ReduceFloats(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kMul: return a * b;
    case ReduceOp::kMin: return Minimum(a, b);
    case ReduceOp::kMax: return Maximum(a, b);
    default: return a + b;
  }
}

int64_t ReduceInts(ReduceOp op, DType dtype, int64_t a, int64_t b) {
  uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  bool less = IsSigned(dtype) ? a < b : x < y;
  switch (op) {
    // For pred, add is or and mul is and.
    case ReduceOp::kAdd: return dtype == DType::kPred ? a | b : static_cast<int64_t>(x + y);
    case ReduceOp::kMul: return static_cast<int64_t>(x * y);
    case ReduceOp::kMin: return less ? a : b;
    case ReduceOp::kMax: return less ? b : a;
    case ReduceOp::kAnd: return a & b;
    default: return a | b;
  }
}

template <class T, class Load, class Store, class Combine>
void ReduceAs(std::span<const std::byte* const> inputs, int64_t n, Load load, Store store,
              Combine combine, std::byte* out) {
  T sum[kBlock], next[kBlock];
  load(inputs[0], n, sum);
  for (const std::byte* input : inputs.subspan(1)) {
    load(input, n, next);
    for (int64_t j = 0; j < n; ++j) sum[j] = combine(sum[j], next[j]);
  }
  store(sum, n, out);
}

// At most kBlock elements of all inputs, in the order of the group.
void ReduceBlock(ReduceOp op, DType dtype, std::span<const std::byte* const> inputs, int64_t n,
                 std::byte* out) {
  auto floats = [&](auto a, auto b) { return ReduceFloats(op, a, b); };
  if (IsComplex(dtype)) {
    using C = std::complex<double>;
    ReduceAs<C>(
        inputs, n, [&](const std::byte* p, int64_t m, C* v) { LoadC128(dtype, p, m, v); },
        [&](const C* v, int64_t m, std::byte* p) { StoreC128(dtype, v, m, p); },
        [&](C a, C b) { return op == ReduceOp::kMul ? a * b : a + b; }, out);
  } else if (dtype == DType::kF64) {
    ReduceAs<double>(
        inputs, n, [&](const std::byte* p, int64_t m, double* v) { LoadF64(dtype, p, m, v); },
        [&](const double* v, int64_t m, std::byte* p) { StoreF64(dtype, v, m, p); }, floats, out);
  } else if (IsFloat(dtype)) {
    ReduceAs<float>(
        inputs, n, [&](const std::byte* p, int64_t m, float* v) { LoadF32(dtype, p, m, v); },
        [&](const float* v, int64_t m, std::byte* p) { StoreF32(dtype, v, m, p); }, floats, out);
  } else {
    ReduceAs<int64_t>(
        inputs, n, [&](const std::byte* p, int64_t m, int64_t* v) { LoadI64(dtype, p, m, v); },
        [&](const int64_t* v, int64_t m, std::byte* p) { StoreI64(dtype, v, m, p); },
        [&](int64_t a, int64_t b) { return ReduceInts(op, dtype, a, b); }, out);
  }
}

// Elements [begin, end) of use `k` of all devices; `emit` takes each block and its first element.
template <class Emit>
void ReduceElements(ReduceOp op, DType dtype, std::span<const CollectiveWork::Memory> all, size_t k,
                    int64_t begin, int64_t end, Emit emit) {
  int64_t width = ByteWidth(dtype);
  std::byte block[kBlock * sizeof(std::complex<double>)];
  std::vector<const std::byte*> inputs(all.size());
  for (int64_t first = begin; first < end; first += kBlock) {
    int64_t n = std::min(kBlock, end - first);
    for (size_t i = 0; i < all.size(); ++i) inputs[i] = all[i][k].data() + first * width;
    ReduceBlock(op, dtype, inputs, n, block);
    emit(first * width, std::span<const std::byte>(block, static_cast<size_t>(n * width)));
  }
}

void CopyTo(std::byte* to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

}  // namespace

std::vector<int64_t> GroupOf(const CollectiveStep& op, int64_t device, int64_t devices) {
  std::vector<int64_t> group;
  if (op.kind == CollectiveKind::kPermute) {
    for (const auto& pair : op.groups) group.insert(group.end(), pair.begin(), pair.end());
    std::sort(group.begin(), group.end());
    group.erase(std::unique(group.begin(), group.end()), group.end());
    return group;
  }
  for (const std::vector<int64_t>& members : op.groups) {
    if (std::find(members.begin(), members.end(), device) != members.end()) return members;
  }
  for (int64_t d = 0; op.groups.empty() && d < devices; ++d) group.push_back(d);
  return group;
}

CollectiveWork::CollectiveWork(const Program& program, const Step& step,
                               std::span<const int64_t> group, int64_t device)
    : program_(program),
      step_(step),
      op_(std::get<CollectiveStep>(step.op)),
      group_(group),
      device_(device),
      place_(static_cast<size_t>(std::find(group.begin(), group.end(), device) - group.begin())),
      operands_(step.uses.size() / 2),
      aside_(operands_) {}

DType CollectiveWork::TypeOf(size_t k) const {
  return program_.buffers[step_.uses[k].slice.buffer].shape.dtype();
}

void CollectiveWork::FillZeroes(Memory mine) const {
  for (std::span<std::byte> out : mine.subspan(operands_)) {
    std::fill(out.begin(), out.end(), std::byte{0});
  }
}

Status CollectiveWork::CheckSameSizes(std::span<const Memory> all) const {
  for (const Memory& memory : all) {
    bool same = memory.size() == all[0].size();
    for (size_t k = 0; same && k < memory.size(); ++k) same = memory[k].size() == all[0][k].size();
    if (!same) return InvalidArgument("collective: devices meet with arrays of different sizes");
  }
  return {};
}

// Each device reduces a part, for all of them.
void CollectiveWork::AllReduce(std::span<const Memory> all, size_t k) const {
  int64_t elements = step_.uses[k].slice.size / ByteWidth(TypeOf(k));
  int64_t n = static_cast<int64_t>(group_.size()), me = static_cast<int64_t>(place_);
  int64_t part = (elements + n - 1) / n;
  ReduceElements(op_.reduce, TypeOf(k), all, k, std::min(me * part, elements),
                 std::min((me + 1) * part, elements), [&](int64_t at, auto block) {
                   for (const Memory& of : all) CopyTo(of[operands_ + k].data() + at, block);
                 });
}

// Everything but an all-reduce: what comes to this device.
void CollectiveWork::Gather(std::span<const Memory> all, size_t k, std::byte* out) const {
  switch (op_.kind) {
    case CollectiveKind::kReduceScatter: {
      int64_t part = step_.uses[operands_ + k].slice.size / ByteWidth(TypeOf(k));
      int64_t first = static_cast<int64_t>(place_) * part, start = first * ByteWidth(TypeOf(k));
      ReduceElements(op_.reduce, TypeOf(k), all, k, first, first + part,
                     [&](int64_t at, auto block) { CopyTo(out + (at - start), block); });
      return;
    }
    case CollectiveKind::kPermute: {
      std::fill_n(out, step_.uses[operands_ + k].slice.size, std::byte{0});
      for (const std::vector<int64_t>& pair : op_.groups) {
        if (pair[1] != device_) continue;
        auto source = std::lower_bound(group_.begin(), group_.end(), pair[0]);
        CopyTo(out, all[static_cast<size_t>(source - group_.begin())][k]);
      }
      return;
    }
    default: {
      bool whole = op_.kind == CollectiveKind::kAllGather;
      for (const Memory& of : all) {
        size_t bytes = whole ? of[k].size() : of[k].size() / group_.size();
        CopyTo(out, of[k].subspan(whole ? 0 : place_ * bytes, bytes));
        out += bytes;
      }
    }
  }
}

void CollectiveWork::Run(std::span<const Memory> all) {
  const Memory& mine = all[place_];
  for (size_t k = 0; k < operands_; ++k) {
    if (op_.kind == CollectiveKind::kAllReduce) {
      AllReduce(all, k);
      continue;
    }
    std::span<std::byte> out = mine[operands_ + k];
    if (Overlap(Resolve(program_, step_.uses[k].slice),
                Resolve(program_, step_.uses[operands_ + k].slice))) {
      aside_[k].resize(out.size());
      out = aside_[k];
    }
    Gather(all, k, out.data());
  }
}

void CollectiveWork::Finish(Memory mine) {
  for (size_t k = 0; k < operands_; ++k) CopyTo(mine[operands_ + k].data(), aside_[k]);
}

}  // namespace weft::program
