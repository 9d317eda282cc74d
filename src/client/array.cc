#include <algorithm>

#include "base/check.h"
#include "client/buffer.h"
#include "client/client.h"
#include "client/packed_transfer.h"

namespace weft::client {

Array::Array(Shape shape, Memory* memory)
    : shape(std::move(shape)), memory(memory), ready(std::make_shared<Event>()) {
  if (memory->accelerator() != nullptr) defined_ = std::make_shared<Event>();
}

Array::Array(Literal literal, Memory* memory)
    : shape(literal.shape()), memory(memory), value(std::move(literal)), ready(Event::Done()) {
  CHECK(value.packed() || !IsPackable(shape.dtype())) << shape;
  Account(value.byte_size());
}

Array::Array(const Shape& shape, Memory* memory, std::shared_ptr<std::byte[]> elements)
    : shape(shape),
      memory(memory),
      value(Literal::FromStorage(shape, std::move(elements))),
      ready(Event::Done()) {
  CHECK(!IsPackable(shape.dtype())) << shape;
  Account(value.byte_size());
}

Array::Array(Shape shape, Memory* memory, DeviceBytesRef bytes, EventRef ready)
    : shape(std::move(shape)),
      memory(memory),
      device(std::move(bytes)),
      ready(std::move(ready)),
      defined_(Event::Done()) {
  Account(DeviceByteSize(this->shape));
}

Array::~Array() {
  if (use_ != nullptr) use_->Remove(accounted_);
}

void Array::Account(int64_t bytes) {
  use_ = memory->shared_use();
  accounted_ = bytes;
  use_->Add(accounted_);
}

void Array::Fulfil(Result<Literal> result) {
  // The memory goes with its client, which an array that fails may outlive.
  if (defined_ != nullptr) {
    if (!result) return Define(std::unexpected(std::move(result).error()), nullptr);
    if (!result->HasDynamicSizes()) {
      EventRef written;
      Result<Literal> elements = result->Unpacked();
      if (!elements) return Define(std::unexpected(std::move(elements).error()), nullptr);
      auto bytes = UploadElements(
          *memory->accelerator(), elements->shape(), elements->data(), "array",
          [held = *elements] { (void)held; }, &written);
      return Define(std::move(bytes), written);
    }
  }
  EventRef first = defined_, event = ready;  // this array may be gone before Set returns
  Status status;
  if (result && result->IsToPack()) result = result->Packed();
  if (result) {
    value = std::move(*result);
    Account(value.byte_size());
  } else {
    status = std::unexpected(std::move(result).error());
  }
  if (first != nullptr) first->Set(status);
  event->Set(std::move(status));
}

void Array::Define(Result<DeviceBytesRef> bytes, const EventRef& written) {
  EventRef first = defined_, event = ready;  // this array may be gone before Set returns
  if (!bytes) {
    first->Set(std::unexpected(bytes.error()));
    return event->Set(std::unexpected(std::move(bytes).error()));
  }
  device = std::move(*bytes);
  Account(DeviceByteSize(shape));
  first->Set({});
  written->OnReady([event](const Status& status) { event->Set(status); });
}

}  // namespace weft::client
