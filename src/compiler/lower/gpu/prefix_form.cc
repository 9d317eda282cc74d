#include "compiler/lower/gpu/prefix_form.h"

#include <algorithm>

#include "hlo/computation.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using HloOp = hlo::Op;

namespace {

constexpr int64_t kMostPieces = program::TargetFacts::kBlockThreads;  // that one block scans
constexpr int64_t kBlocksOfCore = 2 * program::TargetFacts::kBlockThreads / kScanThreads;
constexpr int64_t kLeastColumnPiece = program::CodeBounds::kWrittenOut;
constexpr int64_t kMostColumnPieces = kShortScan;  // that one thread scans

std::optional<Op> AssociativeOp(HloOp op, DType type) {
  bool pred = type == DType::kPred;
  switch (op) {
    case HloOp::kAdd: return pred ? Op::kOr : Op::kAdd;
    case HloOp::kMultiply: return pred ? Op::kAnd : Op::kMul;
    case HloOp::kMaximum: return pred ? Op::kOr : Op::kMax;
    case HloOp::kMinimum: return pred ? Op::kAnd : Op::kMin;
    case HloOp::kAnd: return Op::kAnd;
    case HloOp::kOr: return Op::kOr;
    case HloOp::kXor: return Op::kXor;
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<PrefixForm> PrefixFormOf(const Instruction& scan) {
  const auto& attrs = scan.attrs<hlo::ScanAttrs>();
  const hlo::Computation& body = *attrs.to_apply;
  const Instruction* root = body.root();
  if (attrs.num_carries != 1 || body.parameters().size() != 2 || root->op() != HloOp::kTuple ||
      root->operand_count() != 2) {
    return std::nullopt;
  }
  const Instruction *out = root->operand(0), *next = root->operand(1);
  auto converted = [](const Instruction* i) {
    return i->op() == HloOp::kConvert ? i->operand(0) : i;
  };
  DType type = next->shape().dtype();
  if (converted(out) != next || next->operand_count() != 2) return std::nullopt;
  std::optional<Op> op = AssociativeOp(next->op(), type);
  if (!op || IsComplex(type) || program::ComputeType(type) != type) return std::nullopt;
  const Instruction *carry = next->operand(0), *x = next->operand(1);
  if (carry != body.parameter(1)) std::swap(carry, x);
  if (carry != body.parameter(1) || converted(x) != body.parameter(0)) return std::nullopt;
  // A program's own order of float operations is left alone.
  bool exact = !IsFloat(type) || *op == Op::kMin || *op == Op::kMax;
  if (!exact && !attrs.is_associative) return std::nullopt;
  return PrefixForm{*op, type};
}

ScanCuts CutScan(const Instruction& scan, const program::TargetInfo& target) {
  ScanCuts cuts;
  cuts.slice = scan.operand(0)->shape().dims();
  cuts.dim = static_cast<size_t>(scan.attrs<hlo::ScanAttrs>().dimensions[0]);
  cuts.length = cuts.slice[cuts.dim];
  for (size_t d = cuts.dim + 1; d < cuts.slice.size(); ++d) cuts.inside *= cuts.slice[d];
  cuts.slice.erase_at(cuts.dim);
  for (int64_t d : cuts.slice) cuts.lines *= d;
  cuts.by_columns = cuts.inside >= target.warp;
  int64_t lines = std::max<int64_t>(cuts.lines, 1);
  auto divide = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  if (cuts.by_columns) {
    int64_t most = std::min(divide(target.cores * target.threads_per_core, lines),
                            std::min(cuts.length / kLeastColumnPiece, kMostColumnPieces));
    cuts.piece = divide(cuts.length, std::max<int64_t>(most, 1));
  } else {
    int64_t tiles = divide(cuts.length, kScanTile);
    int64_t most = std::min(divide(target.cores * kBlocksOfCore, lines), kMostPieces);
    cuts.piece = divide(tiles, std::clamp<int64_t>(most, 1, tiles)) * kScanTile;
  }
  cuts.pieces = divide(cuts.length, cuts.piece);
  cuts.even = !cuts.by_columns && cuts.inside == 1 && cuts.length == cuts.pieces * cuts.piece &&
              !scan.attrs<hlo::ScanAttrs>().is_reverse;
  if (cuts.even) {
    int64_t width = ByteWidth(scan.operand(0)->shape().dtype());
    cuts.lanes = static_cast<int>(std::clamp<int64_t>(target.AccessBytes() / width, 1, kScanEach));
  }
  return cuts;
}

}  // namespace weft::compiler
