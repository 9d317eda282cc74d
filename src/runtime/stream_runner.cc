#include "runtime/stream_runner.h"

#include "base/packing.h"
#include "base/str.h"

namespace weft::runtime {
namespace {

constexpr int64_t kSizeBytes = sizeof(int32_t);

// Where the caller's memory for a parameter or result lies, by its number.
std::vector<MemorySpace> SpacesOf(const program::Program& program, program::BufferKind kind) {
  std::vector<MemorySpace> spaces;
  for (const program::Buffer& b : program.buffers) {
    if (b.kind != kind) continue;
    if (std::ssize(spaces) <= b.index) spaces.resize(static_cast<size_t>(b.index) + 1);
    spaces[static_cast<size_t>(b.index)] = b.space;
  }
  return spaces;
}

}  // namespace

Result<StreamRunner> StreamRunner::Create(Device& device, const LoadedProgram& program) {
  StreamRunner runner(program, TRY(device.NewStream(StreamKind::kCompute)));
  TRY(runner.Allocate(device));
  return runner;
}

StreamRunner::~StreamRunner() {
  // An error was reported to whoever waited for a result.
  if (stream_ != nullptr) (void)stream_->Synchronize();
}

Status StreamRunner::Allocate(Device& device) {
  auto take = [&](int64_t bytes, MemorySpace space, std::string_view label) {
    return device.AllocateOn(*stream_, bytes, space, label);
  };
  std::vector<MemorySpace> spaces = SpacesOf(program_->program(), program::BufferKind::kParameter);
  for (const LiteralSignature::Parameter& p : signature_.parameters) {
    int64_t bytes = LiteralSignature::BytesOf(p.shape, p.packed);
    MemorySpace space = spaces[parameters_.size()];
    parameters_.push_back(TRY(take(bytes, space, "argument")));
    fresh_.push_back(p.donated ? TRY(take(bytes, space, "argument to be donated")) : Allocation());
  }
  while (parameters_.size() < spaces.size()) {
    MemorySpace space = spaces[parameters_.size()];
    parameters_.push_back(TRY(take(kSizeBytes, space, "size of an argument")));
  }
  spaces = SpacesOf(program_->program(), program::BufferKind::kResult);
  for (const LiteralSignature::Output& r : signature_.results) {
    bool own = r.parameter < 0;
    MemorySpace space = spaces[results_.size()];
    int64_t bytes = LiteralSignature::BytesOf(r.shape, r.packed);
    results_.push_back(own ? TRY(take(bytes, space, "result")) : Allocation());
  }
  while (results_.size() < spaces.size()) {
    MemorySpace space = spaces[results_.size()];
    results_.push_back(TRY(take(kSizeBytes, space, "size of a result")));
  }
  return {};
}

Status StreamRunner::Upload(std::span<const Literal> arguments) {
  TRY(signature_.Check(arguments));
  std::vector<std::vector<std::byte>> packed;  // until the copies have ended
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::byte* to = (fresh_[i] ? fresh_[i] : parameters_[i]).address();
    const std::byte* from = arguments[i].data();
    int64_t bytes = arguments[i].byte_size();
    if (signature_.parameters[i].packed) {
      packed.push_back(arguments[i].Pack());
      from = packed.back().data();
      bytes = std::ssize(packed.back());
    }
    TRY(stream_->Copy(CopyKind::kToDevice, to, from, bytes));
  }
  std::vector<int32_t> sizes;
  for (const LiteralSignature::Size& size : signature_.parameter_sizes) {
    sizes.push_back(static_cast<int32_t>(arguments[size.array].dynamic_size(size.dim)));
  }
  for (size_t k = 0; k < sizes.size(); ++k) {
    TRY(stream_->Copy(CopyKind::kToDevice, parameters_[arguments.size() + k].address(),
                      reinterpret_cast<const std::byte*>(&sizes[k]), kSizeBytes));
  }
  return stream_->Synchronize();
}

Status StreamRunner::Enqueue(Call call) {
  std::vector<std::byte*> in, out;
  for (const Allocation& parameter : parameters_) in.push_back(parameter.address());
  for (size_t i = 0; i < fresh_.size(); ++i) {
    if (!fresh_[i]) continue;
    TRY(stream_->Copy(CopyKind::kOnDevice, in[i], fresh_[i].address(), fresh_[i].bytes()));
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    bool donated = i < signature_.results.size() && signature_.results[i].parameter >= 0;
    out.push_back(donated ? in[static_cast<size_t>(signature_.results[i].parameter)]
                          : results_[i].address());
  }
  call.parameters = in;
  call.results = out;
  return program_->Enqueue(call, *stream_);
}

Result<std::vector<Literal>> StreamRunner::Download() {
  std::vector<Literal> results;
  std::vector<int32_t> sizes(signature_.result_sizes.size());
  std::vector<std::vector<std::byte>> packed;  // by result
  for (const LiteralSignature::Output& r : signature_.results) {
    const Allocation& from =
        r.parameter >= 0 ? parameters_[static_cast<size_t>(r.parameter)] : results_[results.size()];
    results.push_back(TRY(Literal::AllocateUnset(r.shape)));
    std::vector<std::byte>& bytes = packed.emplace_back();
    if (r.packed) bytes.resize(static_cast<size_t>(LiteralSignature::BytesOf(r.shape, true)));
    std::byte* to = r.packed ? bytes.data() : results.back().mutable_data();
    TRY(stream_->Copy(CopyKind::kToHost, to, from.address(),
                      r.packed ? std::ssize(bytes) : results.back().byte_size()));
  }
  for (size_t k = 0; k < sizes.size(); ++k) {
    TRY(stream_->Copy(CopyKind::kToHost, reinterpret_cast<std::byte*>(&sizes[k]),
                      results_[results.size() + k].address(), kSizeBytes));
  }
  TRY(stream_->Synchronize());
  for (size_t i = 0; i < results.size(); ++i) {
    if (!signature_.results[i].packed) continue;
    UnpackElements(results[i].dtype(), packed[i].data(), results[i].size(),
                   results[i].mutable_data());
  }
  for (size_t k = 0; k < sizes.size(); ++k) {
    const LiteralSignature::Size& size = signature_.result_sizes[k];
    results[size.array].set_dynamic_size(size.dim, sizes[k]);
  }
  return results;
}

Result<std::vector<Literal>> StreamRunner::Run(std::span<const Literal> arguments,
                                               const Call& call) {
  TRY(Upload(arguments));
  TRY(Enqueue(call));
  return Download();
}

}  // namespace weft::runtime
