// Buffers over and from memory of the host.
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "base/trace.h"
#include "client/buffer.h"
#include "client/client.h"
#include "client/packed_transfer.h"
#include "client/strided.h"
#include "runtime/memory.h"

namespace weft::client {
namespace {

constexpr size_t kStorageAlignment = 64;               // of memory that is allocated here
constexpr uintptr_t kZeroCopyAlignment = 16;           // of memory that is used where it is
constexpr int64_t kTransferInline = int64_t{1} << 20;  // larger copies go to the executor

Status CheckHostShape(const Shape& shape) {
  if (!shape.IsArray() || !shape.CheckedElements() ||
      *shape.CheckedElements() > (int64_t{1} << 39) / ByteWidth(shape.dtype())) {
    return InvalidArgument("buffer: no array can have shape ", shape);
  }
  return {};
}

// Elements narrower than a byte lie one in each byte; what the host has in the bits above is not
// part of them. Ours are extended by their sign.
void ExtendNarrow(DType dtype, Literal& value) {
  const int shift = 8 - static_cast<int>(BitWidth(dtype));
  std::byte* data = value.mutable_data();
  for (int64_t i = 0; i < value.byte_size(); ++i) {
    const auto high = static_cast<uint8_t>(static_cast<uint8_t>(data[i]) << shift);
    data[i] = IsSigned(dtype) ? static_cast<std::byte>(static_cast<int8_t>(high) >> shift)
                              : static_cast<std::byte>(high >> shift);
  }
}

trace::What FromHost(std::string_view name, const HostArray& host) {
  return {.name = std::string(name), .shapes = host.shape.ToStringWithoutLayout()};
}

void CopyFromHost(const HostArray& host, const Memory& memory, uint64_t flow, Literal& value) {
  if (value.byte_size() == 0) return;
  trace::Span span(trace::Kind::kTransfer, [&] { return FromHost("host to device", host); });
  span.From(flow).Bytes(value.byte_size()).Device(memory.device()->id());
  metrics::Add(metrics::kBytesToDevice, value.byte_size());
  int64_t width = ByteWidth(host.shape.dtype());
  auto* from = static_cast<const std::byte*>(host.data);
  if (host.byte_strides.empty()) {
    std::memcpy(value.mutable_data(), from, static_cast<size_t>(value.byte_size()));
  } else {
    CopyStrided(host.shape.dims(), width, value.mutable_data(),
                RowMajorStrides(host.shape.dims(), width), from, host.byte_strides);
  }
  const DType dtype = host.shape.dtype();
  if (IsSubByte(dtype) && !IsPackable(dtype))
    ExtendNarrow(dtype, value);  // packing takes no others
}

bool LiesRowMajor(const HostArray& host) {
  return host.byte_strides.empty() ||
         IsRowMajor(host.shape.dims(), host.byte_strides, ByteWidth(host.shape.dtype()));
}

// Row-major, whole bytes: what the device gets is what the host has.
bool LiesAsOnDevice(const HostArray& host) {
  return !IsSubByte(host.shape.dtype()) && LiesRowMajor(host);
}

bool MayStayWhereItIs(const HostArray& host) {
  return host.semantics >= HostSemantics::kImmutableZeroCopy && host.data != nullptr &&
         reinterpret_cast<uintptr_t>(host.data) % kZeroCopyAlignment == 0 && LiesAsOnDevice(host);
}

Literal HostLiteral(Shape shape, const void* data, HostBytes bytes) {
  auto* elements = static_cast<std::byte*>(const_cast<void*>(data));
  return Literal::FromStorage(std::move(shape),
                              std::shared_ptr<std::byte[]>(elements, std::move(bytes)));
}

// Memory for a value of that shape, its elements packed.
Result<Literal> AllocatePacked(Memory* memory, const Shape& shape) {
  const int64_t bytes = PackedBytes(shape.dtype(), shape.elements());
  Literal memory_of = TRY(AllocateArray(memory, Shape(DType::kU8, {bytes})));
  return Literal::FromPackedStorage(shape, memory_of.TakeStorage());
}

// Two passes over memory less than a copy that is packed.
Result<std::unique_ptr<Buffer>> PackFromHost(Memory* memory, const HostArray& host) {
  Literal value = TRY(AllocatePacked(memory, host.shape));
  trace::Span span(trace::Kind::kTransfer, [&] { return FromHost("host to device", host); });
  span.Bytes(value.byte_size()).Device(memory->device()->id());
  metrics::Add(metrics::kBytesToDevice, value.byte_size());
  PackElements(host.shape.dtype(), static_cast<const std::byte*>(host.data), value.size(),
               value.mutable_data());
  return BufferFromLiteral(memory, std::move(value));
}

// Copies on the executor; the strides are the caller's, so they are kept.
std::unique_ptr<Buffer> CopyLater(Memory* memory, const HostArray& host, Literal value,
                                  EventRef* done_with_host) {
  auto array = std::make_shared<Array>(host.shape, memory);
  auto done = std::make_shared<Event>();
  *done_with_host = done;
  uint64_t flow = trace::NewFlow();
  trace::Span span(trace::Kind::kTransfer,
                   [&] { return FromHost("enqueue host to device", host); });
  span.To(flow);
  memory->client()->executor().Schedule([array, done, flow, host = HostArray(host),
                                         strides = Dims(host.byte_strides),
                                         value = std::move(value)]() mutable {
    host.byte_strides = strides;
    CopyFromHost(host, *array->memory, flow, value);
    done->Set({});
    array->Fulfil(std::move(value));
  });
  return std::make_unique<Buffer>(memory->client(), std::move(array));
}

// An array of the host brought to a device.
Result<std::unique_ptr<Buffer>> BufferOnDevice(Memory* memory, const HostArray& host,
                                               EventRef* done_with_host) {
  Accelerator& to = *memory->accelerator();
  const int64_t bytes = host.shape.ByteSize();
  trace::Span span(trace::Kind::kTransfer, [&] { return FromHost("host to device", host); });
  span.Bytes(bytes).Device(memory->device()->id());
  auto done = std::make_shared<Event>();
  *done_with_host = done;
  EventRef ready;
  DeviceBytesRef made;
  const std::string label = host.shape.ToStringWithoutLayout();
  if (LiesAsOnDevice(host)) {
    metrics::Add(metrics::kBytesToDevice, bytes);
    made = TRY(UploadElements(
        to, host.shape, static_cast<const std::byte*>(host.data), label, [done] { done->Set({}); },
        &ready));
    (void)done->Await();  // callers who write to it early are not told apart
  } else {
    Literal value = TRY(AllocateArray(memory, host.shape));
    CopyFromHost(host, *memory, 0, value);
    done->Set({});
    made =
        TRY(UploadElements(to, host.shape, value.data(), label, [value] { (void)value; }, &ready));
  }
  return std::make_unique<Buffer>(
      memory->client(),
      std::make_shared<Array>(host.shape, memory, std::move(made), std::move(ready)));
}

}  // namespace

void HostBytes::operator()(std::byte*) const {
  if (on_delete) on_delete();
  if (done != nullptr) done->Set({});
}

bool IsReadOnlyHostMemory(const Literal& value) {
  const HostBytes* bytes = std::get_deleter<HostBytes>(value.storage());
  return bytes != nullptr && !bytes->writable;
}

Result<Literal> AllocateArray(Memory* memory, const Shape& shape) {
  TRY(CheckHostShape(shape));
  size_t bytes = static_cast<size_t>(shape.ByteSize());
  TRY(memory->client()->CheckMemory(shape.ByteSize()));
  Accelerator* gpu = memory->device()->accelerator();
  if (gpu != nullptr && memory->kind() == Memory::Kind::kPinnedHost) {
    return Literal::FromStorage(shape, TRY(gpu->PinnedStorage(shape.ByteSize())));
  }
  size_t padded = (bytes + kStorageAlignment) / kStorageAlignment * kStorageAlignment;
  void* data = std::aligned_alloc(kStorageAlignment, padded);
  if (data == nullptr) {
    return ResourceExhausted("no memory for ", bytes, " bytes of shape ",
                             shape.ToStringWithoutLayout());
  }
  return Literal::FromStorage(shape, std::shared_ptr<std::byte[]>(static_cast<std::byte*>(data),
                                                                  [](void* p) { std::free(p); }));
}

Result<Literal> AllocateLike(Memory* memory, const Literal& value) {
  return value.packed() ? AllocatePacked(memory, value.shape())
                        : AllocateArray(memory, value.shape());
}

Result<std::unique_ptr<Buffer>> BufferFromHost(Memory* memory, const HostArray& host,
                                               EventRef* done_with_host) {
  TRY(CheckHostShape(host.shape));
  if (!host.byte_strides.empty() &&
      static_cast<int64_t>(host.byte_strides.size()) != host.shape.rank()) {
    return InvalidArgument("buffer from host: ", host.byte_strides.size(), " byte strides for ",
                           host.shape.ToStringWithoutLayout());
  }
  if (host.data == nullptr && host.shape.ByteSize() > 0) {
    return InvalidArgument("buffer from host: no data for ", host.shape.ToStringWithoutLayout());
  }
  if (memory->accelerator() != nullptr) return BufferOnDevice(memory, host, done_with_host);
  if (MayStayWhereItIs(host)) {
    *done_with_host = std::make_shared<Event>();
    HostBytes bytes{.done = *done_with_host,
                    .on_delete = nullptr,
                    .writable = host.semantics == HostSemantics::kMutableZeroCopy};
    return BufferFromLiteral(memory, HostLiteral(host.shape, host.data, std::move(bytes)));
  }
  if (IsPackable(host.shape.dtype()) && LiesRowMajor(host)) {
    *done_with_host = Event::Done();
    return PackFromHost(memory, host);
  }
  Literal value = TRY(AllocateArray(memory, host.shape));
  if (host.semantics != HostSemantics::kImmutableOnlyDuringCall &&
      value.byte_size() > kTransferInline) {
    return CopyLater(memory, host, std::move(value), done_with_host);
  }
  CopyFromHost(host, *memory, 0, value);
  *done_with_host = Event::Done();
  return BufferFromLiteral(memory, std::move(value));
}

Result<std::unique_ptr<Buffer>> BufferFromView(Memory* memory, Shape shape, void* data,
                                               std::function<void()> on_delete,
                                               void* native_stream) {
  TRY(CheckHostShape(shape));
  if (data == nullptr && shape.ByteSize() > 0) {
    return InvalidArgument("view of host memory: no data for ", shape.ToStringWithoutLayout());
  }
  if (Accelerator* on = memory->accelerator()) {
    if (DeviceByteSize(shape) != shape.ByteSize()) {
      return Unimplemented("view of device memory: elements of ", Name(shape.dtype()),
                           " lie packed in memory of Weft's");
    }
    auto lent = std::make_shared<DeviceBytes>();
    EventRef ready = Event::Done();
    if (native_stream != nullptr) {
      lent->written = TRY(on->device().RecordOn(native_stream));
      ready = on->to_device().Ready(lent->written);
    }
    lent->address = static_cast<std::byte*>(data);
    lent->on_delete = std::move(on_delete);
    return std::make_unique<Buffer>(
        memory->client(),
        std::make_shared<Array>(std::move(shape), memory, std::move(lent), std::move(ready)));
  }
  HostBytes bytes{.done = nullptr, .on_delete = std::move(on_delete)};
  return BufferFromLiteral(memory, HostLiteral(std::move(shape), data, std::move(bytes)));
}

std::unique_ptr<Buffer> BufferFromLiteral(Memory* memory, Literal value) {
  if (memory->accelerator() != nullptr) {
    auto array = std::make_shared<Array>(value.shape(), memory);
    array->Fulfil(std::move(value));
    return std::make_unique<Buffer>(memory->client(), std::move(array));
  }
  if (value.IsToPack()) {
    Result<Literal> packed = value.Packed();
    if (!packed) return ErrorBuffer(memory, value.shape(), std::move(packed).error());
    value = *std::move(packed);
  }
  return std::make_unique<Buffer>(memory->client(),
                                  std::make_shared<Array>(std::move(value), memory));
}

namespace {

// Up to this many bytes an array costs its copy's start more than its bytes.
constexpr int64_t kPackedArray = 64 << 10;

// One copy for all of these, each a part of the device's memory that it fills.
Result<std::vector<std::unique_ptr<Buffer>>> UploadTogether(
    Memory* memory, std::span<const Literal* const> values) {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
  for (const Literal* value : values) {
    offsets.push_back(bytes);
    constexpr int64_t kAlign = runtime::kDeviceAlignment;
    bytes += (value->byte_size() + kAlign - 1) / kAlign * kAlign;
  }
  std::vector<std::byte> staged(static_cast<size_t>(bytes));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i]->byte_size() == 0) continue;
    std::memcpy(staged.data() + offsets[i], values[i]->data(),
                static_cast<size_t>(values[i]->byte_size()));
  }
  EventRef ready;
  DeviceBytesRef all = TRY(
      memory->accelerator()->Upload(staged.data(), bytes, "arrays in one copy", nullptr, &ready));
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (size_t i = 0; i < values.size(); ++i) {
    auto part = std::make_shared<DeviceBytes>();
    part->address = all->address + offsets[i];
    part->written = all->written;
    part->on_delete = [all] {};
    buffers.push_back(std::make_unique<Buffer>(
        memory->client(),
        std::make_shared<Array>(values[i]->shape(), memory, std::move(part), ready)));
  }
  return buffers;
}

}  // namespace

std::vector<std::unique_ptr<Buffer>> BuffersFromLiterals(Memory* memory,
                                                         std::vector<Literal> values) {
  std::vector<std::unique_ptr<Buffer>> buffers(values.size());
  std::vector<const Literal*> small;
  std::vector<size_t> places;
  for (size_t i = 0; memory->accelerator() != nullptr && i < values.size(); ++i) {
    if (values[i].byte_size() > kPackedArray || values[i].HasDynamicSizes() ||
        DeviceByteSize(values[i].shape()) != values[i].byte_size())
      continue;
    small.push_back(&values[i]);
    places.push_back(i);
  }
  if (small.size() > 1) {
    // Where there is no room for all of them, each says so itself.
    if (auto together = UploadTogether(memory, small)) {
      for (size_t k = 0; k < places.size(); ++k) buffers[places[k]] = std::move((*together)[k]);
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (buffers[i] == nullptr) buffers[i] = BufferFromLiteral(memory, std::move(values[i]));
  }
  return buffers;
}

Result<std::unique_ptr<Buffer>> UninitializedBuffer(Memory* memory, Shape shape) {
  if (Accelerator* on = memory->accelerator()) {
    TRY(CheckHostShape(shape));
    DeviceBytesRef bytes = TRY(on->Allocate(DeviceByteSize(shape), shape.ToStringWithoutLayout()));
    return std::make_unique<Buffer>(
        memory->client(),
        std::make_shared<Array>(std::move(shape), memory, std::move(bytes), Event::Done()));
  }
  Literal value = TRY(AllocateArray(memory, shape));
  return BufferFromLiteral(memory, std::move(value));
}

std::unique_ptr<Buffer> ErrorBuffer(Memory* memory, Shape shape, Error error) {
  auto array = std::make_shared<Array>(std::move(shape), memory);
  array->Fulfil(std::unexpected(std::move(error)));
  return std::make_unique<Buffer>(memory->client(), std::move(array));
}

}  // namespace weft::client
