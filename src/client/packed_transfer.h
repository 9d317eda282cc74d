// Elements of the host's to and from memory of a device, where those of two and four bits lie
// packed. At this edge they have a byte each.
#pragma once

#include <functional>
#include <string_view>

#include "base/error.h"
#include "base/shape.h"
#include "client/accelerator.h"

namespace weft::client {

// Bytes of an array in memory of a device.
int64_t DeviceByteSize(const Shape& shape);

// Accelerator::Upload of an array of that shape.
Result<DeviceBytesRef> UploadElements(Accelerator& to, const Shape& shape, const std::byte* from,
                                      std::string_view label, std::function<void()> done,
                                      EventRef* ready);

// Accelerator::Download of an array of that shape, or of a range of its elements: offset, bytes and
// what arrives are those of the host.
void DownloadElements(Accelerator& from, const Shape& shape, Accelerator::Request request);

}  // namespace weft::client
