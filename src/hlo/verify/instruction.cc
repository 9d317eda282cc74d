// Shapes of instructions, and the layouts in them.
#include "hlo/ops/called.h"
#include "hlo/verify/rules.h"

namespace weft::hlo {
namespace {

Status CheckLayout(const Shape& shape) {
  const Layout& layout = *shape.layout();
  int64_t rank = shape.rank();
  if (static_cast<int64_t>(layout.minor_to_major.size()) != rank) {
    return InvalidArgument("layout of ", shape, " has ", layout.minor_to_major.size(),
                           " dimensions, the shape ", rank);
  }
  uint64_t seen = 0;
  for (int64_t d : layout.minor_to_major) {
    if (d < 0 || d >= rank || ((seen >> d) & 1) != 0) {
      return InvalidArgument("layout of ", shape, " is no permutation of its dimensions");
    }
    seen |= uint64_t{1} << d;
  }
  if (!layout.extras) return {};
  const LayoutExtras& extras = *layout.extras;
  if (extras.element_bits < 0) {
    return InvalidArgument("layout of ", shape, " has elements of ", extras.element_bits, " bits");
  }
  if (extras.memory_space < 0) {
    return InvalidArgument("layout of ", shape, " has memory space ", extras.memory_space);
  }
  for (const Tile& tile : extras.tiles) {
    for (int64_t d : tile.dims) {
      if (d < 0 && d != Tile::kCombine) {
        return InvalidArgument("layout of ", shape, " has a tile of size ", d);
      }
    }
  }
  for (const SplitConfig& split : extras.splits) {
    if (split.dimension < 0 || split.dimension >= rank) {
      return InvalidArgument("layout of ", shape, " splits dimension ", split.dimension);
    }
  }
  if (!extras.dim_levels.empty() && static_cast<int64_t>(extras.dim_levels.size()) != rank) {
    return InvalidArgument("layout of ", shape, " has ", extras.dim_levels.size(),
                           " dimension levels, the shape ", rank);
  }
  return {};
}

constexpr int kMaxTupleDepth = 200;

Status CheckShapeAt(const Shape& shape, int depth) {
  if (!shape.IsValid()) return InvalidArgument("the shape is not valid");
  if (depth > kMaxTupleDepth) {
    return InvalidArgument("tuples are nested deeper than ", kMaxTupleDepth);
  }
  if (shape.rank() > kMaxRank) {
    return InvalidArgument("a shape of rank ", shape.rank(), ", at most ", kMaxRank, " is allowed");
  }
  for (int64_t i = 0; i < shape.rank(); ++i) {
    if (shape.dim(i) < 0 && !shape.is_unbounded(i)) {
      return InvalidArgument("dimension ", i, " of ", shape.ToStringWithoutLayout(),
                             " is negative");
    }
  }
  if (shape.IsArray() && !shape.HasUnboundedDims() && !shape.CheckedElements()) {
    return InvalidArgument(shape.ToStringWithoutLayout(), " has too many elements");
  }
  if (shape.IsArray() && shape.layout() != nullptr) TRY(CheckLayout(shape));
  for (const Shape& element : shape.elements_of_tuple()) TRY(CheckShapeAt(element, depth + 1));
  return {};
}

// Ops that hand on or reinterpret values, and so cannot change their precision.
bool KeepsPrecision(Op op) {
  switch (op) {
    case Op::kBitcast:
    case Op::kCall:
    case Op::kConditional:
    case Op::kConstant:
    case Op::kCopyDone:
    case Op::kCopyStart:
    case Op::kCustomCall:
    case Op::kDynamicUpdateSlice:
    case Op::kFusion:
    case Op::kGetTupleElement:
    case Op::kInfeed:
    case Op::kOptBarrier:
    case Op::kOutfeed:
    case Op::kParameter:
    case Op::kRecv:
    case Op::kRecvDone:
    case Op::kSend:
    case Op::kSendDone:
    case Op::kTuple:
    case Op::kWhile: return true;
    default: return false;
  }
}

bool DiffersInPrecisionAlone(const Shape& a, const Shape& b) {
  return a.IsArray() && b.IsArray() && IsFloat(a.dtype()) && IsFloat(b.dtype()) &&
         a.dtype() != b.dtype();
}

// Without mixed precision, float operands have one type, where the op is no conversion.
Status CheckSamePrecision(const Instruction& instruction) {
  switch (instruction.op()) {
    case Op::kCall:
    case Op::kConditional:
    case Op::kConvert:
    case Op::kConvolution:
    case Op::kCustomCall:
    case Op::kDot:
    case Op::kFusion:
    case Op::kRaggedDot:
    case Op::kReduce:
    case Op::kScaledDot:
    case Op::kSort:
    case Op::kTuple:
    case Op::kWhile: return {};
    default: break;
  }
  if (HasTrait(instruction.op(), kAsyncStart | kAsyncDone | kCollective)) return {};
  for (int64_t i = 1; i < instruction.operand_count(); ++i) {
    if (DiffersInPrecisionAlone(instruction.operand(0)->shape(), instruction.operand(i)->shape())) {
      return InvalidArgument(
          "operands of mixed precision: ", instruction.operand(0)->shape().ToStringWithoutLayout(),
          " and ", instruction.operand(i)->shape().ToStringWithoutLayout());
    }
  }
  return {};
}

}  // namespace

Status VerifyShape(const Shape& shape) {
  return CheckShapeAt(shape, 0);
}

Status VerifyInstruction(const Instruction& instruction, const VerifyOptions& options) {
  const OpDef& def = instruction.def();
  if (instruction.attrs().type() != def.attrs) {
    return InvalidArgument("its attributes are those of another op");
  }
  TRY(VerifyShape(instruction.shape()));
  TRY(VerifyCalled(instruction));
  if (!options.allow_mixed_precision) TRY(CheckSamePrecision(instruction));
  if (def.infer != nullptr) {
    std::vector<const Shape*> operands;
    for (const Instruction* operand : instruction.operands()) operands.push_back(&operand->shape());
    Shape inferred =
        TRY(InferShape(instruction.op(), operands, instruction.attrs(), &instruction.shape()));
    MatchPrecision precision = options.allow_mixed_precision && !KeepsPrecision(instruction.op())
                                   ? MatchPrecision::kAnyFloat
                                   : MatchPrecision::kExact;
    if (!ShapesMatch(inferred, instruction.shape(), precision)) {
      return InvalidArgument(def.mnemonic, ": expected shape ", inferred.ToStringWithoutLayout(),
                             ", got ", instruction.shape().ToStringWithoutLayout());
    }
  }
  if (def.check != nullptr) TRY(def.check(instruction));
  TRY(VerifySharding(instruction));
  if (options.layout_sensitive) TRY(VerifyLayouts(instruction));
  return {};
}

}  // namespace weft::hlo
