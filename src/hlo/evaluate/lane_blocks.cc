// Lane ops over whole arrays, block by block.
#include <algorithm>
#include <optional>

#include "base/thread_pool.h"
#include "hlo/evaluate/lanes.h"

namespace weft::hlo {
namespace {

// The elements of one operand as lanes.
class OperandBlocks {
 public:
  OperandBlocks(const LaneOperand& operand, Lane lane, int64_t longest)
      : operand_(operand),
        lane_(lane),
        stored_(IsStoredAsLane(operand.dtype) && LaneOf(operand.dtype) == lane) {
    if (operand_.broadcast) {
      FillLanes(operand_.dtype, operand_.data, longest, lane_, block_.bytes);
    }
  }
  const void* Block(int64_t begin, int64_t n) {
    if (operand_.broadcast) return block_.bytes;
    const std::byte* src = operand_.data + begin * ByteWidth(operand_.dtype);
    if (stored_) return src;
    LoadLanes(operand_.dtype, src, n, lane_, block_.bytes);
    return block_.bytes;
  }

 private:
  LaneOperand operand_;
  Lane lane_;
  bool stored_;
  LaneBlock block_;
};

void RunLaneBlocks(const LaneOp& op, const Attrs& attrs, std::span<const LaneOperand> operands,
                   DType type, std::byte* out, int64_t begin, int64_t end) {
  std::optional<OperandBlocks> in[3];
  int64_t longest = std::min(kBlockLanes, end - begin);
  for (size_t i = 0; i < operands.size(); ++i) in[i].emplace(operands[i], op.in[i], longest);
  bool direct = IsStoredAsLane(type) && LaneOf(type) == op.out;
  LaneBlock result;
  for (int64_t at = begin; at < end; at += kBlockLanes) {
    int64_t n = std::min(kBlockLanes, end - at);
    LaneArgs args{{}, nullptr, n, op.in_type, type, &attrs};
    for (size_t i = 0; i < operands.size(); ++i) {
      args.in[i] = in[i]->Block(at, n);
      args.uniform[i] = operands[i].broadcast;
    }
    std::byte* dst = out + at * ByteWidth(type);
    args.out = direct ? dst : result.bytes;
    op.kernel(args);
    if (!direct) StoreLanes(op.out, result.bytes, n, type, dst);
  }
}

constexpr int64_t kLanesPerPiece = 8 * kBlockLanes;

}  // namespace

void RunLaneOp(const LaneOp& op, const Attrs& attrs, std::span<const LaneOperand> operands,
               DType out_type, std::byte* out, int64_t n) {
  if (n <= kLanesPerPiece) {
    RunLaneBlocks(op, attrs, operands, out_type, out, 0, n);
    return;
  }
  DefaultPool().ParallelFor(n, kLanesPerPiece, [&](int64_t begin, int64_t end) {
    RunLaneBlocks(op, attrs, operands, out_type, out, begin, end);
  });
}

}  // namespace weft::hlo
