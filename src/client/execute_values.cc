#include "client/execute_values.h"

#include <cstring>
#include <utility>

#include "client/client.h"
#include "client/executor.h"
#include "runtime/buffers.h"

namespace weft::client {
namespace {

constexpr size_t kShownBuffers = 10;  // when memory is short
// The argument as the program gets it: the sole holder of its bytes where it was donated and nobody
// else reads them, so that they may be overwritten. For a token any buffer will do.
Literal TakeArgument(ArrayRef& array, const Shape& parameter, bool donated) {
  if (parameter.IsToken()) return Literal::Token();
  Literal value = array->value;
  if (donated && !IsReadOnlyHostMemory(value)) array.reset();
  return value;
}

// An array of its own for an output that shares its bytes with an argument, a constant or another
// output.
Result<Literal> OwnBytes(Literal value, size_t device, size_t output, MemoryOfOutput memory_of) {
  if (value.storage() == nullptr || value.OwnsStorage()) return value;
  Literal copy = TRY(AllocateLike(memory_of(device, output), value));
  if (copy.byte_size() > 0) {
    std::memcpy(copy.mutable_data(), value.data(), static_cast<size_t>(copy.byte_size()));
  }
  if (value.HasDynamicSizes()) {
    for (int64_t d = 0; d < value.shape().rank(); ++d) {
      if (value.shape().is_dynamic(d)) copy.set_dynamic_size(d, value.dynamic_size(d));
    }
  }
  return copy;
}

// The donated arguments of one device whose place an output takes, held while the program runs. Of
// larger ones that is up to the runner, which may write where nobody else holds the bytes.
constexpr int64_t kLargestHeld = 16 << 10;

std::vector<Literal> HoldDonated(const Executable& executable, std::span<const Literal> arguments,
                                 const std::vector<bool>& donated) {
  std::vector<Literal> held;
  if (donated.empty()) return held;
  const std::vector<int64_t>& aliases = executable.aliases();
  for (size_t k = 0; k < aliases.size(); ++k) {
    size_t i = static_cast<size_t>(aliases[k]);
    if (aliases[k] < 0 || !donated[i] || arguments[i].storage() == nullptr ||
        arguments[i].byte_size() > kLargestHeld || IsReadOnlyHostMemory(arguments[i])) {
      continue;
    }
    held.resize(aliases.size());
    held[k] = arguments[i];
  }
  return held;
}

// Moves outputs that were computed elsewhere into the arguments held for them, where nobody else
// holds those.
void FillDonated(std::vector<Literal> held, std::span<Literal> outputs) {
  for (size_t k = 0; k < held.size() && k < outputs.size(); ++k) {
    std::shared_ptr<std::byte[]> place = held[k].TakeStorage();
    Literal& value = outputs[k];
    if (place == nullptr || value.storage() == nullptr || value.HasDynamicSizes() ||
        value.storage() == place || !IsSoleOwner(place) ||
        value.byte_size() != held[k].byte_size()) {
      continue;
    }
    std::memcpy(place.get(), value.data(), static_cast<size_t>(value.byte_size()));
    value.PutStorage(std::move(place));
  }
}

Status CheckOutputs(const Executable& executable, std::span<const Literal> values) {
  const std::vector<OutputInfo>& outputs = executable.outputs();
  bool same = outputs.size() == values.size();
  for (size_t i = 0; same && i < values.size(); ++i) {
    same = values[i].dtype() == outputs[i].shape.dtype() &&
           Shape::SameDims(values[i].shape(), outputs[i].shape);
  }
  if (same) return {};
  return MakeError(Code::kInternal, "execute ", executable.name(),
                   ": the results are not of the shapes that were promised");
}

// The instruction with the largest array; null when there is none.
const hlo::Instruction* LargestValue(const hlo::Module& module) {
  const hlo::Instruction* largest = nullptr;
  int64_t bytes = 0;
  for (const auto& computation : module.computations()) {
    for (const hlo::Instruction* instruction : *computation) {
      if (!instruction->shape().IsArray() || instruction->shape().ByteSize() <= bytes) continue;
      largest = instruction;
      bytes = instruction->shape().ByteSize();
    }
  }
  return largest;
}

Status CheckProgramMemory(const Executable& executable, const Client& client, size_t devices) {
  const MemoryAnalysis& memory = executable.memory();
  int64_t more = memory.output_bytes - memory.alias_bytes + memory.temp_bytes;
  if (__builtin_mul_overflow(more, static_cast<int64_t>(devices), &more)) more = INT64_MAX;
  Status fits = client.CheckMemory(more);
  if (fits) return {};
  fits.error().Prefix(StrCat("execute ", executable.name(), ": "));
  fits.error().Note(StrCat("arguments ", runtime::HumanBytes(memory.argument_bytes), ", results ",
                           runtime::HumanBytes(memory.output_bytes), " (",
                           runtime::HumanBytes(memory.alias_bytes), " in donated arguments), ",
                           "temporaries ", runtime::HumanBytes(memory.temp_bytes)));
  fits.error().Note("the largest buffers:");
  const Runner& runner = executable.runner();
  for (std::string& line :
       runtime::LargestBuffers(*runner.program(), kShownBuffers, runner.scratch())) {
    fits.error().Note("  " + line);
  }
  return fits;
}

// What is temporary is an estimate from above: it is refused where it could not fit even alone.
Status CheckEstimatedMemory(const Executable& executable, const Client& client) {
  int64_t results = executable.output_bytes(), bytes = 0;
  int64_t temporary = executable.memory().temp_bytes;
  if (Status fits = client.CheckMemory(results); !fits) {
    fits.error().Prefix(StrCat("results of ", executable.name(), ": "));
    return fits;
  }
  if (!__builtin_add_overflow(results, temporary, &bytes) && bytes <= client.memory_limit()) {
    return {};
  }
  Error error(Code::kResourceExhausted,
              StrCat("execute ", executable.name(), ": out of memory: results of ",
                     runtime::HumanBytes(results), " and temporary values of ",
                     runtime::HumanBytes(temporary), " do not fit into ",
                     runtime::HumanBytes(client.memory_limit())));
  if (const hlo::Instruction* largest = LargestValue(executable.module())) {
    error.Note(StrCat("the largest is ", largest->ToString()));
    error.Source(largest->SourceLocation());
  }
  return std::unexpected(std::move(error));
}

// What all devices bring, in the order of `arrays`: those of the first one first.
Result<std::vector<std::vector<Literal>>> TakeArguments(const Executable& executable,
                                                        std::vector<ArrayRef>& arrays,
                                                        const std::vector<bool>& donated,
                                                        size_t devices) {
  const std::vector<Shape>& parameters = executable.parameters();
  std::vector<std::vector<Literal>> arguments(devices);
  size_t next = 0;
  for (std::vector<Literal>& own : arguments) {
    own.reserve(parameters.size());
    for (const Shape& parameter : parameters) {
      const bool own_bytes = !donated.empty() && donated[next];
      ArrayRef& array = arrays[next++];
      if (array->device != nullptr) {
        Executor::BlockingScope blocking;
        own.push_back(TRY(HostValue(array)));
      } else {
        own.push_back(TakeArgument(array, parameter, own_bytes));
      }
    }
  }
  return arguments;
}

}  // namespace

Status CheckRunMemory(const Executable& executable, const Client& client, size_t devices) {
  if (executable.runner().program() == nullptr) return CheckEstimatedMemory(executable, client);
  return CheckProgramMemory(executable, client, devices);
}

Result<std::vector<std::vector<Literal>>> RunOnInputs(const Executable& executable,
                                                      const Client* client,
                                                      std::vector<ArrayRef>& arrays,
                                                      const std::vector<bool>& donated,
                                                      size_t devices, MemoryOfOutput memory_of,
                                                      const std::atomic<bool>* cancel) {
  if (client != nullptr) TRY(CheckRunMemory(executable, *client, devices));
  std::vector<std::vector<Literal>> arguments =
      TRY(TakeArguments(executable, arrays, donated, devices));
  std::vector<std::vector<Literal>> held(devices);
  for (size_t d = 0; d < devices; ++d) held[d] = HoldDonated(executable, arguments[d], donated);
  std::vector<std::vector<Literal>> results = TRY(executable.runner().Run(arguments, cancel));
  arguments.clear();
  arrays.clear();  // what only this call held is the results' own now
  for (size_t d = 0; d < results.size(); ++d) {
    TRY(CheckOutputs(executable, results[d]));
    FillDonated(std::move(held[d]), results[d]);
    for (size_t k = 0; k < results[d].size(); ++k) {
      results[d][k] = TRY(OwnBytes(std::move(results[d][k]), d, k, memory_of));
    }
  }
  return results;
}

void HintAtMemory(Error& error) {
  if (error.code() != Code::kResourceExhausted) return;
  error.Hint(
      "smaller batches, jax.checkpoint and donate_argnums need less; WEFT_MEMORY_LIMIT sets the "
      "limit");
}

}  // namespace weft::client
