// Values of one computation as they lie, and instructions that hand them on: tuples, loops,
// branches, calls, boundaries of manual computations.
#include <algorithm>

#include "base/log.h"
#include "compiler/spmd/partitioner.h"

namespace weft::compiler::spmd {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

ComputationPartitioner::ComputationPartitioner(Partitioner& program, const Computation& from,
                                               Computation& into, bool entry)
    : program_(program),
      mesh_(program.mesh()),
      from_(from),
      emitter_(program.state(), into),
      entry_(entry) {
  values_.reserve(static_cast<size_t>(from.size()));
}

Status ComputationPartitioner::Run(std::span<const Form> root) {
  for (const Instruction* p : from_.parameters()) TRY(EmitParameter(*p));
  for (const Instruction* i : from_) {
    if (i->IsParameter()) continue;
    emitter_.SetLike(i);
    Status done = EmitInstruction(*i);
    if (!done) {
      done.error().Source(i->SourceLocation()).Note(StrCat("at ", i->ToString()));
      return done;
    }
  }
  Instruction* result = TRY(BuildAll(from_.root(), root));
  emitter_.into().set_root(result);
  return {};
}

ComputationPartitioner::Leaves ComputationPartitioner::NewLeaves(const Instruction& i) const {
  Leaves leaves;
  std::vector<Form> forms = program_.FormsOf(&i);
  const std::vector<const Shape*> shapes = LeavesOf(i.shape());
  for (size_t k = 0; k < shapes.size(); ++k) {
    leaves.push_back({.whole = shapes[k], .declared = std::move(forms[k]), .forms = {}});
  }
  return leaves;
}

Instruction* ComputationPartitioner::Clone(const Instruction& i, Shape shape,
                                           std::span<Instruction* const> operands) {
  hlo::CloneChanges changes{.name = i.name(), .shape = std::move(shape), .operands = operands};
  Instruction* clone = hlo::CloneInstruction(i, emitter_.into(), map_, nullptr, changes);
  if (clone->sharding() != nullptr) clone->mutable_extras().sharding = {};
  return clone;
}

namespace {

// Element by element, the leaves of a local value.
Status AppendLeaves(Builder& b, Instruction* local, std::vector<Instruction*>& leaves) {
  if (!local->shape().IsTuple()) {
    leaves.push_back(local);
    return {};
  }
  for (int64_t k = 0; k < local->shape().tuple_size(); ++k) {
    TRY(AppendLeaves(b, TRY(ElementOf(b, local, k)), leaves));
  }
  return {};
}

}  // namespace

Status ComputationPartitioner::Bind(const Instruction& i, Instruction* local,
                                    std::span<const Form> forms, Leaves leaves) {
  std::vector<Instruction*> parts;
  Builder b = emitter_.builder();
  TRY(AppendLeaves(b, local, parts));
  for (size_t k = 0; k < leaves.size(); ++k) leaves[k].forms.emplace_back(forms[k], parts[k]);
  values_[&i] = std::move(leaves);
  return {};
}

Status ComputationPartitioner::EmitParameter(const Instruction& i) {
  std::vector<Form> forms;
  for (size_t k = 0; k < LeavesOf(i.shape()).size(); ++k) forms.push_back(program_.FormOf(&i, k));
  size_t at = 0;
  Instruction* local = Clone(i, LocalShapeOf(i.shape(), forms, at, mesh_), {});
  emitter_.SetLike(&i);
  TRY(Bind(i, local, forms));
  for (LocalValue& leaf : values_[&i]) {
    auto& [form, part] = leaf.forms[0];
    if (form.order.empty()) continue;
    Form in_place = form;
    in_place.order.clear();
    // Only the caller's order of devices is its own.
    if (entry_ && !form.IsReplicated()) {
      part = TRY(emitter_.Permute(part, OrderPairs(form, in_place, mesh_)));
    }
    form = in_place;
  }
  return {};
}

// Parts become summands without anything that moves: each at its place, zeroes elsewhere. Null: no
// form that is there is cut, beyond what is wanted, by axes of summands alone.
Result<Instruction*> ComputationPartitioner::GetPlaced(LocalValue& value, const Form& wanted) {
  const bool sums =
      wanted.reduction == hlo::ReductionKind::kNone || wanted.reduction == hlo::ReductionKind::kSum;
  if (wanted.unreduced == 0 || !sums || !HasZero(value.whole->dtype())) return nullptr;
  for (const auto& [have, part] : value.forms) {
    AxisSet placed = have.unreduced;
    bool fits = have.order.empty() && (have.unreduced & ~wanted.unreduced) == 0;
    for (size_t d = 0; fits && d < wanted.dims.size(); ++d) {
      const AxisList& own = have.dims[d].axes;
      const AxisList& to = wanted.dims[d].axes;
      fits = own.size() >= to.size() && std::ranges::equal(to, std::span(own).first(to.size()));
      for (size_t k = to.size(); fits && k < own.size(); ++k) placed |= BitOf(own[k]);
    }
    if (!fits || placed != wanted.unreduced || placed == have.unreduced) continue;
    Instruction* x = part;
    const Shape local = LocalShape(*value.whole, wanted, mesh_);
    for (size_t d = 0; d < wanted.dims.size(); ++d) {
      const AxisSpan more = std::span(have.dims[d].axes).subspan(wanted.dims[d].axes.size());
      if (more.empty()) continue;
      const int64_t dim = static_cast<int64_t>(d);
      // Padding is anything; it would be added to what others have there.
      if (value.whole->dim(dim) % mesh_.SizeOf(have.dims[d].axes) != 0) return nullptr;
      x = TRY(emitter_.Place(x, dim, local.dim(dim), more));
    }
    Form form = wanted;
    form.reduction = hlo::ReductionKind::kSum;
    value.forms.emplace_back(std::move(form), x);
    return x;
  }
  return nullptr;
}

// The value as `form` says, from the form it has that is nearest.
Result<Instruction*> ComputationPartitioner::Get(LocalValue& value, const Form& form) {
  if (!value.whole->IsArray()) return value.forms[0].second;
  Form wanted = form;
  wanted.order.clear();
  AxisSet summands = 0;
  for (const auto& [have, part] : value.forms) {
    if (have.SameAs(wanted)) return part;
    summands |= have.unreduced;
  }
  if (Instruction* placed = TRY(GetPlaced(value, wanted))) return placed;
  // No device but the first along an axis holds a summand that is not zero.
  const AxisSet zeroed = wanted.unreduced & ~summands;
  wanted.unreduced &= summands;
  const ReshardPlan* best = nullptr;
  size_t source = 0;
  std::vector<ReshardPlan> plans;
  for (const auto& [have, part] : value.forms) {
    plans.push_back(PlanReshard(*value.whole, have, wanted, mesh_, program_.link()));
  }
  for (size_t k = 0; k < plans.size(); ++k) {
    if (best != nullptr && best->seconds <= plans[k].seconds) continue;
    best = &plans[k];
    source = k;
  }
  const Form from = value.forms[source].first;
  Instruction* x =
      TRY(EmitReshard(emitter_, value.forms[source].second, *value.whole, from, *best));
  wanted.reduction = from.reduction;
  value.forms.emplace_back(wanted, x);
  if (zeroed == 0) return x;
  AxisList axes;
  for (int k = 0; k < static_cast<int>(mesh_.pieces.size()); ++k) {
    if ((zeroed & BitOf(k)) != 0) axes.push_back(k);
  }
  if (form.reduction == hlo::ReductionKind::kMax || form.reduction == hlo::ReductionKind::kMin) {
    wanted.unreduced |= zeroed;  // the same value on all devices is its own maximum
  } else {
    Instruction* index = TRY(emitter_.IndexAlong(axes));
    Builder b = emitter_.builder();
    Instruction* first =
        TRY(b.Compare(index, b.ScalarConstant(DType::kS32, 0), hlo::Direction::kEq));
    Instruction* zeroes = TRY(ZeroesOf(b, Shape(x->shape().dtype(), x->shape().dims())));
    x = TRY(b.Add(Op::kSelect,
                  {TRY(FillWith(b, first, Shape(DType::kPred, x->shape().dims()))), x, zeroes}));
    wanted.unreduced |= zeroed;
  }
  wanted.reduction = form.reduction;
  value.forms.emplace_back(wanted, x);
  return x;
}

Result<Instruction*> ComputationPartitioner::Build(const Shape& shape, std::span<LocalValue> leaves,
                                                   std::span<const Form> forms, size_t& at) {
  if (!shape.IsTuple()) {
    const Form& form = forms[at];
    Instruction* x = TRY(Get(leaves[at], form));
    ++at;
    if (form.order.empty() || form.IsReplicated() || !entry_) return x;
    Form in_place = form;
    in_place.order.clear();
    return emitter_.Permute(x, OrderPairs(in_place, form, mesh_));
  }
  std::vector<Instruction*> elements;
  for (const Shape& element : shape.elements_of_tuple()) {
    elements.push_back(TRY(Build(element, leaves, forms, at)));
  }
  return emitter_.builder().Tuple(elements);
}

Result<Instruction*> ComputationPartitioner::BuildAll(const Instruction* whole,
                                                      std::span<const Form> forms) {
  if (whole->op() == Op::kBroadcast) TRY(BroadcastAgain(*whole, forms[0]));
  size_t at = 0;
  return Build(whole->shape(), values_[whole], forms, at);
}

// Whether a run-time size may lie under a static shape: a reshape of dynamic dimensions keeps it,
// and so may what is made of its result.
bool ComputationPartitioner::MayHideSize(const Instruction& i) {
  bool hides = i.op() == Op::kReshape && i.operand(0)->shape().HasDynamicDims() &&
               !i.shape().HasDynamicDims();
  for (const Instruction* operand : i.operands()) hides = hides || hidden_sizes_.contains(operand);
  if (hides) hidden_sizes_.insert(&i);
  return hides;
}

Status ComputationPartitioner::EmitInstruction(const Instruction& i) {
  bool done = false;
  TRY(EmitStructure(i, done));
  if (done) return {};
  if (i.op() == Op::kWhile || i.op() == Op::kCall || i.op() == Op::kConditional) {
    return EmitCalls(i);
  }
  if (i.op() == Op::kConstant || i.op() == Op::kIota) return EmitSource(i);
  if (i.op() == Op::kCustomCall) return EmitCustomCall(i);
  if (i.op() == Op::kRngBitGenerator) return EmitRandomBits(i);
  TRY(CheckHasParts(i, program_.IsManual(&i)));
  return EmitOp(i);
}

Status ComputationPartitioner::EmitStructure(const Instruction& i, bool& done) {
  done = true;
  auto hand_on = [&](std::span<const LocalValue> from) {
    Leaves leaves = NewLeaves(i);
    for (size_t k = 0; k < leaves.size(); ++k) leaves[k].forms = from[k].forms;
    values_[&i] = std::move(leaves);
  };
  switch (i.op()) {
    case Op::kTuple: {
      Leaves all;
      for (const Instruction* operand : i.operands()) {
        const Leaves& leaves = values_[operand];
        all.insert(all.end(), leaves.begin(), leaves.end());
      }
      hand_on(all);
      return {};
    }
    case Op::kGetTupleElement: {
      size_t at = 0;
      for (int64_t k = 0; k < i.tuple_index(); ++k) {
        at += LeavesOf(i.operand(0)->shape().tuple_element(k)).size();
      }
      const Leaves tuple = values_[i.operand(0)];
      hand_on(std::span(tuple).subspan(at));
      return {};
    }
    case Op::kCopy:
    case Op::kDomain: hand_on(Leaves(values_[i.operand(0)])); return {};
    case Op::kOptBarrier: {
      const std::vector<Form> forms = program_.FormsOf(&i);
      Instruction* operand = TRY(BuildAll(i.operand(0), forms));
      return Bind(i, Clone(i, operand->shape(), std::span(&operand, 1)), forms);
    }
    default: break;
  }
  if (IsCallOf(i, kSharding)) {
    hand_on(Leaves(values_[i.operand(0)]));
    return {};
  }
  if (IsCallOf(i, kFullToShard) || IsCallOf(i, kShardToFull)) return EmitBoundary(i);
  done = false;
  return {};
}

Status ComputationPartitioner::EmitCalls(const Instruction& i) {
  const std::vector<Form> forms = program_.FormsOf(&i);
  std::vector<Instruction*> operands;
  std::vector<Computation*> callees;
  const auto called = i.called_computations();
  if (i.op() == Op::kWhile) {
    const auto& attrs = i.attrs<hlo::WhileAttrs>();
    operands.push_back(TRY(BuildAll(i.operand(0), forms)));
    const Form scalar = Form::Replicated(0);
    map_.computations[attrs.condition] =
        TRY(program_.Emit(*attrs.condition, std::span(&scalar, 1), &emitter_.into()));
    map_.computations[attrs.body] = TRY(program_.Emit(*attrs.body, forms, &emitter_.into()));
  } else {
    if (i.op() == Op::kConditional) {
      const Form scalar = Form::Replicated(0);
      operands.push_back(TRY(BuildAll(i.operand(0), std::span(&scalar, 1))));
    }
    for (size_t k = 0; k < called.size(); ++k) {
      for (const Instruction* parameter : called[k]->parameters()) {
        const Instruction* operand = i.operand(static_cast<int64_t>(operands.size()));
        operands.push_back(TRY(BuildAll(operand, program_.FormsOf(parameter))));
      }
      map_.computations[called[k]] = TRY(program_.Emit(*called[k], forms, &emitter_.into()));
    }
  }
  size_t at = 0;
  Instruction* local = Clone(i, LocalShapeOf(i.shape(), forms, at, mesh_), operands);
  return Bind(i, local, forms);
}

namespace {

// Along axes that are left to us, what goes in stays cut as it is: behind the manual axes.
void KeepAutomaticCuts(const Form& whole, const Form& by_hand, AxisSet manual, const Shape& local,
                       const DeviceMesh& mesh, Form& part) {
  for (size_t d = 0; d < part.dims.size(); ++d) {
    const AxisList& axes = whole.dims[d].axes;
    const AxisList& first = by_hand.dims[d].axes;
    if (!part.dims[d].axes.empty() || axes.size() <= first.size()) continue;
    if (!std::ranges::equal(first, AxisSpan(axes).first(first.size()))) continue;
    const AxisSpan rest = AxisSpan(axes).subspan(first.size());
    const bool ours =
        std::ranges::none_of(rest, [&](int axis) { return (manual & BitOf(axis)) != 0; });
    if (!ours || local.dim(static_cast<int64_t>(d)) % mesh.SizeOf(rest) != 0) continue;
    part.dims[d].axes = AxisList(rest);
  }
}

}  // namespace

// Into and out of manual computations nothing moves once the whole value lies as the boundary says:
// only the shape that the part is taken for changes.
Status ComputationPartitioner::EmitBoundary(const Instruction& i) {
  const AxisSet manual = TRY(ManualAxes(i, mesh_));
  const bool into = IsCallOf(i, kFullToShard);
  LocalValue& operand = values_[i.operand(0)][0];
  Form part = into ? program_.FormsOf(&i)[0] : operand.declared;
  const Shape& whole = into ? i.operand(0)->shape() : i.shape();
  const bool stated = i.FrontendAttributeValue("manual.axes") != nullptr || !into;
  Form cut = program_.FormOf(i.operand(0), 0);
  if (stated) {
    const hlo::Sharding* sharding = LeafSharding(i.sharding(), i.shape(), 0);
    if (sharding == nullptr) return InvalidArgument("no sharding at the edge of a manual region");
    cut = TRY(ReadForm(*sharding, whole, mesh_));
  }
  if (!cut.order.empty() && manual != mesh_.all()) {
    return Unimplemented(
        "a manual region of some axes whose devices stand in another order than the mesh's");
  }
  Form all = Form::Replicated(whole.rank());
  all.unreduced = cut.unreduced & manual;
  all.reduction = cut.reduction;
  for (size_t d = 0; d < all.dims.size(); ++d) {
    for (int axis : cut.dims[d].axes) {
      if ((manual & BitOf(axis)) != 0) all.dims[d].axes.push_back(axis);
    }
  }
  const Shape expected = LocalShape(whole, all, mesh_);
  const Shape& given = into ? i.shape() : i.operand(0)->shape();
  if (!Shape::SameDims(expected, given)) {
    return InvalidArgument("a manual region of ", given.ToStringWithoutLayout(), " where ",
                           whole.ToStringWithoutLayout(), " has parts ",
                           expected.ToStringWithoutLayout());
  }
  if (into) KeepAutomaticCuts(operand.declared, all, manual, given, mesh_, part);
  for (size_t d = 0; d < all.dims.size(); ++d) {
    const AxisList& rest = part.dims[d].axes;
    Append(all.dims[d].axes, rest);
  }
  Instruction* x = TRY(Get(operand, into ? all : part));
  if (!cut.order.empty() && !all.IsReplicated()) {  // as in the region, or as everywhere else
    Form theirs = all;
    theirs.order = cut.order;
    x = TRY(emitter_.Permute(x, OrderPairs(into ? all : theirs, into ? theirs : all, mesh_)));
  }
  return Bind(i, x, std::span(into ? &part : &all, 1));
}

}  // namespace weft::compiler::spmd
