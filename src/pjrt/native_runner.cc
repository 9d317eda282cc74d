#include "pjrt/native_runner.h"

#include <cstring>

#include "base/log.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/memory.h"
#include "hlo/evaluate.h"
#include "pjrt/client.h"
#include "pjrt/cost.h"
#include "pjrt/ffi.h"

namespace weft::pjrt {
namespace {

// Native code takes about a quarter of a nanosecond a unit of work; handing a task to another thread
// takes 5 to 50 us.
constexpr double kTinyNativeWork = 100'000;

}  // namespace

Result<std::unique_ptr<NativeRunner>> NativeRunner::Create(
    Client& client, const hlo::Module& module, const compiler::CompileOptions& options,
    bool tupled_arguments) {
  (void)tupled_arguments;  // a tuple's leaves are the program's parameters, as separate ones are
  runtime::Device* device = client.native_device();
  if (device == nullptr) return Unimplemented("this build has no native code");
  std::unique_ptr<NativeRunner> runner(new NativeRunner);
  compiler::Compiled compiled = TRY(compiler::Compile(module, options, device->target()));
  runner->module_ = std::move(compiled.module);
  runtime::LoadOptions load;
  load.cache = client.object_cache();
  runner->program_ = TRY(device->Load(std::move(compiled.program), load));
  runner->literals_ = std::make_unique<runtime::LiteralRunner>(*runner->program_);
  runner->cancel_ = &client.cancelled();
  for (const auto& computation : runner->module_->computations()) {
    for (const hlo::Instruction* i : *computation) {
      if (i->op() == hlo::Op::kCustomCall) runner->calls_[i->id()] = i;
    }
  }
  const hlo::Computation& entry = *module.entry();
  for (const hlo::Instruction* p : entry.parameters()) {
    compiler::ForEachLeaf(p->shape(), [&](const Shape& shape) {
      runner->parameter_is_token_.push_back(!shape.IsArray());
      runner->has_tokens_ |= !shape.IsArray();
    });
  }
  compiler::ForEachLeaf(entry.root()->shape(), [&](const Shape& shape) {
    runner->result_is_token_.push_back(!shape.IsArray());
    runner->has_tokens_ |= !shape.IsArray();
  });
  NativeRunner* self = runner.get();
  runner->call_ = [self](const program::Step& step, std::span<const std::span<std::byte>> memory) {
    return self->CallOut(step, memory);
  };
  EvaluatorRunnerOptions eval{.max_tensor_bytes = client.memory_limit(),
                              .cancel = &client.cancelled()};
  runner->eval_options_ = EvalOptionsFor(eval);
  runner->calls_out_ = CallsOut(module);
  runner->tiny_ = !runner->calls_out_ && EstimateWork(module) < kTinyNativeWork;
  return runner;
}

// A custom call: its operands and results lie in the program's buffers.
Status NativeRunner::CallOut(const program::Step& step,
                             std::span<const std::span<std::byte>> memory) const {
  const auto& library = std::get<program::LibraryStep>(step.op);
  int64_t id = -1;
  for (const program::Attr& attr : library.attrs) {
    if (attr.name == "id") id = std::get<int64_t>(attr.value);
  }
  auto found = calls_.find(id);
  if (found == calls_.end()) return Unimplemented("no native code for ", library.routine);
  const hlo::Instruction& call = *found->second;
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
  hlo::EvalContext context(*module_, eval_options_);
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

Result<std::vector<Literal>> NativeRunner::RunAlone(std::vector<Literal>& arguments) const {
  runtime::Call call;
  call.cancel = cancel_;
  call.call = &call_;
  if (!has_tokens_) return literals_->Run(arguments, call);
  std::vector<Literal> arrays;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!parameter_is_token_[i]) arrays.push_back(std::move(arguments[i]));
  }
  std::vector<Literal> results = TRY(literals_->Run(arrays, call)), all;
  size_t next = 0;
  for (bool token : result_is_token_) {
    all.push_back(token ? Literal(TokenStandIn()) : std::move(results[next++]));
  }
  return all;
}

Result<std::vector<std::vector<Literal>>> NativeRunner::Run(
    std::span<std::vector<Literal>> arguments) const {
  std::vector<std::vector<Literal>> results;
  for (std::vector<Literal>& of_device : arguments) results.push_back(TRY(RunAlone(of_device)));
  return results;
}

}  // namespace weft::pjrt
