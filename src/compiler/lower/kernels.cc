// Instructions and fusions as loop kernels.
#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>
#include <unordered_set>

#include "base/str.h"
#include "compiler/lower/lowering.h"
#include "compiler/lower/reduce.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using HloOp = hlo::Op;

namespace {

constexpr double kSplitReduceCost = 200'000;  // rows worth cutting in pieces
constexpr int64_t kPieces = 32;

// What the element loop computes one element of: the reduce behind get-tuple-element.
const Instruction& Producer(const Instruction& root) {
  const Instruction* i = &root;
  while (i->op() == HloOp::kGetTupleElement) i = i->operand(0);
  return *i;
}

bool NeedsCoordinates(const Instruction& i) {
  if (hlo::IsElementwise(i.op()) || i.IsParameter() || i.IsConstant()) return false;
  switch (i.op()) {
    case HloOp::kReshape:
    case HloOp::kBitcast:
    case HloOp::kCopy:
    case HloOp::kOptBarrier:
    case HloOp::kTuple:
    case HloOp::kGetTupleElement: return false;
    case HloOp::kBroadcast: return !i.operand(0)->shape().IsScalar();
    default: return true;
  }
}

// Steps that wait for each other, more of them than a processor looks ahead, with few values on the
// way: twice the lanes keep it busy.
bool IsLongChain(const KernelBody& body) {
  constexpr int kLong = 48, kFewValues = 5;
  std::unordered_map<const Instruction*, int> depth;
  std::unordered_map<const Instruction*, size_t> last_use;
  auto counts = [](const Instruction& i) {
    return i.shape().IsArray() && i.shape().elements() > 1 && !IsFree(i) && !i.IsConstant();
  };
  for (size_t k = 0; k < body.members.size(); ++k) {
    for (const Instruction* operand : body.members[k]->operands()) last_use[operand] = k;
  }
  std::vector<int> ends(body.members.size() + 1);
  int steps = 0, deepest = 0, values = 0, most = 0;
  for (size_t k = 0; k < body.members.size(); ++k) {
    const Instruction& i = *body.members[k];
    int longest = 0;
    for (const Instruction* operand : i.operands()) {
      auto it = depth.find(operand);
      if (it != depth.end()) longest = std::max(longest, it->second);
    }
    depth[&i] = longest + (counts(i) ? 1 : 0);
    values -= ends[k];
    if (!counts(i)) continue;
    if (ElementCost(i) > 1 || !hlo::IsElementwise(i.op())) return false;
    ++steps;
    deepest = std::max(deepest, depth[&i]);
    most = std::max(most, ++values);
    auto it = last_use.find(&i);
    ++ends[it == last_use.end() ? body.members.size() : it->second];
  }
  return steps >= kLong && 2 * deepest >= steps && most <= kFewValues;
}

}  // namespace

KernelBody Lowering::BodyOf(const Instruction& instruction) const {
  KernelBody body;
  body.instruction = &instruction;
  const auto& leaves = memory_.Leaves(instruction);
  if (instruction.op() == HloOp::kFusion) {
    const hlo::Computation& fused = *instruction.attrs<hlo::FusionAttrs>().calls;
    for (const Instruction* i : fused) {
      if (i->IsParameter()) {
        body.inputs.push_back({i, memory_.Leaf(*instruction.operand(i->parameter_number()))});
      } else {
        body.members.push_back(i);
      }
    }
    const Instruction* root = fused.root();
    if (root->op() == HloOp::kTuple) {
      size_t next = 0;
      for (const Instruction* operand : root->operands()) {
        for (int64_t leaf = 0; leaf < LeafCount(operand->shape()); ++leaf) {
          body.outputs.push_back({operand, leaves[next++], leaf});
        }
      }
    } else {
      for (size_t k = 0; k < leaves.size(); ++k) {
        body.outputs.push_back({root, leaves[k], static_cast<int64_t>(k)});
      }
    }
    return body;
  }
  std::unordered_set<const Instruction*> known;
  for (const Instruction* operand : instruction.operands()) {
    if (operand->IsConstant() && operand->literal().size() == 1) continue;
    if (!operand->shape().IsArray() || !known.insert(operand).second) continue;
    body.inputs.push_back({operand, memory_.Leaf(*operand)});
  }
  body.members.push_back(&instruction);
  for (size_t k = 0; k < leaves.size(); ++k) {
    body.outputs.push_back({&instruction, leaves[k], static_cast<int64_t>(k)});
  }
  return body;
}

namespace {

// The work of putting two elements together, or results of several operands.
double CostOfCombining(const Instruction& i) {
  const hlo::Computation* function = i.op() == HloOp::kReduce ? i.attrs<hlo::ReduceAttrs>().to_apply
                                     : i.op() == HloOp::kReduceWindow
                                         ? i.attrs<hlo::ReduceWindowAttrs>().to_apply
                                         : nullptr;
  double cost = 0;
  if (function != nullptr) {
    for (const Instruction* op : *function) cost += op->IsParameter() ? 0 : ElementCost(*op);
  }
  return std::max(cost, 2.0);
}

// How many elements are put together in all.
double Combined(const Instruction& i) {
  const Shape& shape =
      i.shape().IsTuple() && i.shape().tuple_size() > 0 ? i.shape().tuple_element(0) : i.shape();
  if (!shape.IsArray()) return 0;
  double elements = static_cast<double>(shape.elements());
  switch (i.op()) {
    case HloOp::kReduce: return static_cast<double>(i.operand(0)->shape().elements());
    case HloOp::kReduceWindow:
      for (const hlo::WindowDim& d : i.attrs<hlo::ReduceWindowAttrs>().window.dims) {
        elements *= static_cast<double>(d.size);
      }
      return elements;
    case HloOp::kDot:
      for (int64_t d : i.attrs<hlo::DotAttrs>().lhs_contracting_dims) {
        elements *= static_cast<double>(i.operand(0)->shape().dim(d));
      }
      return elements;
    default: return 0;
  }
}

}  // namespace

LoopShape Lowering::ShapeOf(const KernelBody& body, const Dims& dims) const {
  LoopShape shape;
  shape.dims = dims;
  shape.flat = true;
  shape.serial = serial_;
  double elements = 1;
  for (int64_t d : dims) elements *= static_cast<double>(d);
  double cost = static_cast<double>(body.inputs.size() + body.outputs.size());
  // What most of the work is done in decides the lanes: a few wider values take several registers.
  std::array<double, 4> work_by_width = {};  // of 1, 2, 4 and 8 bytes
  auto note = [&](DType dtype, double work) {
    int64_t width = std::max<int64_t>(ByteWidth(RealType(dtype)), IsFloat(dtype) ? 4 : 1);
    work_by_width[static_cast<size_t>(std::bit_width(static_cast<uint64_t>(width)) - 1)] += work;
  };
  for (const KernelInput& input : body.inputs) {
    if (input.inside->shape().IsArray() && !input.inside->shape().IsScalar()) {
      note(input.inside->shape().dtype(), 1);
    }
  }
  for (const Instruction* i : body.members) {
    shape.flat &= !NeedsCoordinates(*i);
    cost += CostOfCombining(*i) * Combined(*i) / std::max(1.0, elements);
    if (!i->shape().IsArray()) continue;
    // Of an update only what is new.
    const Shape& made = i->op() == HloOp::kDynamicUpdateSlice ? i->operand(1)->shape() : i->shape();
    double times = std::max(1.0, static_cast<double>(made.elements()) / elements);
    // Powers are computed in f64, each lane in two registers: where there are few elements, half
    // the code to compile is worth more than lanes.
    constexpr double kFewElements = 4096;
    bool wide = i->op() == HloOp::kPower && IsFloat(i->shape().dtype()) && !serial_ &&
                elements <= kFewElements;
    DType dtype = wide ? DType::kF64 : i->shape().dtype();
    if (!i->shape().IsScalar()) note(dtype, times * ElementCost(*i));
    cost += times * ElementCost(*i);
  }
  constexpr double kMinorShare = 0.15;
  double total = 0, wider = 0;
  for (double work : work_by_width) total += work;
  size_t widest = work_by_width.size() - 1;
  while (widest > 0 && wider + work_by_width[widest] <= kMinorShare * total) {
    wider += work_by_width[widest--];
  }
  shape.width = int64_t{1} << widest;
  // Of narrow numbers more are computed at once.
  shape.cost = cost * static_cast<double>(std::min<int64_t>(shape.width, 4)) / 4;
  for (const KernelOutput& output : body.outputs) {
    for (const KernelInput& input : body.inputs) {
      shape.in_place |= memory_.Share(input.value, output.value);
    }
  }
  return shape;
}

KernelDraft Lowering::NewDraft(const KernelBody& body) {
  KernelDraft draft(body.instruction->name(), program_, memory_, target_, &ranges_);
  if (in_condition_) draft.elements().AskInTurn();
  return draft;
}

void Lowering::Finish(KernelDraft& draft, const KernelBody& body, Steps& steps) {
  steps.push_back(draft.Finish(kernels_, body.instruction->SourceLocation()));
}

namespace {

// Whether something may read that leaf of the instruction's result.
bool IsRead(const Instruction& instruction, size_t leaf) {
  const Shape& shape = instruction.shape();
  if (instruction.IsRoot() || !shape.IsTuple()) return true;
  for (int64_t k = 0; k < shape.tuple_size(); ++k) {
    if (!shape.tuple_element(k).IsArray()) return true;
  }
  return std::any_of(instruction.users().begin(), instruction.users().end(),
                     [&](const Instruction* user) {
                       return user->op() != HloOp::kGetTupleElement ||
                              (user->tuple_index() == static_cast<int64_t>(leaf) &&
                               (user->IsRoot() || !user->users().empty()));
                     });
}

// Results that nobody reads are not computed; one is left.
void DropUnread(const Instruction& instruction, std::vector<KernelOutput>& outputs) {
  std::vector<KernelOutput> read;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (IsRead(instruction, k)) read.push_back(outputs[k]);
  }
  if (!read.empty()) outputs = std::move(read);
}

}  // namespace

Status Lowering::LowerKernel(const Instruction& instruction, Steps& steps) {
  bool arrays = LeafCount(instruction.shape()) > 0;
  ForEachLeaf(instruction.shape(), [&](const Shape& leaf) { arrays &= leaf.IsArray(); });
  if (!arrays) return Unimplemented(hlo::Mnemonic(instruction.op()), ": no native lowering");
  if (instruction.shape().IsArray() && instruction.shape().elements() == 0) return {};
  KernelBody body = BodyOf(instruction);
  DropUnread(instruction, body.outputs);
  const Instruction& root = *body.outputs[0].inside;
  const Instruction& producer = Producer(root);
  if (instruction.op() == HloOp::kFusion &&
      instruction.attrs<hlo::FusionAttrs>().kind == hlo::FusionKind::kOutput) {
    if (auto space = RowSpaceOf(body.members)) return LowerRows(body, *space, steps);
  }
  switch (producer.op()) {
    case HloOp::kReduce: return LowerReduce(body, steps);
    case HloOp::kScatter: return LowerScatter(instruction, steps);
    case HloOp::kDynamicUpdateSlice:
      if (body.outputs.size() == 1) return LowerUpdate(body, steps);
      break;
    case HloOp::kConcatenate:
      if (CanInterleave(body, root.shape().dims())) return LowerLoop(body, steps);
      if (body.outputs.size() == 1) return LowerConcatenate(body, steps);
      break;
    default: break;
  }
  if (CanTile(body)) return LowerTiles(body, steps);
  return LowerLoop(body, steps);
}

Status Lowering::LowerLoop(const KernelBody& body, Steps& steps) {
  if (const Shape& made = body.outputs[0].inside->shape(); made.IsArray()) {
    LoopShape whole = ShapeOf(body, made.dims());
    if (!whole.flat && IsPeriodic(body, whole)) return LowerPeriodic(body, whole, steps);
    if (!whole.flat && CanInterleave(body, whole.dims)) return LowerInterleaved(body, whole, steps);
  }
  KernelDraft draft = NewDraft(body);
  draft.Declare(body.inputs, body.outputs);
  ElementEmitter& e = draft.elements();
  bool tuple = body.outputs[0].inside->shape().IsTuple();
  const Shape& first = memory_.shape(body.outputs[0].value);
  LoopShape shape = ShapeOf(body, tuple ? first.dims() : body.outputs[0].inside->shape().dims());
  if (!serial_ && IsLongChain(body)) shape.width = std::max<int64_t>(1, shape.width / 2);
  std::optional<size_t> product = ProductBefore(body, shape, steps);
  shape.by_rows = product.has_value();
  if (shape.by_rows) shape.flat = false;
  if (!shape.flat) {
    std::vector<const Instruction*> roots;
    for (const KernelOutput& output : body.outputs) roots.push_back(output.inside);
    shape.cuts = MinorCuts(body.members, roots, shape.dims);
    shape.outer = OuterPieces(body.members, roots, shape.dims, shape.cuts.size());
  }
  TRY(draft.ForEach(shape, [&](const Index& index) -> Status {
    std::vector<Element> values;
    for (const KernelOutput& output : body.outputs) {
      values.push_back(TRY(output.inside->shape().IsTuple()
                               ? e.EmitLeaf(*output.inside, output.leaf, index)
                               : e.Emit(*output.inside, index)));
    }
    for (size_t k = 0; k < body.outputs.size(); ++k) {
      const Shape& to = memory_.shape(body.outputs[k].value);
      e.StoreAt(draft.MemoryOf(body.outputs[k].value), to.dtype(), e.Linear(shape.dims, index),
                values[k]);
    }
    return {};
  }));
  if (product) {
    FinishEpilogue(draft, body, *product, steps);
  } else {
    Finish(draft, body, steps);
  }
  return {};
}

namespace {

// Of a kernel that joins arrays: what computes the one that is joined, and nothing else.
KernelBody PartOf(const KernelBody& body, const Instruction& operand,
                  const std::unordered_map<const Instruction*, size_t>& input_numbers) {
  bool fused = body.instruction->op() == HloOp::kFusion;
  std::vector<const Instruction*> reached = {&operand};
  std::unordered_set<const Instruction*> seen = {&operand};
  std::vector<size_t> inputs;
  for (size_t at = 0; at < reached.size(); ++at) {
    auto input = input_numbers.find(reached[at]);
    if (input != input_numbers.end()) inputs.push_back(input->second);
    if (!fused || reached[at]->IsParameter()) continue;
    for (const Instruction* i : reached[at]->operands()) {
      if (seen.insert(i).second) reached.push_back(i);
    }
  }
  KernelBody part;
  part.instruction = body.instruction;
  part.outputs = body.outputs;
  std::sort(inputs.begin(), inputs.end());
  for (size_t k : inputs) part.inputs.push_back(body.inputs[k]);
  for (const Instruction* i : reached) {
    if (fused && !i->IsParameter()) part.members.push_back(i);
  }
  return part;
}

// Whether operands lie one behind the other, and are so many and so small that a copy of each is
// better than code for each.
bool IsJoinedByCopies(const Instruction& concatenate) {
  constexpr int64_t kManyOperands = 32, kSmallBytes = 1 << 14;
  const Shape& shape = concatenate.shape();
  int64_t rows = 1, d = concatenate.attrs<hlo::DimensionsAttrs>().dimensions[0];
  for (int64_t k = 0; k < d; ++k) rows *= shape.dim(k);
  return rows == 1 && concatenate.operand_count() > kManyOperands && BitWidth(shape.dtype()) >= 8 &&
         shape.ByteSize() / concatenate.operand_count() <= kSmallBytes;
}

}  // namespace

// Each operand by a loop of its own, so that nothing has to be chosen inside.
Status Lowering::LowerConcatenate(const KernelBody& body, Steps& steps) {
  const Instruction& root = *body.outputs[0].inside;
  int64_t d = root.attrs<hlo::DimensionsAttrs>().dimensions[0], offset = 0;
  std::unordered_map<const Instruction*, size_t> input_numbers;
  for (size_t k = 0; k < body.inputs.size(); ++k) input_numbers.emplace(body.inputs[k].inside, k);
  bool copies = IsJoinedByCopies(root);
  int64_t bytes_before = 0;
  for (const Instruction* operand : root.operands()) {
    if (operand->shape().elements() == 0) continue;
    int64_t bytes = operand->shape().elements() * ByteWidth(operand->shape().dtype());
    auto input = input_numbers.find(operand);
    if (copies && input != input_numbers.end()) {
      CopyInto(Buffer(body.inputs[input->second].value), bytes, Buffer(body.outputs[0].value),
               bytes_before, *body.instruction, steps);
      bytes_before += bytes, offset += operand->shape().dim(d);
      continue;
    }
    bytes_before += bytes;
    KernelDraft draft = NewDraft(body);
    KernelBody part = PartOf(body, *operand, input_numbers);
    draft.Declare(part.inputs, part.outputs);
    ElementEmitter& e = draft.elements();
    LoopShape shape = ShapeOf(part, operand->shape().dims());
    shape.flat = false;
    shape.cuts = MinorCuts(part.members, std::vector<const Instruction*>{operand}, shape.dims);
    TRY(draft.ForEach(shape, [&](const Index& index) -> Status {
      Element value = TRY(e.Emit(*operand, index));
      Index to = e.Coordinates(operand->shape().dims(), index);
      Coord& c = to.coords[static_cast<size_t>(d)];
      c = e.AddConstant(c, offset);
      e.StoreAt(draft.MemoryOf(part.outputs[0].value), root.shape().dtype(),
                e.Linear(root.shape().dims(), to), value);
      return {};
    }));
    Finish(draft, part, steps);
    offset += operand->shape().dim(d);
  }
  return {};
}

Status Lowering::LowerUpdate(const KernelBody& body, Steps& steps) {
  const Instruction &root = *body.outputs[0].inside, &slice = *root.operand(1);
  const Instruction* below = root.operand(0);
  MemValue result = body.outputs[0].value;
  auto input = std::find_if(body.inputs.begin(), body.inputs.end(),
                            [&](const KernelInput& in) { return in.inside == below; });
  if (input == body.inputs.end()) return LowerLoop(body, steps);
  // Most of the array is new: one loop over all of it reads less than a copy and the update.
  bool most = slice.shape().elements() * 2 > root.shape().elements();
  if (most && !memory_.Share(input->value, result)) return LowerLoop(body, steps);
  Copy(input->value, result, "the updated array", root, steps);
  KernelBody part = body;
  // The array below is an input only if something else in the kernel reads it.
  bool read = false;
  for (const Instruction* i : body.members) {
    for (int64_t k = 0; k < i->operand_count(); ++k) {
      read |= i->operand(k) == below && !(i == &root && k == 0);
    }
  }
  if (!read) part.inputs.erase(part.inputs.begin() + (input - body.inputs.begin()));
  KernelDraft draft = NewDraft(part);
  draft.Declare(part.inputs, part.outputs);
  ElementEmitter& e = draft.elements();
  LoopShape shape = ShapeOf(part, slice.shape().dims());
  shape.flat = false;
  TRY(draft.ForEach(shape, [&](const Index& index) -> Status {
    Element value = TRY(e.Emit(slice, index));
    Index to = e.Coordinates(slice.shape().dims(), index);
    for (int64_t d = 0; d < root.shape().rank(); ++d) {
      int64_t room = root.shape().dim(d) - slice.shape().dim(d);
      if (room == 0) continue;
      Coord& c = to.coords[static_cast<size_t>(d)];
      c = e.Add(c, TRY(e.EmitStart(*root.operand(d + 2), room)));
    }
    e.StoreAt(draft.MemoryOf(result), root.shape().dtype(), e.Linear(root.shape().dims(), to),
              value);
    return {};
  }));
  Finish(draft, part, steps);
  return {};
}

Status Lowering::LowerReduce(const KernelBody& body, Steps& steps) {
  // The reduces, once each, and which of their results every output is.
  std::vector<const Instruction*> reduces;
  std::vector<size_t> first;  // accumulators before each reduce
  std::vector<size_t> wanted;
  size_t count = 0;
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    const Instruction& root = *body.outputs[k].inside;
    const Instruction* reduce = &Producer(root);
    if (reduce->op() != HloOp::kReduce) return LowerLoop(body, steps);
    auto it = std::find(reduces.begin(), reduces.end(), reduce);
    if (it == reduces.end()) {
      first.push_back(count);
      count += static_cast<size_t>(reduce->operand_count()) / 2;
      reduces.push_back(reduce);
      it = reduces.end() - 1;
    }
    size_t leaf = root.op() == HloOp::kGetTupleElement ? static_cast<size_t>(root.tuple_index())
                                                       : static_cast<size_t>(body.outputs[k].leaf);
    wanted.push_back(first[static_cast<size_t>(it - reduces.begin())] + leaf);
  }
  ReduceDims dims = SplitDims(*reduces[0]);
  bool same = std::all_of(reduces.begin(), reduces.end(), [&](const Instruction* r) {
    ReduceDims other = SplitDims(*r);
    return other.kept == dims.kept && other.reduced == dims.reduced &&
           other.kept_sizes == dims.kept_sizes && other.reduced_sizes == dims.reduced_sizes;
  });
  LoopShape shape = ShapeOf(body, reduces[0]->operand(0)->shape().dims());
  if (target_.kind == program::TargetKind::kGpu) {
    bool blocks = same && ReducesByBlocks(dims, target_);
    return blocks ? LowerReduceOnGpu(body, reduces, wanted, dims, shape, steps)
                  : LowerLoop(body, steps);
  }
  // Few elements that do not lie together: a result in each lane.
  bool plain = std::all_of(reduces.begin(), reduces.end(),
                           [](const Instruction* r) { return r->operand_count() == 2; });
  bool together_in_memory = plain && !serial_ && dims.length >= kVectorReduce && dims.minor &&
                            reduces[0]->operand(0)->shape().dim(dims.reduced.back()) > 1 &&
                            KeptInside(dims).dimension < 0;
  if (!same || (dims.length <= kShortReduce && !together_in_memory)) return LowerLoop(body, steps);
  if (!dims.minor) return LowerColumnReduce(body, reduces, wanted, dims, steps);
  double total = shape.cost * static_cast<double>(dims.rows) * static_cast<double>(dims.length);
  KeptTogether together = KeptInside(dims);
  Dims rows = dims.kept_sizes;
  size_t inside = dims.kept.size();  // the dimension kept together
  for (size_t k = 0; k < dims.kept.size(); ++k) {
    if (dims.kept[k] == together.dimension) rows[inside = k] = 1;
  }
  auto store = [&](KernelDraft& draft, Index row, std::span<const Element> values) {
    ElementEmitter& e = draft.elements();
    for (int64_t v = 0; v < together.size; ++v) {
      if (together.dimension >= 0) row.coords[inside] = e.Constant(v);
      for (size_t k = 0; k < body.outputs.size(); ++k) {
        MemValue to = body.outputs[k].value;
        e.StoreAt(draft.MemoryOf(to), memory_.shape(to).dtype(), e.Linear(dims.kept_sizes, row),
                  values[static_cast<size_t>(v) * count + wanted[k]]);
      }
    }
  };
  if (serial_ || dims.rows >= 8 || total < kSplitReduceCost) {
    KernelDraft draft = NewDraft(body);
    draft.Declare(body.inputs, body.outputs);
    RowReducer reducer(draft, reduces, shape.width, together);
    reducer.set_cost(shape.cost);
    double row_cost = shape.cost * static_cast<double>(dims.length * together.size);
    TRY(draft.ForEachRow(rows, row_cost, serial_, [&](const Index& row) -> Status {
      store(draft, row, TRY(reducer.Row(row, draft.builder().Int(0), dims.length, false)));
      return {};
    }));
    Finish(draft, body, steps);
    return {};
  }
  return LowerSplitReduce(body, reduces, wanted, dims, shape, steps);
}

// Few long rows: pieces of them in parallel, then the pieces together.
Status Lowering::LowerSplitReduce(const KernelBody& body,
                                  std::span<const Instruction* const> reduces,
                                  std::span<const size_t> wanted, const ReduceDims& dims,
                                  const LoopShape& shape, Steps& steps) {
  int64_t unit = dims.reduced.size() > 1 ? dims.reduced_sizes.back() : 64;
  int64_t piece = (dims.length / kPieces + unit - 1) / unit * unit;
  piece = std::min(std::max(piece, unit), dims.length);
  int64_t pieces = dims.length / piece, rest = dims.length - pieces * piece;
  KernelDraft draft = NewDraft(body);
  std::vector<program::BufferId> partial;
  {
    RowReducer types(draft, reduces, shape.width);
    for (size_t i = 0; i < types.operand_count(); ++i) {
      partial.push_back(Scratch(Shape(types.type(i), {dims.rows, pieces}), "partial"));
    }
  }
  draft.Declare(body.inputs, {});
  std::vector<KernelBuilder::MemoryId> memory;
  for (program::BufferId b : partial)
    memory.push_back(draft.DeclareBuffer(b, program::Access::kWrite));
  RowReducer reducer(draft, reduces, shape.width);
  reducer.set_cost(shape.cost);
  Dims grid = dims.kept_sizes;
  grid.push_back(pieces);
  KernelBuilder& b = draft.builder();
  ElementEmitter& e = draft.elements();
  TRY(draft.ForEachRow(grid, shape.cost * static_cast<double>(piece), false,
                       [&](const Index& at) -> Status {
                         Index row = at;
                         ValueId number = at.coords.back().base;
                         row.coords.pop_back();
                         std::vector<Element> values =
                             TRY(reducer.Row(row, b.Mul(number, b.Int(piece)), piece, true));
                         for (size_t i = 0; i < values.size(); ++i) {
                           e.StoreAt(memory[i], reducer.type(i), e.Linear(grid, at), values[i]);
                         }
                         return {};
                       }));
  Finish(draft, body, steps);

  KernelDraft last(StrCat(body.instruction->name(), ".join"), program_, memory_, target_);
  // The rest of the rows, and initial values, are read here.
  last.Declare(body.inputs, body.outputs);
  memory.clear();
  for (program::BufferId p : partial)
    memory.push_back(last.DeclareBuffer(p, program::Access::kRead));
  RowReducer join(last, reduces, shape.width);
  ElementEmitter& f = last.elements();
  TRY(last.ForEachRow(dims.kept_sizes, 1, true, [&](const Index& row) -> Status {
    std::vector<Element> acc = TRY(join.Pieces(pieces, [&](const Coord& p, size_t i) {
      Index at = row;
      at.coords.push_back(p);
      return f.LoadAt(memory[i], join.type(i), f.Linear(grid, at));
    }));
    if (rest > 0) {
      std::vector<Element> value =
          TRY(join.Row(row, last.builder().Int(pieces * piece), rest, true));
      acc = TRY(join.Combine(std::move(acc), value));
    }
    for (size_t k = 0; k < body.outputs.size(); ++k) {
      MemValue to = body.outputs[k].value;
      f.StoreAt(last.MemoryOf(to), memory_.shape(to).dtype(), f.Linear(dims.kept_sizes, row),
                acc[wanted[k]]);
    }
    return {};
  }));
  Finish(last, body, steps);
  return {};
}

}  // namespace weft::compiler
