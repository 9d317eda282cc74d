#include "pjrt/buffer.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/metrics.h"
#include "base/trace.h"
#include "pjrt/client.h"
#include "pjrt/interrupt.h"
#include "pjrt/strided.h"

namespace weft::pjrt {
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

trace::What ToHost(std::string_view name, const Array& array) {
  return {.name = std::string(name), .shapes = array.shape.ToStringWithoutLayout()};
}

// Runs `copy` once the array is there and sets the event.
EventRef WhenThere(Client* client, ArrayRef array, int64_t bytes,
                   std::function<void(const Literal&)> copy) {
  // The copy ties in with the request for it, on whichever thread it is made.
  auto now = [bytes, copy = std::move(copy)](const Array& array, uint64_t flow) {
    trace::Span span(trace::Kind::kTransfer, [&] { return ToHost("device to host", array); });
    span.From(flow).Bytes(bytes).Device(array.memory->device()->id());
    metrics::Add(metrics::kBytesToHost, bytes);
    copy(array.value);
  };
  if (array->ready->IsReady()) {
    if (!array->ready->status()) return array->ready;
    now(*array, 0);
    return Event::Done();
  }
  auto done = std::make_shared<Event>();
  done->SetSource(array->ready->source());
  uint64_t flow = trace::NewFlow();
  trace::Span span(trace::Kind::kTransfer,
                   [&] { return ToHost("enqueue device to host", *array); });
  span.To(flow);
  auto finish = [array, done, flow, now = std::move(now)] {
    now(*array, flow);
    done->Set({});
  };
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

Array::Array(Literal literal, Memory* memory)
    : shape(literal.shape()), memory(memory), value(std::move(literal)), ready(Event::Done()) {
  Account();
}

Array::~Array() {
  if (use_ != nullptr) use_->Remove(accounted_);
}

void Array::Account() {
  use_ = memory->shared_use();
  accounted_ = value.byte_size();
  use_->Add(accounted_);
}

void Array::Fulfil(Result<Literal> result) {
  if (!result) return ready->Set(std::unexpected(std::move(result).error()));
  value = std::move(*result);
  Account();
  EventRef event = ready;  // this array may be gone before Set returns
  event->Set({});
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
  MutexLock lock(mutex_);
  if (external_references_++ == 0) held_ = array->value;
  return {};
}

Status Buffer::DropExternalReference() {
  Literal last;  // freed outside the lock
  MutexLock lock(mutex_);
  if (external_references_ == 0) {
    return FailedPrecondition("buffer: no external reference is held");
  }
  if (--external_references_ == 0) std::swap(last, held_);
  return {};
}

Result<const void*> Buffer::Address() {
  {
    MutexLock lock(mutex_);
    if (external_references_ > 0) return held_.data();
  }
  ArrayRef array = TRY(Get());
  AboutToWait(array->ready);
  if (const Status& status = array->ready->Await(); !status) {
    return std::unexpected(status.error());
  }
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
    return WhenThere(client_, std::move(*array), bytes, [out, bytes](const Literal& value) {
      if (bytes > 0) std::memcpy(out, value.data(), static_cast<size_t>(bytes));
    });
  }
  if (static_cast<int64_t>(byte_strides.size()) != shape_.rank() ||
      !StridesStayInside(shape_, byte_strides, to_size)) {
    return Event::Failed(
        Error(Code::kInvalidArgument,
              StrCat("copy to host: byte strides {", StrJoin(byte_strides, ","), "} of ",
                     shape_.ToStringWithoutLayout(), " do not fit ", to_size, " bytes")));
  }
  return WhenThere(client_, std::move(*array), bytes,
                   [out, width, strides = Dims(byte_strides)](const Literal& value) {
                     std::span<const int64_t> dims = value.shape().dims();
                     CopyStrided(dims, width, out, strides, value.data(),
                                 RowMajorStrides(dims, width));
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
  return WhenThere(client_, std::move(*array), size, [=](const Literal& value) {
    if (size > 0) std::memcpy(to, value.data() + offset, static_cast<size_t>(size));
  });
}

Result<std::unique_ptr<Buffer>> Buffer::CopyTo(Memory* memory) {
  ArrayRef from = TRY(Get());
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
    Result<Literal> value = AllocateArray(copy->memory, from->shape);
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

}  // namespace weft::pjrt
