#include "program/collective.h"

#include <algorithm>
#include <cstring>

#include "base/storage.h"
#include "base/stream_copy.h"
#include "program/reduce_arrays.h"

namespace weft::program {
namespace {

// Parts of an all-reduce begin at cache lines, whatever the type.
constexpr int64_t kLineElements = static_cast<int64_t>(kStorageAlignment);

// Use `k` of all devices from this byte on.
std::vector<const std::byte*> InputsAt(std::span<const CollectiveWork::Memory> all, size_t k,
                                       int64_t byte) {
  std::vector<const std::byte*> inputs;
  for (const CollectiveWork::Memory& of : all) inputs.push_back(of[k].data() + byte);
  return inputs;
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

// For all of them: each device reduces a part, or one the whole.
void CollectiveWork::AllReduce(std::span<const Memory> all, size_t k, bool whole) const {
  const int64_t width = ByteWidth(TypeOf(k)), elements = step_.uses[k].slice.size / width;
  const int64_t n = whole ? 1 : static_cast<int64_t>(group_.size());
  const int64_t me = whole ? 0 : static_cast<int64_t>(place_);
  const int64_t lines = (elements + n * kLineElements - 1) / (n * kLineElements);
  const int64_t part = lines * kLineElements, first = std::min(me * part, elements);
  std::vector<std::byte*> outputs;
  for (const Memory& of : all) outputs.push_back(of[operands_ + k].data() + first * width);
  ReduceArrays({.op = op_.reduce,
                .dtype = TypeOf(k),
                .inputs = InputsAt(all, k, first * width),
                .outputs = outputs,
                .elements = std::min(part, elements - first),
                .streamed = !whole && all[0][k].size() >= kStreamedBytes});
}

// Everything but an all-reduce: what comes to this device.
void CollectiveWork::Gather(std::span<const Memory> all, size_t k, std::byte* out) const {
  switch (op_.kind) {
    case CollectiveKind::kReduceScatter: {
      const int64_t bytes = step_.uses[operands_ + k].slice.size;
      ReduceArrays({.op = op_.reduce,
                    .dtype = TypeOf(k),
                    .inputs = InputsAt(all, k, static_cast<int64_t>(place_) * bytes),
                    .outputs = {&out, 1},
                    .elements = bytes / ByteWidth(TypeOf(k)),
                    .streamed = false});
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

void CollectiveWork::RunForAll(std::span<const CollectivePart> parts,
                               std::span<const int64_t> group) {
  std::vector<Memory> all;
  for (const CollectivePart& part : parts) all.push_back(part.memory);
  const CollectiveWork first(*parts[0].program, *parts[0].step, group, group[0]);
  if (first.op_.kind == CollectiveKind::kAllReduce) {
    for (size_t k = 0; k < first.operands_; ++k) first.AllReduce(all, k, true);
    return;
  }
  std::vector<CollectiveWork> works;
  for (size_t i = 0; i < parts.size(); ++i) {
    works.emplace_back(*parts[i].program, *parts[i].step, group, group[i]).Run(all);
  }
  for (size_t i = 0; i < parts.size(); ++i) works[i].Finish(all[i]);
}

void CollectiveWork::Run(std::span<const Memory> all) {
  for (size_t k = 0; k < operands_; ++k) {
    if (op_.kind == CollectiveKind::kAllReduce) {
      AllReduce(all, k, false);
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
