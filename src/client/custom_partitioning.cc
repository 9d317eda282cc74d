#include "client/custom_partitioning.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/str.h"
#include "client/custom_calls.h"
#include "client/shards.h"
#include "compiler/passes/collectives/fresh_ids.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "hlo/import/import.h"
#include "hlo/text.h"

namespace weft::client {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

constexpr std::string_view kCustomPartitioning = "CustomSPMDPartitioning", kAskId = "weft:";

std::vector<const Shape*> ResultShapes(const Instruction& call) {
  std::vector<const Shape*> shapes;
  if (!call.shape().IsTuple()) return {&call.shape()};
  for (const Shape& element : call.shape().elements_of_tuple()) shapes.push_back(&element);
  return shapes;
}

// How a value lies, as OpSharding in hexadecimal digits.
Status AppendSharding(const hlo::Sharding* sharding, const Shape& shape, int64_t devices,
                      std::string& text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const Shards shards = TRY(Shards::Of(sharding, shape, devices));
  for (char c : SerializeSharding(shards)) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  text += '\n';
  return {};
}

// Operands and results, a line each.
Result<std::string> QuestionOf(const Instruction& call, int64_t devices) {
  std::string text;
  for (const Instruction* operand : call.operands()) {
    TRY(AppendSharding(operand->sharding(), operand->shape(), devices, text));
  }
  const std::vector<const Shape*> results = ResultShapes(call);
  for (size_t k = 0; k < results.size(); ++k) {
    const hlo::Sharding* sharding = call.sharding();
    if (sharding != nullptr && sharding->kind == hlo::Sharding::Kind::kTuple) {
      sharding = k < sharding->elements.size() ? &sharding->elements[k] : nullptr;
    }
    TRY(AppendSharding(sharding, *results[k], devices, text));
  }
  return text;
}

struct Answer {
  std::vector<hlo::Sharding> operands, results;
  std::unique_ptr<hlo::Module> part;
};

// A line for each sharding, an empty one, then the program of one device.
Result<Answer> ReadAnswer(const Instruction& call, std::string text) {
  Answer answer;
  size_t at = 0;
  const size_t operands = static_cast<size_t>(call.operand_count());
  const size_t all = operands + ResultShapes(call).size();
  for (size_t k = 0; k <= all; ++k) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) return InvalidArgument("the answer has ", k, " lines");
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (k == all) break;
    (k < operands ? answer.operands : answer.results).push_back(TRY(hlo::ParseSharding(line)));
  }
  answer.part = TRY(hlo::ReadModule(text.substr(at)));
  if (answer.part->entry()->parameters().size() != operands) {
    return InvalidArgument("the program of one device takes ",
                           answer.part->entry()->parameters().size(), " arguments, expected ",
                           operands);
  }
  return answer;
}

// The computations of the part, before the one that calls it; its entry.
Computation* CopyPart(const hlo::Module& part, Computation& caller) {
  hlo::Module& module = *caller.module();
  compiler::FreshIds ids(module);
  hlo::CloneMap map;
  Computation* entry = nullptr;
  for (const auto& computation : part.computations()) {
    entry = hlo::CloneComputation(*computation, module, map,
                                  StrCat("custom_partitioning.", computation->name()), &caller);
    for (Instruction* i : *entry) ids.Rename(*i);
    if (computation.get() == part.entry()) break;
  }
  return entry;
}

Result<Instruction*> Annotate(hlo::Builder& b, std::string_view target, Instruction* operand,
                              const Shape& shape, hlo::Sharding sharding) {
  hlo::CustomCallAttrs attrs;
  attrs.custom_call_target = target;
  Instruction* call =
      TRY(b.Add(Op::kCustomCall, std::span(&operand, 1), hlo::Attrs(std::move(attrs)), &shape));
  call->mutable_extras().sharding.Make() = std::move(sharding);
  return call;
}

Status ReplaceByPart(Instruction* call, Answer answer) {
  Computation* entry = CopyPart(*answer.part, *call->parent());
  hlo::Builder b(*call->parent(), call, call);
  hlo::Sharding manual;
  manual.kind = hlo::Sharding::Kind::kManual;
  std::vector<Instruction*> parts, wholes;
  for (size_t k = 0; k < answer.operands.size(); ++k) {
    Instruction* operand = call->operand(static_cast<int64_t>(k));
    operand =
        TRY(Annotate(b, "Sharding", operand, operand->shape(), std::move(answer.operands[k])));
    const Shape& local = entry->parameter(static_cast<int64_t>(k))->shape();
    parts.push_back(TRY(Annotate(b, "SPMDFullToShardShape", operand, local, manual)));
  }
  hlo::CallAttrs attrs;
  attrs.to_apply = entry;
  Instruction* made =
      TRY(b.Add(Op::kCall, parts, hlo::Attrs(std::move(attrs)), &entry->root()->shape()));
  const std::vector<const Shape*> shapes = ResultShapes(*call);
  for (size_t k = 0; k < shapes.size(); ++k) {
    Instruction* part = made;
    if (made->shape().IsTuple()) part = TRY(b.GetTupleElement(made, static_cast<int64_t>(k)));
    wholes.push_back(
        TRY(Annotate(b, "SPMDShardToFullShape", part, *shapes[k], std::move(answer.results[k]))));
  }
  Instruction* result =
      wholes.size() == 1 && !call->shape().IsTuple() ? wholes[0] : TRY(b.Tuple(wholes));
  // What the program gives lies as was asked for, whatever the part does.
  if (call->IsRoot() && call->sharding() != nullptr && !result->shape().IsTuple()) {
    result = TRY(Annotate(b, "Sharding", result, result->shape(), *call->sharding()));
  }
  call->ReplaceAllUsesWith(result);
  call->parent()->Remove(call);
  return {};
}

Status SplitOne(Instruction* call, int64_t devices) {
  const std::optional<int64_t> id = ParseInt(BackendConfig(*call).substr(kAskId.size()));
  if (!id) return InvalidArgument("nobody is there to make the part of one device");
  std::string answer =
      TRY(AskFramework(static_cast<uint64_t>(*id), TRY(QuestionOf(*call, devices))));
  return ReplaceByPart(call, TRY(ReadAnswer(*call, std::move(answer))));
}

}  // namespace

bool IsCustomPartitioning(const Instruction& call) {
  return call.op() == Op::kCustomCall &&
         call.attrs<hlo::CustomCallAttrs>().custom_call_target == kCustomPartitioning &&
         BackendConfig(call).starts_with(kAskId);
}

Result<bool> SplitCustomPartitioning(hlo::Module& module, int64_t devices) {
  std::vector<Instruction*> calls;
  for (const auto& computation : module.computations()) {
    for (Instruction* i : *computation) {
      if (IsCustomPartitioning(*i)) calls.push_back(i);
    }
  }
  for (Instruction* call : calls) {
    const std::string where = call->SourceLocation();
    Status split = SplitOne(call, devices);
    if (split) continue;
    Error error(Code::kInvalidArgument, StrCat("custom_partitioning: ", split.error().message()));
    if (!where.empty()) error.Source(where);
    return std::unexpected(std::move(error));
  }
  return !calls.empty();
}

}  // namespace weft::client
