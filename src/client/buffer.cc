#include "client/buffer.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/metrics.h"
#include "base/trace.h"
#include "client/client.h"
#include "client/interrupt.h"
#include "client/packed_transfer.h"
#include "client/strided.h"

namespace weft::client {
namespace {

// Copies of more than this are left to the executor when nobody has to wait for them here.
constexpr int64_t kCopyInline = int64_t{1} << 20;

std::unexpected<Error> DeletedError(const Shape& shape) {
  return InvalidArgument("buffer has been deleted or donated: ", shape.ToStringWithoutLayout());
}

// Whether elements at these strides from `to` on all lie in the first `size` bytes.
bool StridesStayInside(const Shape& shape, std::span<const int64_t> strides, int64_t size) {
  int64_t last = 0;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (shape.dim(d) == 0) return true;
    int64_t part;
    if (strides[d] < 0 || __builtin_mul_overflow(shape.dim(d) - 1, strides[d], &part) ||
        __builtin_add_overflow(last, part, &last)) {
      return false;
    }
  }
  int64_t end;
  return !__builtin_add_overflow(last, ByteWidth(shape.dtype()), &end) && end <= size;
}

// Known to have its elements on the host, though its memory may be a device's.
bool OnHost(const Array& array) {
  return array.defined()->IsReady() && array.device == nullptr;
}

trace::What ToHost(std::string_view name, const Array& array) {
  return {.name = std::string(name), .shapes = array.shape.ToStringWithoutLayout()};
}

// The bytes of an array that are asked for; where they go, if it is as they lie.
struct Range {
  int64_t offset = 0, bytes = 0;
  std::byte* to = nullptr;
};

// Runs `copy` on the bytes, fetched from the device, and sets the event. The array is defined.
// `flow`: from the request, where that was on another thread.
void FetchNow(const ArrayRef& array, Range range, uint64_t flow, const EventRef& done,
              std::function<void(const std::byte*)> copy) {
  trace::Span span(trace::Kind::kTransfer, [&] { return ToHost("device to host", *array); });
  span.From(flow).Bytes(range.bytes).Device(array->memory->device()->id());
  metrics::Add(metrics::kBytesToHost, range.bytes);
  DownloadElements(*array->memory->device()->accelerator(), array->shape,
                   {array->device, array->ready, range.offset, range.bytes, range.to, array,
                    [done, to = range.to, copy = std::move(copy)](Result<const std::byte*> from) {
                      if (from && to == nullptr) copy(*from);
                      done->Set(from ? Status() : Status(std::unexpected(std::move(from).error())));
                    }});
}

EventRef Fetch(Client* client, ArrayRef array, Range range,
               std::function<void(const std::byte*)> copy) {
  auto done = std::make_shared<Event>();
  done->SetSource(array->ready->source());
  if (array->defined()->IsReady()) {
    if (!array->defined()->status()) return array->defined();
    FetchNow(array, range, 0, done, std::move(copy));
    return done;
  }
  uint64_t flow = trace::NewFlow();
  trace::Span span(trace::Kind::kTransfer,
                   [&] { return ToHost("enqueue device to host", *array); });
  span.To(flow);
  array->defined()->OnReady([=, gate = client->gate(), copy = std::move(copy)](const Status& is) {
    if (!is) return done->Set(is);
    if (!gate->Schedule([=] { FetchNow(array, range, flow, done, copy); })) {
      done->Set(MakeError(Code::kCancelled, "copy to host: the client is gone"));
    }
  });
  return done;
}

// Runs `copy` on the bytes of the array once they are there and sets the event.
EventRef WhenThere(Client* client, ArrayRef array, Range range,
                   std::function<void(const std::byte*)> copy) {
  if (array->memory->accelerator() != nullptr && !OnHost(*array)) {
    return Fetch(client, std::move(array), range, std::move(copy));
  }
  int64_t bytes = range.bytes;
  // The copy ties in with the request for it, on whichever thread it is made.
  auto now = [range, copy = std::move(copy)](const Array& array, uint64_t flow) -> Status {
    trace::Span span(trace::Kind::kTransfer, [&] { return ToHost("device to host", array); });
    span.From(flow).Bytes(range.bytes).Device(array.memory->device()->id());
    metrics::Add(metrics::kBytesToHost, range.bytes);
    Literal unpacked;
    if (array.value.packed()) unpacked = TRY(array.value.Unpacked());
    const Literal& elements = array.value.packed() ? unpacked : array.value;
    const std::byte* from = elements.data() + range.offset;
    if (range.to == nullptr) {
      copy(from);
    } else if (range.bytes > 0) {
      std::memcpy(range.to, from, static_cast<size_t>(range.bytes));
    }
    return {};
  };
  if (array->ready->IsReady()) {
    if (!array->ready->status()) return array->ready;
    Status copied = now(*array, 0);
    return copied ? Event::Done() : Event::Failed(std::move(copied).error());
  }
  auto done = std::make_shared<Event>();
  done->SetSource(array->ready->source());
  uint64_t flow = trace::NewFlow();
  trace::Span span(trace::Kind::kTransfer,
                   [&] { return ToHost("enqueue device to host", *array); });
  span.To(flow);
  auto finish = [array, done, flow, now = std::move(now)] { done->Set(now(*array, flow)); };
  array->ready->OnReady(
      [gate = client->gate(), bytes, done, finish = std::move(finish)](const Status& status) {
        if (!status) {
          done->Set(status);
        } else if (bytes <= kCopyInline) {
          finish();
        } else if (!gate->Schedule(finish)) {
          done->Set(MakeError(Code::kCancelled, "copy to host: the client is gone"));
        }
      });
  return done;
}

}  // namespace

Result<Literal> HostValue(const ArrayRef& array) {
  if (const Status& status = array->defined()->status(); !status) {
    return std::unexpected(status.error());
  }
  if (array->device == nullptr) return array->value.Unpacked();
  Literal value = TRY(Literal::AllocateUnset(array->shape));
  auto done = std::make_shared<Event>();
  Range range{.bytes = value.byte_size(), .to = value.mutable_data()};
  FetchNow(array, range, 0, done, nullptr);
  if (const Status& status = done->Await(); !status) return std::unexpected(status.error());
  return value;
}

Buffer::Buffer(Client* client, ArrayRef array)
    : client_(client),
      shape_(array->shape),
      memory_(array->memory),
      array_(std::move(array)),
      ready_(array_->ready) {}

Buffer::~Buffer() = default;

Result<ArrayRef> Buffer::Get() const {
  MutexLock lock(mutex_);
  if (array_ == nullptr) return DeletedError(shape_);
  return array_;
}

Result<ArrayRef> Buffer::Donate() {
  MutexLock lock(mutex_);
  if (array_ == nullptr) return DeletedError(shape_);
  return std::move(array_);
}

void Buffer::Delete() {
  ArrayRef last;  // freed outside the lock
  MutexLock lock(mutex_);
  last.swap(array_);
}

bool Buffer::IsDeleted() const {
  MutexLock lock(mutex_);
  return array_ == nullptr;
}

int64_t Buffer::size_in_bytes() const {
  return shape_.ByteSize();
}

Status Buffer::AddExternalReference() {
  ArrayRef array = TRY(Get());
  AboutToWait(array->ready);
  if (const Status& status = array->ready->Await(); !status) return status;
  // Who looks at elements has a byte for each, in the order of the layout.
  Literal value = TRY(AsLaidOut(shape_, TRY(array->value.Unpacked())));
  MutexLock lock(mutex_);
  if (external_references_++ == 0) {
    held_ = std::move(value);
    held_device_ = array->device;
  }
  return {};
}

Status Buffer::DropExternalReference() {
  Literal last;  // freed outside the lock
  DeviceBytesRef last_device;
  MutexLock lock(mutex_);
  if (external_references_ == 0) {
    return FailedPrecondition("buffer: no external reference is held");
  }
  if (--external_references_ == 0) {
    std::swap(last, held_);
    std::swap(last_device, held_device_);
  }
  return {};
}

Result<const void*> Buffer::Address() {
  {
    MutexLock lock(mutex_);
    if (external_references_ > 0) {
      return held_device_ != nullptr ? held_device_->address : held_.data();
    }
  }
  ArrayRef array = TRY(Get());
  AboutToWait(array->ready);
  if (const Status& status = array->ready->Await(); !status) {
    return std::unexpected(status.error());
  }
  if (shape_.layout() != nullptr) {
    if (array->device != nullptr) {
      return Unimplemented("address of ", shape_, ": it lies row-major on the device");
    }
    MutexLock lock(mutex_);
    if (!laid_out_.IsValid()) laid_out_ = TRY(AsLaidOut(shape_, TRY(array->value.Unpacked())));
    return laid_out_.data();
  }
  if (array->device != nullptr) return array->device->address;
  return array->value.data();
}

EventRef Buffer::CopyToHost(void* to, int64_t to_size, std::span<const int64_t> byte_strides) {
  Result<ArrayRef> array = Get();
  if (!array) return Event::Failed(std::move(array).error());
  int64_t bytes = size_in_bytes(), width = ByteWidth(shape_.dtype());
  auto* out = static_cast<std::byte*>(to);
  if (byte_strides.empty() || IsRowMajor(shape_.dims(), byte_strides, width)) {
    if (to_size < bytes) {
      return Event::Failed(
          Error(Code::kInvalidArgument, StrCat("copy to host: ", shape_.ToStringWithoutLayout(),
                                               " takes ", bytes, " bytes, there are ", to_size)));
    }
    return WhenThere(client_, std::move(*array), {.bytes = bytes, .to = out}, nullptr);
  }
  if (static_cast<int64_t>(byte_strides.size()) != shape_.rank() ||
      !StridesStayInside(shape_, byte_strides, to_size)) {
    return Event::Failed(
        Error(Code::kInvalidArgument,
              StrCat("copy to host: byte strides {", StrJoin(byte_strides, ","), "} of ",
                     shape_.ToStringWithoutLayout(), " do not fit ", to_size, " bytes")));
  }
  return WhenThere(
      client_, std::move(*array), {.bytes = bytes},
      [out, width, dims = shape_.dims(), strides = Dims(byte_strides)](const std::byte* from) {
        CopyStrided(dims, width, out, strides, from, RowMajorStrides(dims, width));
      });
}

EventRef Buffer::CopyRawToHost(void* to, int64_t offset, int64_t size) {
  Result<ArrayRef> array = Get();
  if (!array) return Event::Failed(std::move(array).error());
  int64_t bytes = size_in_bytes();
  if (offset < 0 || size < 0 || offset > bytes || size > bytes - offset) {
    return Event::Failed(Error(
        Code::kInvalidArgument,
        StrCat("copy to host: ", size, " bytes at ", offset, " of a buffer of ", bytes, " bytes")));
  }
  auto* out = static_cast<std::byte*>(to);
  if (shape_.layout() != nullptr) {
    return WhenThere(client_, std::move(*array), {.bytes = bytes},
                     [=, shape = shape_](const std::byte* from) {
                       std::vector<std::byte> all(static_cast<size_t>(bytes));
                       const int64_t width = ByteWidth(shape.dtype());
                       CopyStrided(shape.dims(), width, all.data(), LayoutStrides(shape), from,
                                   RowMajorStrides(shape.dims(), width));
                       std::memcpy(out, all.data() + offset, static_cast<size_t>(size));
                     });
  }
  Range range{.offset = offset, .bytes = size, .to = out};
  return WhenThere(client_, std::move(*array), range, nullptr);
}

// Between memories of which one at least is a device's.
Result<std::unique_ptr<Buffer>> Buffer::CopyOnDevice(Memory* memory, ArrayRef from) {
  auto copy = std::make_shared<Array>(shape_, memory);
  copy->ready->SetSource(from->ready->source());
  auto make = [from, copy, memory] {
    metrics::Add(metrics::kBytesBetween, from->shape.ByteSize());
    if (const Status& status = from->defined()->status(); !status) {
      return copy->Fulfil(std::unexpected(status.error()));
    }
    Accelerator *source = from->memory->accelerator(), *target = memory->accelerator();
    if (from->device == nullptr) return copy->Fulfil(from->value);
    if (target != nullptr && &source->device() == &target->device()) {
      EventRef written;
      auto bytes =
          target->Duplicate(from->device, from->ready, DeviceByteSize(from->shape), from, &written);
      return copy->Define(std::move(bytes), written);
    }
    Result<Literal> value = AllocateArray(memory, from->shape);
    if (!value) return copy->Fulfil(std::move(value));
    std::byte* to = value->mutable_data();
    DownloadElements(*source, from->shape,
                     {from->device, from->ready, 0, value->byte_size(), to, from,
                      [copy, value = std::move(*value)](Result<const std::byte*> there) {
                        if (there) return copy->Fulfil(value);
                        copy->Fulfil(std::unexpected(std::move(there).error()));
                      }});
  };
  auto buffer = std::make_unique<Buffer>(memory->client(), copy);
  if (from->defined()->IsReady()) {
    make();
    return buffer;
  }
  from->defined()->OnReady([make, copy, gate = memory->client()->gate()](const Status&) {
    if (!gate->Schedule(make)) {
      copy->Fulfil(MakeError(Code::kCancelled, "copy: the client is gone"));
    }
  });
  return buffer;
}

Result<std::unique_ptr<Buffer>> Buffer::CopyTo(Memory* memory) {
  ArrayRef from = TRY(Get());
  if (memory->accelerator() != nullptr || memory_->accelerator() != nullptr) {
    return CopyOnDevice(memory, std::move(from));
  }
  TRY(memory->client()->CheckMemory(size_in_bytes()));
  auto copy = std::make_shared<Array>(shape_, memory);
  copy->ready->SetSource(from->ready->source());
  auto buffer = std::make_unique<Buffer>(memory->client(), copy);
  uint64_t flow = from->ready->IsReady() ? 0 : trace::NewFlow();
  trace::Span span(trace::Kind::kTransfer,
                   [&] { return ToHost("enqueue device to device", *from); });
  span.To(flow);
  auto make = [from, copy, flow] {
    if (!from->ready->status()) {
      return copy->Fulfil(std::unexpected(from->ready->status().error()));
    }
    Result<Literal> value = AllocateLike(copy->memory, from->value);
    if (value && value->byte_size() > 0) {
      trace::Span span(trace::Kind::kTransfer, [&] { return ToHost("device to device", *from); });
      span.From(flow).Bytes(value->byte_size()).Device(copy->memory->device()->id());
      metrics::Add(metrics::kBytesBetween, value->byte_size());
      std::memcpy(value->mutable_data(), from->value.data(),
                  static_cast<size_t>(value->byte_size()));
    }
    copy->Fulfil(std::move(value));
  };
  if (from->ready->IsReady()) {
    make();
  } else {
    from->ready->OnReady([make, copy, gate = memory->client()->gate()](const Status&) {
      if (!gate->Schedule(make)) {
        copy->Fulfil(MakeError(Code::kCancelled, "copy: the client is gone"));
      }
    });
  }
  return buffer;
}

}  // namespace weft::client
