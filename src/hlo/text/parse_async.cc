// Async ops. `X-start(...)` stands for async-start of a computation that is one X.
#include "hlo/text/parse_pending.h"
#include "hlo/text/parser.h"
#include "hlo/text/printer.h"

namespace weft::hlo::text {

Status Parser::ReadAsync(Pending& p) {
  std::string_view op = Mnemonic(p.op);
  if (!p.has_shape) return FailAt(p.op_at, op, ": the result shape has to be written");
  if (p.op != Op::kAsyncDone &&
      (!p.shape.IsTuple() || p.shape.tuple_size() < 2 || !p.shape.tuple_element(0).IsTuple())) {
    return FailAt(p.op_at, op, ": the shape is ((operands), result, ...), not ",
                  p.shape.ToStringWithoutLayout());
  }
  if (p.op == Op::kAsyncStart) {
    if (p.wrapped) {
      TRY(WrapAsync(p));
    } else {
      TRY(ReadAttributes(p.op, p.attrs, nullptr, p.common, p.op_at, p.allow_attributes));
      if (p.attrs.As<AsyncAttrs>().calls == nullptr) {
        return FailAt(p.op_at, "async-start: attribute calls is missing");
      }
    }
  } else {
    if (p.operands.empty()) return FailAt(p.op_at, op, ": takes an operand");
    if (p.op == Op::kAsyncDone && p.operands.size() != 1) {
      return FailAt(p.op_at, op, ": takes 1 operand, got ", p.operands.size());
    }
    if (p.operands[0]->op() == Op::kAsyncDone) {
      return FailAt(p.op_at, op, ": the operand ", p.operands[0]->name(), " is an async-done");
    }
    TRY(ReadAttributes(p.op, p.attrs, nullptr, p.common, p.op_at, p.allow_attributes));
    TRY(InheritAsync(p));
  }
  if (Computation* calls = p.attrs.As<AsyncAttrs>().calls) async_computations_.insert(calls);
  return {};
}

Status Parser::WrapAsync(Pending& p) {
  Op op = *p.wrapped;
  Attrs inner(GetOp(op).attrs);
  TRY(ReadAttributes(op, inner, &p.attrs, p.common, p.op_at, p.allow_attributes));
  const std::vector<Shape>& parameters = p.shape.tuple_element(0).elements_of_tuple();
  int64_t count = static_cast<int64_t>(parameters.size());
  if (Arity(op) >= 0 && Arity(op) != count) {
    return FailAt(p.op_at, Mnemonic(op), ": takes ", Arity(op),
                  " operands, the shape of the async "
                  "op has ",
                  count);
  }
  Computation* computation = module_->AddComputation("", scope_->computation);
  std::vector<Instruction*> operands;
  for (int64_t i = 0; i < count; ++i) {
    operands.push_back(computation->Add(Op::kParameter, StrCat("param_", i),
                                        parameters[static_cast<size_t>(i)], {},
                                        Attrs(ParameterAttrs{.number = i})));
  }
  Instruction* root = computation->Add(op, std::string(Mnemonic(op)), p.shape.tuple_element(1),
                                       operands, std::move(inner));
  computation->set_root(root);
  AsyncAttrs& attrs = p.attrs.Mutable<AsyncAttrs>();
  attrs.calls = computation;
  if (!attrs.async_execution_thread.empty() && attrs.async_execution_thread != "main") {
    computation->set_execution_thread(attrs.async_execution_thread);
  }
  // What is said about the async op holds for the op inside.
  CommonAttrs copy;
  copy.has_metadata = p.common.has_metadata;
  copy.metadata = p.common.metadata;
  copy.has_extras = p.common.has_extras;
  copy.extras.frontend_attributes = p.common.extras.frontend_attributes;
  copy.extras.backend_config = p.common.extras.backend_config;
  copy.extras.statistics = p.common.extras.statistics;
  copy.extras.origin = p.common.extras.origin;
  ApplyCommon(std::move(copy), root);
  unnamed_computations_.emplace_back(computation,
                                     StrCat(p.name.empty() ? Mnemonic(op) : p.name, ".wrapped"));
  return {};
}

// async-update and async-done take what the start says; they may repeat it.
Status Parser::InheritAsync(Pending& p) {
  std::string_view op = Mnemonic(p.op);
  const Instruction* producer = FindAsyncProducer(p.operands[0]);
  if (producer == nullptr || producer->op() == Op::kAsyncDone) return {};
  const AsyncAttrs& from = producer->attrs<AsyncAttrs>();
  const AsyncAttrs& written = p.attrs.As<AsyncAttrs>();
  if (from.calls == nullptr) return {};
  if (written.calls != nullptr && written.calls != from.calls) {
    return FailAt(p.op_at, op, ": calls ", written.calls->name(), ", but ", producer->name(),
                  " calls ", from.calls->name());
  }
  if (p.wrapped && from.calls->root()->op() != *p.wrapped) {
    return FailAt(p.op_at, op, " of ", Mnemonic(*p.wrapped), ", but ", producer->name(), " wraps ",
                  Mnemonic(from.calls->root()->op()));
  }
  if (!written.async_execution_thread.empty() &&
      written.async_execution_thread != from.async_execution_thread &&
      !(written.async_execution_thread == "main" && from.async_execution_thread.empty())) {
    return FailAt(p.op_at, op, ": async_execution_thread is ", written.async_execution_thread,
                  ", that of ", producer->name(), " is ", from.async_execution_thread);
  }
  AsyncAttrs& attrs = p.attrs.Mutable<AsyncAttrs>();
  attrs.calls = from.calls;
  attrs.async_execution_thread = from.async_execution_thread;
  return {};
}

}  // namespace weft::hlo::text
