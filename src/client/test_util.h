// For tests: a client, programs from HLO text, buffers from numbers.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "client/buffer.h"
#include "client/client.h"
#include "client/executable.h"

namespace weft::client::testing {

// What WEFT_PLATFORM says, so that tests run on the pretend GPU too; else the processor.
inline Platform TestPlatform() {
  const char* text = std::getenv("WEFT_PLATFORM");
  return ParsePlatform(text == nullptr ? "" : text).value_or(Platform::kCpu);
}

inline std::unique_ptr<Client> MakeClient(ClientOptions options = {}) {
  if (options.platform == Platform::kAny) options.platform = TestPlatform();
  options.gpu_devices = options.cpu_devices;
  return std::move(*Client::Create(std::move(options)));
}

inline std::unique_ptr<LoadedExecutable> CompileText(Client& client, std::string text,
                                                     CompileRequest request = {}) {
  auto executable = Executable::Compile(client, "hlo", std::move(text), std::move(request));
  if (!executable) ADD_FAILURE() << executable.error().ToString();
  if (!executable) return nullptr;
  auto loaded = LoadedExecutable::Load(client, *executable);
  if (!loaded) ADD_FAILURE() << loaded.error().ToString();
  return loaded ? std::move(*loaded) : nullptr;
}

inline std::unique_ptr<Buffer> F32(Client& client, std::vector<float> values,
                                   std::vector<int64_t> dims, int device = 0) {
  HostArray host{.data = values.data(), .shape = Shape(DType::kF32, dims)};
  EventRef done;
  auto buffer = BufferFromHost(client.devices()[device]->default_memory(), host, &done);
  if (!buffer) ADD_FAILURE() << buffer.error().ToString();
  return buffer ? std::move(*buffer) : nullptr;
}

inline Result<ExecuteResult> Call(LoadedExecutable& program, std::vector<Buffer*> arguments,
                                  std::vector<int64_t> not_donated = {}) {
  Buffer* const* list = arguments.data();
  ExecuteRequest request{.arguments = std::span(&list, 1),
                         .argument_count = static_cast<int64_t>(arguments.size()),
                         .not_donated = not_donated};
  return program.Execute(request);
}

// The one output of a program that must succeed.
inline std::unique_ptr<Buffer> RunOne(LoadedExecutable& program, std::vector<Buffer*> arguments) {
  auto result = Call(program, std::move(arguments));
  if (!result) ADD_FAILURE() << result.error().ToString();
  return result ? std::move(result->outputs[0][0]) : nullptr;
}

inline std::vector<float> Floats(Buffer& buffer) {
  std::vector<float> out(static_cast<size_t>(buffer.shape().elements()));
  EventRef done = buffer.CopyToHost(out.data(), static_cast<int64_t>(out.size() * 4));
  if (const Status& status = done->Await(); !status) ADD_FAILURE() << status.error().ToString();
  return out;
}

}  // namespace weft::client::testing
