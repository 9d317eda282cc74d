#include "client/packed_transfer.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/packing.h"

namespace weft::client {

int64_t DeviceByteSize(const Shape& shape) {
  if (!shape.IsArray() || !IsPackable(shape.dtype())) return shape.ByteSize();
  return PackedBytes(shape.dtype(), shape.elements());
}

Result<DeviceBytesRef> UploadElements(Accelerator& to, const Shape& shape, const std::byte* from,
                                      std::string_view label, std::function<void()> done,
                                      EventRef* ready) {
  if (!IsPackable(shape.dtype())) {
    return to.Upload(from, shape.ByteSize(), label, std::move(done), ready);
  }
  auto packed =
      std::make_shared<std::vector<std::byte>>(static_cast<size_t>(DeviceByteSize(shape)));
  PackElements(shape.dtype(), from, shape.elements(), packed->data());
  return to.Upload(
      packed->data(), std::ssize(*packed), label, [packed, done = std::move(done)] { done(); },
      ready);
}

void DownloadElements(Accelerator& from, const Shape& shape, Accelerator::Request request) {
  if (!IsPackable(shape.dtype())) return from.Download(std::move(request));
  Accelerator::Request all = request;
  all.offset = 0;
  all.bytes = DeviceByteSize(shape);
  all.to = nullptr;
  all.then = [shape, wanted = std::move(request)](Result<const std::byte*> there) {
    if (!there) return wanted.then(std::move(there));
    std::vector<std::byte> elements(static_cast<size_t>(shape.elements()));
    UnpackElements(shape.dtype(), *there, shape.elements(), elements.data());
    const std::byte* first = elements.data() + wanted.offset;
    if (wanted.to != nullptr && wanted.bytes > 0) {
      std::memcpy(wanted.to, first, static_cast<size_t>(wanted.bytes));
    }
    wanted.then(wanted.to != nullptr ? wanted.to : first);
  };
  from.Download(std::move(all));
}

}  // namespace weft::client
