// What collectives do with bytes, for whoever brings the devices together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "program/program.h"

namespace weft::program {

// The devices that a device meets at the step, in the order of the group. Of a permute: all that
// its pairs name, ascending; the device itself need not be one of them.
std::vector<int64_t> GroupOf(const CollectiveStep& op, int64_t device, int64_t devices);

// What a device brings to a collective, and where it gets its results.
struct CollectivePart {
  const Program* program = nullptr;
  const Step* step = nullptr;
  std::span<const std::span<std::byte>> memory;  // one span for each use of the step
};

// One device's share of a collective.
class CollectiveWork {
 public:
  using Memory = std::span<const std::span<std::byte>>;

  CollectiveWork(const Program& program, const Step& step, std::span<const int64_t> group,
                 int64_t device);

  // What a device gets that is not in the group.
  void FillZeroes(Memory mine) const;
  // Steps that meet by channel may differ; what they bring must not. The same answer for all.
  Status CheckSameSizes(std::span<const Memory> all) const;
  // `all`: by place in the group. Writes the outputs of this device; of an all-reduce a part of the
  // outputs of all. All devices may do so at once. An output that lies on its input is kept aside
  // until Finish, when all have run.
  void Run(std::span<const Memory> all);
  // The work of all of the group, by place in it, by whoever calls, while the others wait.
  static void RunForAll(std::span<const CollectivePart> parts, std::span<const int64_t> group);
  // What a permute's source brings to this device.
  void Receive(Memory source, Memory mine);
  void Finish(Memory mine);

 private:
  void AllReduce(std::span<const Memory> all, size_t k, bool whole) const;
  std::span<std::byte> OutputOf(Memory mine, size_t k);
  void Gather(std::span<const Memory> all, size_t k, std::byte* out) const;
  DType TypeOf(size_t k) const;

  const Program& program_;
  const Step& step_;
  const CollectiveStep& op_;
  std::span<const int64_t> group_;
  int64_t device_;
  size_t place_, operands_;
  std::vector<std::vector<std::byte>> aside_;  // by operand; empty: written in place
};

}  // namespace weft::program
