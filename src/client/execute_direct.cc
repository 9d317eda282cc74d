// Tiny programs on arguments that are there: device after device on the caller's thread, from where
// arguments lie into the memory of new arrays. What a call costs is mostly what is made for each
// device, so that nothing is made here but results.
#include <utility>

#include "base/doing.h"
#include "client/client.h"
#include "client/execute_device.h"
#include "client/execute_values.h"

namespace weft::client {

ExecuteResult LoadedExecutable::Failed(std::span<Device* const> devices, const Error& error) const {
  const std::vector<OutputInfo>& infos = executable_->outputs();
  ExecuteResult result{.outputs = {devices.size(), infos.size()}};
  result.done.assign(devices.size(), Event::Failed(error));
  for (size_t d = 0; d < devices.size(); ++d) {
    for (size_t k = 0; k < infos.size(); ++k) {
      result.outputs[d][k] = ErrorBuffer(OutputMemory(*devices[d], k), infos[k].shape, error);
    }
  }
  return result;
}

Status LoadedExecutable::FillDirect(const Inputs& inputs, std::span<Device* const> devices,
                                    ExecuteResult& result) const {
  TRY(CheckRunMemory(*executable_, *client_, devices.size()));
  const std::vector<OutputInfo>& infos = executable_->outputs();
  const size_t count = executable_->parameters().size();
  InlineVec<std::byte*, 16> in(count, nullptr), out(infos.size(), nullptr);
  for (size_t d = 0; d < devices.size(); ++d) {
    for (size_t i = 0; i < count; ++i) {
      in[i] = const_cast<std::byte*>(inputs.arrays[d * count + i]->value.data());  // only read
    }
    for (size_t k = 0; k < infos.size(); ++k) {
      const Shape& shape = infos[k].shape;
      std::shared_ptr<std::byte[]> storage = Literal::NewStorage(shape.ByteSize());
      if (storage == nullptr) {
        return ResourceExhausted("no memory for a result of ", shape.ToStringWithoutLayout());
      }
      out[k] = storage.get();
      result.outputs[d][k] = std::make_unique<Buffer>(
          client_,
          std::make_shared<Array>(shape, OutputMemory(*devices[d], k), std::move(storage)));
    }
    Status status = executable_->runner().RunAt(static_cast<int64_t>(d), {in.data(), in.size()},
                                                {out.data(), out.size()}, &client_->cancelled());
    if (status) continue;
    if (devices.size() > 1) status.error().Note(StrCat("on device ", d));
    return status;
  }
  return {};
}

ExecuteResult LoadedExecutable::RunDirect(Inputs inputs, std::span<Device* const> devices) const {
  Doing doing({"run", executable_->name(), executable_->input()});
  ExecuteResult result{.outputs = {devices.size(), executable_->outputs().size()}};
  CountedRun counted(*executable_);
  Status status = counted.Keep(FillDirect(inputs, devices, result));
  if (!status) {
    HintAtMemory(status.error());
    return Failed(devices, status.error());
  }
  result.done.assign(devices.size(), Event::Done());
  return result;
}

}  // namespace weft::client
