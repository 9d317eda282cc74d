// Custom calls: who does them, and their operands and results as literals.
#include "client/custom_calls.h"

#include <atomic>
#include <string>

#include "client/custom_partitioning.h"
#include "hlo/attrs.h"
#include "hlo/computation.h"
#include "hlo/evaluate/custom_calls.h"

namespace weft::client {
namespace {

std::atomic<const ForeignCalls*>& Registered() {
  static constinit std::atomic<const ForeignCalls*> calls = nullptr;
  return calls;
}

bool IsCallback(const hlo::Instruction& instruction) {
  return instruction.op() == hlo::Op::kCustomCall &&
         instruction.attrs<hlo::CustomCallAttrs>().custom_call_target == kCallbackTarget;
}

}  // namespace

void SetForeignCalls(const ForeignCalls* calls) {
  Registered() = calls;
}

bool HasForeignCall(std::string_view target) {
  const ForeignCalls* calls = Registered();
  return calls != nullptr && calls->Has(target);
}

Result<std::unique_ptr<ForeignCall>> PrepareForeignCall(const hlo::Instruction& call) {
  if (const ForeignCalls* calls = Registered()) return calls->Prepare(call);
  return std::unexpected(NoForeignCall(call.attrs<hlo::CustomCallAttrs>().custom_call_target));
}

bool IsPartitionedCallback(const hlo::Instruction& instruction) {
  const ForeignCalls* calls = Registered();
  return calls != nullptr && IsCallback(instruction) && calls->IsPartitioned(instruction);
}

Status TellFramework(uint64_t id, std::string_view bytes) {
  const ForeignCalls* calls = Registered();
  return calls == nullptr ? Status() : calls->Tell(id, bytes);  // null: nobody is there to be told
}

Result<std::string> AskFramework(uint64_t id, std::string_view bytes) {
  const ForeignCalls* calls = Registered();
  if (calls == nullptr) return FailedPrecondition("nobody is there to be asked");
  return calls->Ask(id, bytes);
}

void CollectLeaves(Literal& value, std::vector<Literal*>& leaves) {
  if (!value.shape().IsTuple()) {
    leaves.push_back(&value);
    return;
  }
  for (Literal& element : value.mutable_tuple()) CollectLeaves(element, leaves);
}

Result<Literal> AllocateResult(const Shape& shape) {
  if (shape.IsTuple()) {
    std::vector<Literal> elements;
    for (const Shape& element : shape.elements_of_tuple()) {
      elements.push_back(TRY(AllocateResult(element)));
    }
    return Literal::Tuple(std::move(elements));
  }
  if (shape.IsToken()) return Literal::Token();
  Shape plain = shape;
  plain.ClearLayout();
  return Literal::Allocate(std::move(plain));
}

std::string_view BackendConfig(const hlo::Instruction& call) {
  return call.extras() == nullptr ? std::string_view() : call.extras()->backend_config.text;
}

Error NoForeignCall(std::string_view name) {
  Error error(Code::kUnimplemented, StrCat("custom-call: no target ", name, " is registered"));
  error.Hint(StrCat("jax.ffi.register_ffi_target(\"", name, "\", ..., platform=\"weft\")"));
  return error;
}

Status CheckCustomCall(const hlo::Instruction& call) {
  const auto& attrs = call.attrs<hlo::CustomCallAttrs>();
  const std::string& name = attrs.custom_call_target;
  if (IsCustomPartitioning(call)) return {};
  if (name == kCallbackTarget || hlo::IsKnownCustomCall(name) || HasForeignCall(name)) return {};
  if (call.users().empty() && !call.IsRoot() && !attrs.custom_call_has_side_effect) return {};
  Error error = NoForeignCall(name);
  error.Note(StrCat("in ", call.ToString()));
  if (std::string where = call.SourceLocation(); !where.empty()) error.Source(std::move(where));
  return std::unexpected(std::move(error));
}

Result<Literal> RunCustomCall(const hlo::Instruction& call, std::span<Literal> operands) {
  if (IsCallback(call)) {
    if (const ForeignCalls* calls = Registered()) return calls->CallBack(call, operands);
    return FailedPrecondition("host callback: nobody is there to run it");
  }
  std::unique_ptr<ForeignCall> prepared = TRY(PrepareForeignCall(call));
  Literal result = TRY(AllocateResult(call.shape()));
  std::vector<Literal*> leaves;
  for (Literal& operand : operands) CollectLeaves(operand, leaves);
  const size_t operand_leaves = leaves.size();
  CollectLeaves(result, leaves);
  std::vector<std::span<std::byte>> memory;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i]->shape().IsArray()) continue;
    std::byte* data =
        i < operand_leaves ? const_cast<std::byte*>(leaves[i]->data()) : leaves[i]->mutable_data();
    memory.emplace_back(data, static_cast<size_t>(leaves[i]->byte_size()));
  }
  TRY(prepared->Run(memory));
  return result;
}

// Whether a custom call of the module has a target for which `matches` holds.
template <class Matches>
static bool AnyTarget(const hlo::Module& module, const Matches& matches) {
  for (const auto& computation : module.computations()) {
    for (const hlo::Instruction* instruction : *computation) {
      if (instruction->op() == hlo::Op::kCustomCall &&
          matches(instruction->attrs<hlo::CustomCallAttrs>().custom_call_target)) {
        return true;
      }
    }
  }
  return false;
}

bool CallsBack(const hlo::Module& module) {
  return AnyTarget(module, [](const std::string& name) { return name == kCallbackTarget; });
}

bool CallsOut(const hlo::Module& module) {
  return AnyTarget(module, [](const std::string& name) {
    return name == kCallbackTarget || HasForeignCall(name);
  });
}

bool CallsOutBeyondLapack(const hlo::Module& module) {
  return AnyTarget(module, [](const std::string& name) {
    return name == kCallbackTarget || (!name.starts_with(kLapackPrefix) && HasForeignCall(name));
  });
}

}  // namespace weft::client
