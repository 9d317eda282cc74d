#include "program/collective.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <type_traits>

#include "base/elements.h"
#include "base/extremes.h"
#include "base/stream_copy.h"

namespace weft::program {
namespace {

constexpr int64_t kBlock = 1024;  // elements reduced at once

// One operation on two elements of a type.
struct AddOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
struct MulOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
struct MinOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) return Minimum(a, b);
    if constexpr (std::is_integral_v<T>) return b < a ? b : a;
    return a;
  }
};
struct MaxOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) return Maximum(a, b);
    if constexpr (std::is_integral_v<T>) return a < b ? b : a;
    return a;
  }
};
struct AndOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(a & b);
    return a;
  }
};
struct OrOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(a | b);
    return a;
  }
};

// Calls fn with the operation as a type, so that loops over it are vector code.
template <class Fn>
void WithOp(ReduceOp op, const Fn& fn) {
  switch (op) {
    case ReduceOp::kMul: return fn(MulOp());
    case ReduceOp::kMin: return fn(MinOp());
    case ReduceOp::kMax: return fn(MaxOp());
    case ReduceOp::kAnd: return fn(AndOp());
    case ReduceOp::kOr: return fn(OrOp());
    default: return fn(AddOp());
  }
}

// Of zeroes and ones.
ReduceOp OfPreds(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMul:
    case ReduceOp::kMin:
    case ReduceOp::kAnd: return ReduceOp::kAnd;
    default: return ReduceOp::kOr;
  }
}

// Elements that lie in memory as the processor computes on them.
template <class T>
void ReduceDirect(ReduceOp op, std::span<const std::byte* const> inputs, int64_t n,
                  std::byte* out) {
  WithOp(op, [&](auto combine) {
    T* sum = reinterpret_cast<T*>(out);
    const T* first = reinterpret_cast<const T*>(inputs[0]);
    std::copy(first, first + n, sum);
    for (const std::byte* input : inputs.subspan(1)) {
      const T* next = reinterpret_cast<const T*>(input);
      for (int64_t j = 0; j < n; ++j) sum[j] = combine(sum[j], next[j]);
    }
  });
}

// Others are widened, and rounded once.
template <class T, class Load, class Store>
void ReduceWidened(ReduceOp op, std::span<const std::byte* const> inputs, int64_t n, Load load,
                   Store store, std::byte* out) {
  T sum[kBlock], next[kBlock];
  load(inputs[0], n, sum);
  for (const std::byte* input : inputs.subspan(1)) {
    load(input, n, next);
    WithOp(op, [&](auto combine) {
      for (int64_t j = 0; j < n; ++j) sum[j] = combine(sum[j], next[j]);
    });
  }
  store(sum, n, out);
}

// At most kBlock elements of all inputs, in the order of the group.
void ReduceBlock(ReduceOp op, DType dtype, std::span<const std::byte* const> inputs, int64_t n,
                 std::byte* out) {
  switch (dtype) {
    case DType::kPred: return ReduceDirect<uint8_t>(OfPreds(op), inputs, n, out);
    case DType::kS8: return ReduceDirect<int8_t>(op, inputs, n, out);
    case DType::kU8: return ReduceDirect<uint8_t>(op, inputs, n, out);
    case DType::kS16: return ReduceDirect<int16_t>(op, inputs, n, out);
    case DType::kU16: return ReduceDirect<uint16_t>(op, inputs, n, out);
    case DType::kS32: return ReduceDirect<int32_t>(op, inputs, n, out);
    case DType::kU32: return ReduceDirect<uint32_t>(op, inputs, n, out);
    case DType::kS64: return ReduceDirect<int64_t>(op, inputs, n, out);
    case DType::kU64: return ReduceDirect<uint64_t>(op, inputs, n, out);
    case DType::kF32: return ReduceDirect<float>(op, inputs, n, out);
    case DType::kF64: return ReduceDirect<double>(op, inputs, n, out);
    default: break;
  }
  if (IsComplex(dtype)) {
    using C = std::complex<double>;
    ReduceWidened<C>(
        op, inputs, n, [&](const std::byte* p, int64_t m, C* v) { LoadC128(dtype, p, m, v); },
        [&](const C* v, int64_t m, std::byte* p) { StoreC128(dtype, v, m, p); }, out);
  } else if (IsFloat(dtype)) {
    ReduceWidened<float>(
        op, inputs, n, [&](const std::byte* p, int64_t m, float* v) { LoadF32(dtype, p, m, v); },
        [&](const float* v, int64_t m, std::byte* p) { StoreF32(dtype, v, m, p); }, out);
  } else {
    ReduceWidened<int64_t>(
        op, inputs, n, [&](const std::byte* p, int64_t m, int64_t* v) { LoadI64(dtype, p, m, v); },
        [&](const int64_t* v, int64_t m, std::byte* p) { StoreI64(dtype, v, m, p); }, out);
  }
}

// Elements [begin, end) of use `k` of all devices; `emit` takes each block and its first element.
template <class Emit>
void ReduceElements(ReduceOp op, DType dtype, std::span<const CollectiveWork::Memory> all, size_t k,
                    int64_t begin, int64_t end, Emit emit) {
  int64_t width = ByteWidth(dtype);
  alignas(64) std::byte block[kBlock * sizeof(std::complex<double>)];
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

// Each device reduces a part, for all of them; or all of it, for itself.
void CollectiveWork::AllReduce(std::span<const Memory> all, size_t k, bool alone) const {
  int64_t elements = step_.uses[k].slice.size / ByteWidth(TypeOf(k));
  if (alone) {
    std::byte* out = all[place_][operands_ + k].data();
    ReduceElements(op_.reduce, TypeOf(k), all, k, 0, elements,
                   [&](int64_t at, auto block) { CopyTo(out + at, block); });
    return;
  }
  int64_t n = static_cast<int64_t>(group_.size()), me = static_cast<int64_t>(place_);
  int64_t part = (elements + n - 1) / n;
  const bool streamed = all[0][k].size() >= kStreamedBytes;
  ReduceElements(op_.reduce, TypeOf(k), all, k, std::min(me * part, elements),
                 std::min((me + 1) * part, elements), [&](int64_t at, auto block) {
                   for (const Memory& of : all) {
                     std::byte* to = of[operands_ + k].data() + at;
                     streamed ? StreamCopy(to, block) : CopyTo(to, block);
                   }
                 });
  if (streamed) EndStreamCopies();
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

// Where output k is written until all have read the inputs.
std::span<std::byte> CollectiveWork::OutputOf(Memory mine, size_t k) {
  std::span<std::byte> out = mine[operands_ + k];
  if (!Overlap(Resolve(program_, step_.uses[k].slice),
               Resolve(program_, step_.uses[operands_ + k].slice))) {
    return out;
  }
  aside_[k].resize(out.size());
  return aside_[k];
}

void CollectiveWork::Run(std::span<const Memory> all, bool alone) {
  for (size_t k = 0; k < operands_; ++k) {
    if (op_.kind == CollectiveKind::kAllReduce) {
      AllReduce(all, k, alone);
    } else {
      Gather(all, k, OutputOf(all[place_], k).data());
    }
  }
}

void CollectiveWork::Receive(Memory source, Memory mine) {
  for (size_t k = 0; k < operands_; ++k) CopyTo(OutputOf(mine, k).data(), source[k]);
}

void CollectiveWork::Finish(Memory mine) {
  for (size_t k = 0; k < operands_; ++k) CopyTo(mine[operands_ + k].data(), aside_[k]);
}

}  // namespace weft::program
