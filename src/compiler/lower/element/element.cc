// Scalar and vector code generation for one element (expression trees), with local CSE by block.
#include "compiler/lower/element/element.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/check.h"
#include "compiler/passes/simplify/simplify_rules.h"
#include "hlo/computation.h"
#include "program/math.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::LoopKind;
using program::Op;
using program::Type;
using HloOp = hlo::Op;

namespace {

constexpr int kMaxDepth = 2 * program::CodeBounds::kMembers;  // of nested element computations
// Where elementwise chains are no longer walked by recursion.
constexpr int kChainDepth = program::WorkBounds::kPath / 2;
// Distance of lanes that are read by runs.
constexpr int64_t kNearLanes = program::TargetFacts::kNarrowLanes;

bool SameCoord(const Coord& a, const Coord& b) {
  return a.base == b.base && a.step == b.step && a.each == b.each;
}

bool SameIndex(const Index& a, const Index& b) {
  if (a.is_linear != b.is_linear) return false;
  if (a.is_linear) return SameCoord(a.linear, b.linear);
  return std::equal(a.coords.begin(), a.coords.end(), b.coords.begin(), b.coords.end(), SameCoord);
}

// Whether a reshape takes coordinates apart, by division.
bool SplitsDimensions(const Dims& from, const Dims& to) {
  auto splits = [&](const DimRun& run) {
    auto more = [](int64_t d) { return d > 1; };
    return std::count_if(to.begin() + run.to_begin, to.begin() + run.to_end, more) > 1;
  };
  std::vector<DimRun> runs = MatchDims(from, to);
  return std::any_of(runs.begin(), runs.end(), splits);
}

}  // namespace

void ElementEmitter::Bind(const Instruction& instruction, KernelBuilder::MemoryId memory) {
  bound_[&instruction] = memory;
}

void ElementEmitter::BindAt(const Instruction& instruction, KernelBuilder::MemoryId memory,
                            Place place) {
  bound_[&instruction] = memory;
  places_[&instruction] = std::move(place);
  cache_.erase(&instruction);
}

void ElementEmitter::Know(const Instruction& instruction, Literal numbers) {
  numbers_.insert_or_assign(&instruction, std::move(numbers));
}

void ElementEmitter::SetValue(const Instruction& instruction, Element value) {
  Cached& cached = cache_[&instruction].emplace_back();
  cached = {{}, value, b_.block(), 0};
}

// --- memory ---

// Neighbouring lanes read the same element: a short run of elements, each in several lanes.
ValueId ElementEmitter::LoadRepeated(KernelBuilder::MemoryId memory, const Coord& at) {
  int elements = static_cast<int>((lanes_ + at.each - 1) / at.each);
  ValueId part = b_.Load(memory, at.base, elements);
  if (elements == 1) return b_.Splat(part, lanes_);
  std::vector<int32_t> from;
  for (int64_t lane = 0; lane < lanes_; ++lane) {
    from.push_back(static_cast<int32_t>(lane / at.each));
  }
  return b_.Shuffle(part, part, from);
}

// Lanes a few elements from each other: the runs in which they lie, shuffled.
ValueId ElementEmitter::LoadSpread(KernelBuilder::MemoryId memory, const Coord& at) {
  int64_t distance = std::abs(at.step), last = distance * (lanes_ - 1);  // from the first lane
  ValueId begin = at.step > 0 ? at.base : b_.Add(at.base, b_.Int(-last));
  int64_t shift = 0;
  if (std::max(at.modulus, at.multiple) % distance == 0 && at.step > 0 &&
      b_.count(memory) % distance == 0) {
    // Neighbours, such as the coordinates of a point, are read by the same runs.
    shift = at.modulus >= at.multiple ? at.residue % distance : 0;
    begin = b_.Add(at.origin >= 0 ? at.origin : at.base, b_.Int(at.offset - shift));
    last = distance * lanes_ - 1;
  }
  ValueId result = -1;
  for (int64_t run = 0; run < distance; ++run) {
    int64_t offset = std::min(run * lanes_, last - (lanes_ - 1));
    ValueId part = b_.Load(memory, b_.Add(begin, b_.Int(offset)), lanes_);
    std::vector<int32_t> from;
    for (int32_t lane = 0; lane < lanes_; ++lane) {
      int64_t place = (at.step > 0 ? lane : lanes_ - 1 - lane) * distance + shift - offset;
      bool here = place >= 0 && place < lanes_;
      int32_t other = result < 0 ? 0 : lanes_;
      from.push_back(here ? other + static_cast<int32_t>(place) : lane);
    }
    result = b_.Shuffle(result < 0 ? part : result, part, from);
  }
  return result;
}

ValueId ElementEmitter::LoadListed(KernelBuilder::MemoryId memory, std::span<const int64_t> lanes) {
  ValueId result = -1;
  std::vector<int64_t> done;
  for (int64_t place : lanes) {
    if (std::find(done.begin(), done.end(), place) != done.end()) continue;
    done.push_back(place);
    ValueId part = b_.Splat(b_.Load(memory, b_.Int(place)), lanes_);
    std::vector<int32_t> from;
    for (int32_t lane = 0; lane < lanes_; ++lane) {
      from.push_back(lanes[static_cast<size_t>(lane)] == place ? lanes_ + lane : lane);
    }
    result = result < 0 ? part : b_.Shuffle(result, part, from);
  }
  return result;
}

// An element whose number is known, in all lanes or in each.
Result<std::optional<Element>> ElementEmitter::EmitKnown(const Instruction& instruction,
                                                         const Coord& at) {
  auto it = numbers_.find(&instruction);
  if (it == numbers_.end()) return std::optional<Element>();
  const Literal& literal = it->second;
  std::optional<int64_t> place = b_.IntConstant(at.base);
  bool one = b_.type(at.base).lanes == 1 && (at.step == 0 || lanes_ == 1);
  if (place && one) return std::optional(TRY(Number(literal, *place)));
  auto lanes = listed_.find(at.base);
  DType dtype = literal.dtype();
  if (lanes == listed_.end() || !IsFloat(dtype) || IsComplex(dtype)) {
    return std::optional<Element>();
  }
  std::vector<double> numbers;
  for (int64_t lane : lanes->second) numbers.push_back(literal.GetDouble(lane));
  ValueId value = program::math::LaneNumbers(b_, numbers, program::ComputeType(dtype));
  lane_numbers_[value] = std::move(numbers);
  return std::optional(Element{value, -1});
}

int ElementEmitter::AlignOf(KernelBuilder::MemoryId memory, const Coord& at) const {
  const program::Memory& m = b_.memory(memory);
  if (m.align == 0) return 0;
  int64_t width = ByteWidth(m.dtype), all = std::min(m.align, width * lanes_);
  return at.multiple * width % all == 0 && all > width ? static_cast<int>(all) : 0;
}

Element ElementEmitter::LoadAt(KernelBuilder::MemoryId memory, DType dtype, const Coord& at) {
  int64_t parts = IsComplex(dtype) ? 2 : 1;
  bool runs = at.step == 0 || (at.step == 1 && at.each == 1);
  bool gathers = b_.type(at.base).lanes > 1 || (lanes_ > 1 && !runs);
  bool one = !gathers && (lanes_ == 1 || at.step == 0);
  if (parts == 1) {
    bool near = b_.type(at.base).lanes == 1 && std::abs(at.step) <= kNearLanes && at.each == 1;
    bool repeats = gathers && b_.type(at.base).lanes == 1 && at.step == 1 &&
                   std::has_single_bit(static_cast<uint64_t>(at.each));
    if (auto it = listed_.find(at.base); it != listed_.end()) {
      return {LoadListed(memory, it->second), -1};
    }
    if (repeats) return {LoadRepeated(memory, at), -1};
    if (ValueId column = gathers ? LoadColumn(memory, at) : -1; column >= 0) return {column, -1};
    if (gathers && near) return {LoadSpread(memory, at), -1};
    if (gathers) return {b_.Load(memory, LaneValue(at, LaneType(at))), -1};
    return {b_.Load(memory, at.base, one ? 1 : lanes_, -1, one ? 0 : AlignOf(memory, at)), -1};
  }
  if (one || gathers || lanes_ * 2 > program::kMaxLanes) {
    ValueId first = one ? at.base : LaneValue(at, DType::kS64);
    first = b_.Mul(first, b_.Int(2, b_.type(first)));
    ValueId re = b_.Load(memory, first);
    return {re, b_.Load(memory, b_.Add(first, b_.Int(1, b_.type(first))))};
  }
  ValueId pairs = b_.Load(memory, b_.Mul(at.base, b_.Int(2)), lanes_ * 2);
  std::vector<int32_t> even, odd;
  for (int i = 0; i < lanes_; ++i) {
    even.push_back(2 * i);
    odd.push_back(2 * i + 1);
  }
  ValueId re = b_.Shuffle(pairs, pairs, even);
  return {re, b_.Shuffle(pairs, pairs, odd)};
}

void ElementEmitter::StoreAt(KernelBuilder::MemoryId memory, DType dtype, const Coord& at,
                             Element value, ValueId mask) {
  bool runs = at.step == 0 || (at.step == 1 && at.each == 1);
  bool scatters = b_.type(at.base).lanes > 1 || (lanes_ > 1 && !runs);
  bool one = !scatters && (lanes_ == 1 || at.step == 0);
  int lanes = one ? 1 : lanes_;
  auto spread = [&](ValueId v) { return b_.type(v).lanes == lanes ? v : b_.Splat(v, lanes); };
  if (mask >= 0) mask = spread(mask);
  if (!IsComplex(dtype)) {
    int align = one || scatters || mask >= 0 ? 0 : AlignOf(memory, at);
    b_.Store(memory, scatters ? LaneValue(at, DType::kS64) : at.base, spread(value.re), mask,
             align);
    return;
  }
  ValueId re = spread(value.re), im = spread(value.im);
  if (one || scatters || mask >= 0 || lanes * 2 > program::kMaxLanes) {
    ValueId first = one ? at.base : LaneValue(at, DType::kS64);
    first = b_.Mul(first, b_.Int(2, b_.type(first)));
    b_.Store(memory, first, re, mask);
    b_.Store(memory, b_.Add(first, b_.Int(1, b_.type(first))), im, mask);
    return;
  }
  std::vector<int32_t> order;
  for (int i = 0; i < lanes; ++i) {
    order.push_back(i);
    order.push_back(lanes + i);
  }
  b_.Store(memory, b_.Mul(at.base, b_.Int(2)), b_.Shuffle(re, im, order));
}

// --- values ---

void ElementEmitter::Match(ValueId& a, ValueId& b) {
  int lanes = std::max(b_.type(a).lanes, b_.type(b).lanes);
  if (b_.type(a).lanes != lanes) a = b_.Splat(a, lanes);
  if (b_.type(b).lanes != lanes) b = b_.Splat(b, lanes);
}

Element ElementEmitter::Select(ValueId pred, Element a, Element b) {
  if (pred < 0) return a;
  auto one = [&](ValueId x, ValueId y) {
    ValueId p = pred;
    Match(x, y);
    bool logic = b_.type(x).dtype == DType::kPred;
    if (b_.type(p).lanes > 1 || logic) {  // else one lane chooses for all
      Match(p, x);
      Match(p, y);
    }
    if (!logic) return b_.Select(p, x, y);
    // So that masks stay masks.
    ValueId no = b_.Emit(Op::kNot, {p});
    return b_.Emit(Op::kOr, {b_.Emit(Op::kAnd, {p, x}), b_.Emit(Op::kAnd, {no, y})});
  };
  return {one(a.re, b.re), a.im < 0 ? -1 : one(a.im, b.im)};
}

Element ElementEmitter::Zero(DType dtype) {
  DType part = program::ComputeType(RealType(dtype));
  ValueId zero = b_.Number(0, {part, 1});
  return {zero, IsComplex(dtype) ? zero : -1};
}

Result<Element> ElementEmitter::Number(const Literal& literal, int64_t i) {
  DType dtype = literal.dtype(), part = program::ComputeType(RealType(dtype));
  if (IsComplex(dtype)) {
    std::complex<double> c = literal.GetComplex(i);
    ValueId re = b_.Float(c.real(), {part, 1});
    return Element{re, b_.Float(c.imag(), {part, 1})};
  }
  if (IsFloat(dtype)) return Element{b_.Float(literal.GetDouble(i), {part, 1}), -1};
  if (dtype == DType::kPred) return Element{b_.Pred(literal.GetInt(i) != 0), -1};
  return Element{b_.Int(literal.GetInt(i), {part, 1}), -1};
}

// --- instructions ---

const Element* ElementEmitter::FindCached(const Instruction& instruction, const Index& index) {
  std::vector<Cached>& cached = cache_[&instruction];
  for (size_t i = cached.size(); i-- > 0;) {
    if (!b_.IsOpen(cached[i].block)) {
      cached[i] = cached.back();
      cached.pop_back();
    } else if (cached[i].lanes == 0 ||
               (cached[i].lanes == lanes_ && SameIndex(cached[i].index, index))) {
      return &cached[i].value;
    }
  }
  return nullptr;
}

// Elementwise ops below this one at the same index, operands first: a long chain of them is walked
// here and not by recursion.
Status ElementEmitter::EmitChain(const Instruction& instruction, const Index& index) {
  struct Place {
    const Instruction* at;
    int64_t next;  // operand
  };
  std::vector<Place> stack = {{&instruction, 0}};
  while (true) {
    Place& top = stack.back();
    if (top.next == top.at->operand_count()) {
      if (stack.size() == 1) return {};
      const Instruction* done = top.at;
      stack.pop_back();
      TRY(Emit(*done, index));
      continue;
    }
    const Instruction* operand = top.at->operand(top.next++);
    bool chained = hlo::IsElementwise(operand->op()) && !bound_.contains(operand) &&
                   operand->shape().IsScalar() == instruction.shape().IsScalar();
    if (chained && FindCached(*operand, index) == nullptr) stack.push_back({operand, 0});
  }
}

Result<Element> ElementEmitter::Emit(const Instruction& instruction, const Index& index) {
  if (const Element* known = FindCached(instruction, index)) return *known;
  if (depth_ > 0 && depth_ % kChainDepth == 0 && hlo::IsElementwise(instruction.op()) &&
      !bound_.contains(&instruction)) {
    TRY(EmitChain(instruction, index));
  }
  if (++depth_ > kMaxDepth) {
    return Unimplemented(hlo::Mnemonic(instruction.op()), ": expression too deep to lower");
  }
  int64_t block = b_.block();
  Element value = TRY(EmitUncached(instruction, index));
  --depth_;
  cache_[&instruction].push_back({index, value, block, lanes_});
  return value;
}

Result<Element> ElementEmitter::EmitUncached(const Instruction& instruction, const Index& index) {
  const Shape& shape = instruction.shape();
  if (auto it = bound_.find(&instruction); it != bound_.end()) {
    auto place = places_.find(&instruction);
    Coord at = place == places_.end() ? Linear(shape.dims(), index) : place->second(index);
    if (auto known = TRY(EmitKnown(instruction, at))) return *known;
    return LoadAt(it->second, shape.dtype(), at);
  }
  HloOp op = instruction.op();
  if (auto it = arguments_.find(&instruction); it != arguments_.end()) {
    return Emit(*it->second, index);
  }
  if (short_circuit_ && IsShortCircuited(instruction)) return EmitShortCircuit(instruction, index);
  if (op == HloOp::kSelect && value_ranges_ != nullptr && shape.elements() == 1) {
    std::optional<bool> first = value_ranges_->Outcome(*instruction.operand(0));
    if (first) return Emit(*instruction.operand(*first ? 1 : 2), index);
  }
  if (op == HloOp::kSelect && lanes_ > 1) {
    if (auto chosen = TRY(EmitOneSide(instruction, index))) return *chosen;
    if (auto chosen = TRY(EmitLeastOf(instruction, index))) return *chosen;
  }
  if (hlo::IsElementwise(op)) {
    std::vector<Element> args;
    for (const Instruction* operand : instruction.operands()) {
      // select and clamp take scalars beside arrays.
      bool scalar = operand->shape().IsScalar() && !shape.IsScalar();
      args.push_back(TRY(Emit(*operand, scalar ? Index() : index)));
    }
    return EmitElementwise(instruction, args);
  }
  switch (op) {
    case HloOp::kConstant: return EmitConstant(instruction, index);
    case HloOp::kIota: {
      int64_t d = instruction.attrs<hlo::IotaAttrs>().iota_dimension;
      DType part = RealType(shape.dtype());
      DType integer = FitsS32(shape.dim(d)) ? DType::kS32 : DType::kS64;
      Coord at = CoordinateAt(shape.dims(), index, static_cast<size_t>(d));
      ValueId value = LaneValue(at, integer);
      Element element{Round(b_.Cast(value, program::ComputeType(part)), part), -1};
      if (IsComplex(shape.dtype())) element.im = b_.Number(0, b_.type(element.re));
      return element;
    }
    case HloOp::kPad: return EmitPad(instruction, index);
    case HloOp::kConcatenate: return EmitConcatenate(instruction, index);
    case HloOp::kGather: return EmitGather(instruction, index);
    case HloOp::kDynamicSlice: return EmitDynamicSlice(instruction, index);
    case HloOp::kDynamicUpdateSlice: return EmitDynamicUpdateSlice(instruction, index);
    case HloOp::kReduce: return EmitReduce(instruction, 0, index);
    case HloOp::kReduceWindow: return EmitReduceWindow(instruction, 0, index);
    case HloOp::kDot: return EmitDot(instruction, index);
    case HloOp::kBitcastConvert: return EmitBitcastConvert(instruction, index);
    case HloOp::kFusion: return Emit(Enter(instruction, 0), index);
    case HloOp::kGetTupleElement: {
      return EmitLeaf(*instruction.operand(0), instruction.tuple_index(), index);
    }
    default: return EmitMoved(instruction, index);
  }
}

Result<Element> ElementEmitter::EmitLeaf(const Instruction& instruction, int64_t leaf,
                                         const Index& index) {
  switch (instruction.op()) {
    case HloOp::kReduce: return EmitReduce(instruction, leaf, index);
    case HloOp::kReduceWindow: return EmitReduceWindow(instruction, leaf, index);
    case HloOp::kTuple: return Emit(*instruction.operand(leaf), index);
    case HloOp::kFusion: return Emit(Enter(instruction, leaf), index);
    default:
      return Unimplemented(hlo::Mnemonic(instruction.op()), ": no native lowering of its tuple");
  }
}

const Instruction& ElementEmitter::Enter(const Instruction& fusion, int64_t leaf) {
  const hlo::Computation& called = *fusion.attrs<hlo::FusionAttrs>().calls;
  for (const Instruction* parameter : called.parameters()) {
    arguments_[parameter] = fusion.operand(parameter->parameter_number());
  }
  return fusion.shape().IsTuple() ? *called.root()->operand(leaf) : *called.root();
}

// Ops whose element is an element of the operand, at another index.
Result<Element> ElementEmitter::EmitMoved(const Instruction& instruction, const Index& index) {
  if (instruction.operand_count() == 0) {
    return Unimplemented(hlo::Mnemonic(instruction.op()), ": no native lowering inside a kernel");
  }
  const Shape& shape = instruction.shape();
  if (instruction.operand_count() == 0 || !instruction.operand(0)->shape().IsArray()) {
    return Unimplemented(hlo::Mnemonic(instruction.op()), ": no native lowering");
  }
  const Instruction& operand = *instruction.operand(0);
  const Dims& from = operand.shape().dims();
  switch (instruction.op()) {
    case HloOp::kCopy:
    case HloOp::kOptBarrier: return Emit(operand, index);
    case HloOp::kReshape:
    case HloOp::kBitcast: {
      if (index.is_linear || !SplitsDimensions(shape.dims(), from) || !IsInOrder(operand)) {
        return Emit(operand, ReshapedIndex(shape, operand.shape(), index));
      }
      Index linear;
      linear.is_linear = true;
      linear.linear = Linear(shape.dims(), index);
      return Emit(operand, linear);
    }
    default: break;
  }
  Index moved;
  moved.coords.resize(from.size());
  if (instruction.op() == HloOp::kBroadcast) {
    const auto& dims = instruction.attrs<hlo::BroadcastAttrs>().dimensions;
    for (size_t i = 0; i < from.size(); ++i) {
      moved.coords[i] = from[i] == 1
                            ? Constant(0)
                            : CoordinateAt(shape.dims(), index, static_cast<size_t>(dims[i]));
    }
    return Emit(operand, moved);
  }
  Index at = Coordinates(shape.dims(), index);
  switch (instruction.op()) {
    case HloOp::kTranspose: {
      const auto& dims = instruction.attrs<hlo::DimensionsAttrs>().dimensions;
      for (size_t i = 0; i < from.size(); ++i) {
        moved.coords[static_cast<size_t>(dims[i])] = at.coords[i];
      }
      break;
    }
    case HloOp::kReverse: {
      moved.coords = at.coords;
      for (int64_t d : instruction.attrs<hlo::DimensionsAttrs>().dimensions) {
        Coord& c = moved.coords[static_cast<size_t>(d)];
        c = AddConstant(Scale(c, -1), shape.dim(d) - 1);
      }
      break;
    }
    case HloOp::kSlice: {
      const auto& slice = instruction.attrs<hlo::SliceAttrs>().slice;
      for (size_t i = 0; i < from.size(); ++i) {
        moved.coords[i] = AddConstant(Scale(at.coords[i], slice[i].stride), slice[i].start);
      }
      break;
    }
    default:
      return Unimplemented(hlo::Mnemonic(instruction.op()), ": no native lowering inside a kernel");
  }
  return Emit(operand, moved);
}

bool ElementEmitter::IsInOrder(const Instruction& i) const {
  int budget = 40;  // instructions to look at
  return IsInOrder(i, budget);
}

bool ElementEmitter::IsInOrder(const Instruction& i, int& budget) const {
  if (--budget < 0 || places_.contains(&i) || arguments_.contains(&i)) return false;
  if (bound_.contains(&i) || i.shape().elements() == 1) return true;
  if (i.op() == HloOp::kBroadcast && i.operand(0)->shape().elements() == 1) return true;
  bool same = hlo::IsElementwise(i.op()) || i.op() == HloOp::kReshape ||
              i.op() == HloOp::kBitcast || i.op() == HloOp::kCopy;
  return same && i.operand_count() > 0 &&
         std::ranges::all_of(
             i.operands(), [&](const Instruction* operand) { return IsInOrder(*operand, budget); });
}

// Dimensions are matched in groups of equal element count, so that most coordinates carry over.
Index ElementEmitter::ReshapedIndex(const Shape& from, const Shape& to, const Index& index) {
  if (index.is_linear) return index;
  Index result;
  result.coords.resize(to.dims().size());
  const Dims &a = from.dims(), &b = to.dims();
  for (const DimRun& run : MatchDims(a, b)) {
    auto i0 = static_cast<size_t>(run.from_begin), i = static_cast<size_t>(run.from_end);
    auto j0 = static_cast<size_t>(run.to_begin), j = static_cast<size_t>(run.to_end);
    if (j == j0) continue;  // only dimensions of size 1 left on this side
    Index part;
    for (size_t k = i0; k < i; ++k) part.coords.push_back(index.coords[k]);
    Index linear;
    linear.is_linear = true;
    linear.linear = Linear(std::span(a.data() + i0, i - i0), part);
    Index split = Coordinates(std::span(b.data() + j0, j - j0), linear);
    for (size_t k = j0; k < j; ++k) result.coords[k] = split.coords[k - j0];
  }
  return result;
}

Result<Element> ElementEmitter::EmitConstant(const Instruction& constant, const Index& index) {
  const Literal& literal = constant.literal();
  if (!literal.IsValid()) return Unimplemented("constant: its value was left out of the text");
  if (literal.size() == 1) return Number(literal, 0);
  // Small ones as a chain of selects would be long; bound ones are read from memory.
  Coord at = Linear(constant.shape().dims(), index);
  if (auto i = b_.IntConstant(at.base); i && at.step == 0) return Number(literal, *i);
  return Unimplemented("constant: not bound to memory");
}

Result<std::vector<Element>> ElementEmitter::Call(const hlo::Computation& computation,
                                                  std::span<const Element> arguments) {
  // The computation's instructions stand for other values in every call.
  for (const Instruction* instruction : computation) cache_.erase(instruction);
  for (size_t i = 0; i < arguments.size(); ++i) {
    SetValue(*computation.parameter(static_cast<int64_t>(i)), arguments[i]);
  }
  std::vector<Element> results;
  const Instruction* root = computation.root();
  if (root->op() == HloOp::kTuple) {
    for (const Instruction* operand : root->operands()) {
      results.push_back(TRY(Emit(*operand, Index())));
    }
  } else {
    results.push_back(TRY(Emit(*root, Index())));
  }
  for (const Instruction* instruction : computation) cache_.erase(instruction);
  return results;
}

}  // namespace weft::compiler
