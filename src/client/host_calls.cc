#include "client/host_calls.h"

#include <cstring>
#include <vector>

#include "base/literal.h"
#include "base/str.h"
#include "client/custom_calls.h"
#include "hlo/evaluate/custom_calls.h"
#include "program/library.h"

namespace weft::client {

HostCalls::HostCalls(const hlo::Module& module, const hlo::EvalOptions& options)
    : module_(module), options_(options) {}

HostCalls::~HostCalls() = default;

Result<std::unique_ptr<HostCalls>> HostCalls::Create(const hlo::Module& module,
                                                     const program::Program& program,
                                                     const hlo::EvalOptions& options) {
  std::unique_ptr<HostCalls> calls(new HostCalls(module, options));
  for (const auto& computation : module.computations()) {
    for (const hlo::Instruction* i : *computation) {
      if (i->op() == hlo::Op::kCustomCall) TRY(calls->Add(*i));
    }
  }
  calls->FindScratch(program);
  calls->hook_ = [self = calls.get()](const program::Step& step,
                                      std::span<const std::span<std::byte>> memory) {
    return self->Run(step, memory);
  };
  return calls;
}

Status HostCalls::Add(const hlo::Instruction& call) {
  CustomCall& made = calls_[call.id()];
  made.instruction = &call;
  const std::string& target = call.attrs<hlo::CustomCallAttrs>().custom_call_target;
  if (!hlo::IsKnownCustomCall(target) && HasForeignCall(target)) {
    made.foreign = TRY(PrepareForeignCall(call));
  }
  return {};
}

// Null: not a custom call.
const HostCalls::CustomCall* HostCalls::Find(const program::Step& step) const {
  auto* library = std::get_if<program::LibraryStep>(&step.op);
  if (library == nullptr) return nullptr;
  auto found = calls_.find(program::IntAttr(*library, "id", -1));
  return found == calls_.end() ? nullptr : &found->second;
}

void HostCalls::FindScratch(const program::Program& program) {
  program::ForEachStep(program.steps, [&](const program::Step& step) {
    const CustomCall* call = Find(step);
    if (call == nullptr) return;
    int64_t bytes = 0;
    if (call->foreign) {
      bytes = call->foreign->scratch_bytes();
    } else {
      // Operands and results are arrays of their own.
      for (const program::Use& use : step.uses) bytes += use.slice.size;
    }
    if (bytes > scratch_.bytes) scratch_ = {bytes, &step};
  });
}

// A custom call: its operands and results lie in the program's buffers.
Status HostCalls::Run(const program::Step& step,
                      std::span<const std::span<std::byte>> memory) const {
  const CustomCall* found = Find(step);
  if (found == nullptr) {
    return Unimplemented("no native code for ", std::get<program::LibraryStep>(step.op).routine);
  }
  if (found->foreign) return found->foreign->Run(memory);
  return Evaluate(*found->instruction, memory);
}

Status HostCalls::Evaluate(const hlo::Instruction& call,
                           std::span<const std::span<std::byte>> memory) const {
  std::vector<Literal> operands;
  size_t next = 0;
  // Tuples among the operands are put together from their leaves.
  std::function<Result<Literal>(const Shape&)> take = [&](const Shape& shape) -> Result<Literal> {
    if (shape.IsTuple()) {
      std::vector<Literal> elements;
      for (const Shape& element : shape.elements_of_tuple()) {
        elements.push_back(TRY(take(element)));
      }
      return Literal::Tuple(std::move(elements));
    }
    if (!shape.IsArray()) return Literal::Token();
    Literal value = TRY(Literal::AllocateUnset(shape));
    std::span<std::byte> from = memory[next++];
    if (!from.empty()) std::memcpy(value.mutable_data(), from.data(), from.size());
    return value;
  };
  for (const hlo::Instruction* operand : call.operands()) {
    operands.push_back(TRY(take(operand->shape())));
  }
  hlo::EvalContext context(module_, options_);
  Literal result = TRY(call.def().evaluate(context, call, operands));
  Status status;
  std::function<void(const Literal&)> put = [&](const Literal& value) {
    if (value.shape().IsTuple()) {
      for (const Literal& element : value.tuple()) put(element);
    } else if (value.shape().IsArray()) {
      std::span<std::byte> to = memory[next++];
      if (static_cast<int64_t>(to.size()) != value.byte_size()) {
        status = InvalidArgument("custom-call: ", call.name(), " gave ",
                                 value.shape().ToStringWithoutLayout());
      } else if (!to.empty()) {
        std::memcpy(to.data(), value.data(), to.size());
      }
    }
  };
  put(result);
  return status;
}

}  // namespace weft::client
