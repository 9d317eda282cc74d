// Loops, branches, calls, tuples, tokens, messages to the host.
#include "hlo/import/attr_values.h"
#include "hlo/import/to_hlo.h"

namespace weft::hlo::mlir {
namespace {

// The loop state is the operands and what the regions use of the scopes around them.
Status ConvertWhile(Converter& c, const Operation& op) {
  if (op.regions.size() != 2) return InvalidArgument("has ", op.regions.size(), " regions, not 2");
  std::vector<Instruction*> state = TRY(c.Operands(op));
  size_t carried = state.size();
  if (op.results.size() != carried) {
    return InvalidArgument("has ", carried, " operands and ", op.results.size(), " results");
  }
  for (const Region& region : op.regions) {
    if (region.blocks.size() == 1 && region.blocks[0].arguments.size() != carried) {
      return InvalidArgument("a region takes ", region.blocks[0].arguments.size(),
                             " arguments for ", carried, " operands");
    }
  }
  const Region* regions[] = {&op.regions[0], &op.regions[1]};
  std::vector<const Value*> captures = TRY(c.Captures(regions));
  for (const Value* capture : captures) state.push_back(TRY(c.Lookup(*capture)));
  WhileAttrs attrs;
  attrs.condition = TRY(c.RegionOfState(op, 0, "condition", captures));
  attrs.body = TRY(c.RegionOfState(op, 1, "body", captures));
  if (!captures.empty()) TRY(c.ReturnCaptures(attrs.body, carried, captures.size()));
  Instruction* initial = c.Pack(state);
  Instruction* loop = c.Emit(Op::kWhile, {initial}, attrs, initial->shape());
  if (state.size() == 1 && carried == 1) return c.Bind(op, loop);
  std::vector<Instruction*> results;
  for (size_t i = 0; i < carried; ++i) {
    results.push_back(state.size() == 1 ? loop : c.EmitElement(loop, static_cast<int64_t>(i)));
  }
  return c.BindEach(op, results);
}

// Each branch takes what it uses of the scopes around it.
Status ConvertBranches(Converter& c, const Operation& op, bool by_pred) {
  if (op.regions.empty()) return InvalidArgument("has no branches");
  std::vector<Instruction*> operands = {TRY(c.Operand(op, 0))};
  std::vector<Computation*> branches;
  for (size_t i = 0; i < op.regions.size(); ++i) {
    const Region* region = &op.regions[i];
    if (region->blocks.size() == 1 && !region->blocks[0].arguments.empty()) {
      return InvalidArgument("branch ", i, " takes arguments");
    }
    std::vector<const Value*> captures = TRY(c.Captures(std::span(&region, 1)));
    std::vector<Instruction*> values;
    for (const Value* capture : captures) values.push_back(TRY(c.Lookup(*capture)));
    branches.push_back(TRY(c.RegionOfState(op, i, "branch", captures)));
    operands.push_back(c.Pack(values));
  }
  ConditionalAttrs attrs;
  if (by_pred) {
    if (branches.size() != 2) return InvalidArgument("has ", branches.size(), " branches, not 2");
    attrs.true_computation = branches[0];
    attrs.false_computation = branches[1];
  } else {
    attrs.branch_computations = std::move(branches);
  }
  return c.Bind(op, c.Emit(Op::kConditional, operands, std::move(attrs), TRY(c.ResultShape(op))));
}

Status ConvertIf(Converter& c, const Operation& op) {
  return ConvertBranches(c, op, true);
}

Status ConvertCase(Converter& c, const Operation& op) {
  return ConvertBranches(c, op, false);
}

Status ConvertBarrier(Converter& c, const Operation& op) {
  std::vector<Instruction*> operands = TRY(c.Operands(op));
  if (operands.empty()) return {};
  Instruction* all = c.Pack(operands);
  return c.Bind(op, c.Emit(Op::kOptBarrier, {all}, NoAttrs{}, all->shape()));
}

Status ConvertGetTupleElement(Converter& c, const Operation& op) {
  Instruction* tuple = TRY(c.Operand(op, 0));
  int64_t index = TRY(RequiredInt(op, "index"));
  if (!tuple->shape().IsTuple() || index < 0 || index >= tuple->shape().tuple_size()) {
    return InvalidArgument("there is no element ", index, " in ",
                           tuple->shape().ToStringWithoutLayout());
  }
  return c.Bind(op, c.EmitElement(tuple, index));
}

Status ConvertInfeed(Converter& c, const Operation& op) {
  Instruction* token = TRY(c.Operand(op, 0));
  if (op.results.empty()) return InvalidArgument("has no results");
  std::vector<Shape> data;
  for (size_t i = 0; i + 1 < op.results.size(); ++i) {
    data.push_back(TRY(c.ShapeOf(op.results[i]->type)));
  }
  Shape shape = Shape::Tuple({Shape::Tuple(std::move(data)), Shape::Token()});
  InfeedAttrs attrs{.infeed_config = std::string(TextAttr(op, "infeed_config"))};
  Instruction* infeed = c.Emit(Op::kInfeed, {token}, std::move(attrs), std::move(shape));
  Instruction* values = c.EmitElement(infeed, 0);
  std::vector<Instruction*> results;
  for (size_t i = 0; i + 1 < op.results.size(); ++i) {
    results.push_back(c.EmitElement(values, static_cast<int64_t>(i)));
  }
  results.push_back(c.EmitElement(infeed, 1));
  return c.BindEach(op, results);
}

Status ConvertOutfeed(Converter& c, const Operation& op) {
  std::vector<Instruction*> operands = TRY(c.Operands(op));
  if (operands.empty()) return InvalidArgument("has no token");
  Instruction* token = operands.back();
  operands.pop_back();
  Instruction* data = c.EmitTuple(operands);
  OutfeedAttrs attrs{.outfeed_shape = data->shape(),
                     .outfeed_config = std::string(TextAttr(op, "outfeed_config"))};
  return c.Bind(op, c.Emit(Op::kOutfeed, {data, token}, std::move(attrs), Shape::Token()));
}

Result<ChannelAttrs> ChannelOf(const Operation& op) {
  ChannelAttrs attrs;
  attrs.channel_id = TRY(IntAttr(op, "channel_id", 0));
  attrs.is_host_transfer = BoolAttr(op, "is_host_transfer");
  return attrs;
}

// Pairs between devices, where HLO keeps them.
Status SetPairs(const Operation& op, Instruction* instruction) {
  std::vector<Ints> pairs = TRY(IntRowsAttr(op, "source_target_pairs"));
  if (pairs.empty()) return {};
  std::string text = "{";
  for (const Ints& pair : pairs) {
    if (pair.size() != 2) return InvalidArgument("source_target_pairs is not pairs");
    StrAppend(text, text.size() > 1 ? "," : "", "{", pair[0], ",", pair[1], "}");
  }
  text += "}";
  instruction->mutable_extras().frontend_attributes.push_back(
      {"_xla_send_recv_source_target_pairs", std::move(text)});
  return {};
}

Shape InFlight(Shape data) {
  return Shape::Tuple({std::move(data), Shape::Scalar(DType::kU32), Shape::Token()});
}

Status ConvertSend(Converter& c, const Operation& op) {
  std::vector<Instruction*> operands = TRY(c.Operands(op));
  if (operands.empty()) return InvalidArgument("has no token");
  Instruction* token = operands.back();
  operands.pop_back();
  Instruction* data = c.Pack(operands);
  ChannelAttrs attrs = TRY(ChannelOf(op));
  Instruction* send = c.Emit(Op::kSend, {data, token}, attrs, InFlight(data->shape()));
  TRY(SetPairs(op, send));
  return c.Bind(op, c.Emit(Op::kSendDone, {send}, attrs, Shape::Token()));
}

Status ConvertRecv(Converter& c, const Operation& op) {
  Instruction* token = TRY(c.Operand(op, 0));
  if (op.results.empty()) return InvalidArgument("has no results");
  std::vector<Shape> shapes;
  for (size_t i = 0; i + 1 < op.results.size(); ++i) {
    shapes.push_back(TRY(c.ShapeOf(op.results[i]->type)));
  }
  bool one = shapes.size() == 1;
  Shape data = one ? shapes[0] : Shape::Tuple(std::move(shapes));
  ChannelAttrs attrs = TRY(ChannelOf(op));
  Instruction* recv = c.Emit(Op::kRecv, {token}, attrs, InFlight(data));
  TRY(SetPairs(op, recv));
  Instruction* done =
      c.Emit(Op::kRecvDone, {recv}, attrs, Shape::Tuple({std::move(data), Shape::Token()}));
  Instruction* values = c.EmitElement(done, 0);
  std::vector<Instruction*> results;
  for (size_t i = 0; i + 1 < op.results.size(); ++i) {
    results.push_back(one ? values : c.EmitElement(values, static_cast<int64_t>(i)));
  }
  results.push_back(c.EmitElement(done, 1));
  return c.BindEach(op, results);
}

// The region is called; a region of one collective or slice is XLA's way to say which.
Status ConvertAsyncStart(Converter& c, const Operation& op) {
  std::vector<Instruction*> operands = TRY(c.Operands(op));
  AsyncAttrs attrs;
  attrs.calls = TRY(c.RegionFunction(op, 0, "async"));
  std::vector<Shape> shapes;
  for (const Instruction* operand : operands) shapes.push_back(operand->shape());
  Shape shape = Shape::Tuple({Shape::Tuple(std::move(shapes)), attrs.calls->root()->shape()});
  return c.Bind(op, c.Emit(Op::kAsyncStart, operands, std::move(attrs), std::move(shape)));
}

Status ConvertAsyncDone(Converter& c, const Operation& op) {
  Instruction* start = TRY(c.Operand(op, 0));
  if (start->op() != Op::kAsyncStart) {
    return Unimplemented("its operand must be an async_start of the same region");
  }
  AsyncAttrs attrs;
  attrs.calls = start->attrs<AsyncAttrs>().calls;
  return c.Bind(op, c.Emit(Op::kAsyncDone, {start}, std::move(attrs), TRY(c.ResultShape(op))));
}

constexpr HandlerRow kControlRows[] = {
    {"after_all", Plain<Op::kAfterAll>},
    {"async_done", ConvertAsyncDone},
    {"async_start", ConvertAsyncStart},
    {"case", ConvertCase},
    {"create_token", Plain<Op::kAfterAll>},
    {"get_tuple_element", ConvertGetTupleElement},
    {"if", ConvertIf},
    {"infeed", ConvertInfeed},
    {"optimization_barrier", ConvertBarrier},
    {"outfeed", ConvertOutfeed},
    {"recv", ConvertRecv},
    {"send", ConvertSend},
    {"tuple", Plain<Op::kTuple>},
    {"while", ConvertWhile},
};

}  // namespace

// Adds the captured part of the parameter to the root.
Status Converter::ReturnCaptures(Computation* body, size_t carried, size_t captured) {
  Scope scope;
  scope.computation = body;
  Scope* outer = std::exchange(scope_, &scope);
  Instruction* state = body->parameter(0);
  Instruction* root = body->root();
  std::vector<Instruction*> elements;
  if (carried == 1) {
    elements.push_back(root);
  } else {
    if (root->op() != Op::kTuple || root->operand_count() != static_cast<int64_t>(carried)) {
      return InvalidArgument("the body returns ", root->shape().ToStringWithoutLayout(), " for ",
                             carried, " operands");
    }
    elements.assign(root->operands().begin(), root->operands().end());
  }
  for (size_t i = 0; i < captured; ++i) {
    bool whole = carried + captured == 1;
    elements.push_back(whole ? state : EmitElement(state, static_cast<int64_t>(carried + i)));
  }
  body->set_root(Pack(elements));
  if (carried != 1) body->Remove(root);
  scope_ = outer;
  return {};
}

std::span<const HandlerRow> ControlHandlers() {
  return kControlRows;
}

}  // namespace weft::hlo::mlir
