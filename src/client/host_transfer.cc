#include <cstring>
#include <utility>

#include "client/buffer.h"
#include "client/client.h"
#include "client/strided.h"

namespace weft::client {

struct HostTransfer::Item {
  ArrayRef array;
  Mutex mutex;
  Literal value WEFT_GUARDED_BY(mutex);  // not valid once it was handed to the array
  bool finished WEFT_GUARDED_BY(mutex) = false;
  bool taken WEFT_GUARDED_BY(mutex) = false;
};

Result<std::unique_ptr<HostTransfer>> HostTransfer::Create(Memory* memory,
                                                           std::vector<Shape> shapes) {
  std::unique_ptr<HostTransfer> transfer(new HostTransfer);
  transfer->memory_ = memory;
  for (Shape& shape : shapes) {
    auto item = std::make_unique<Item>();
    Literal value = TRY(AllocateArray(memory, shape));
    {
      MutexLock lock(item->mutex);
      item->value = std::move(value);
    }
    item->array = std::make_shared<Array>(std::move(shape), memory);
    transfer->items_.push_back(std::move(item));
  }
  return transfer;
}

HostTransfer::~HostTransfer() {
  for (int64_t i = 0; i < count(); ++i) {
    (void)SetError(i, Error(Code::kCancelled, "the transfer was given up before its last piece"));
  }
}

Result<HostTransfer::Item*> HostTransfer::At(int64_t index) const {
  if (index < 0 || index >= count()) {
    return InvalidArgument("transfer: buffer ", index, " of ", count());
  }
  return items_[static_cast<size_t>(index)].get();
}

Result<std::unique_ptr<Buffer>> HostTransfer::TakeBuffer(int64_t index) {
  Item* item = TRY(At(index));
  MutexLock lock(item->mutex);
  if (std::exchange(item->taken, true)) {
    return InvalidArgument("transfer: buffer ", index, " was taken already");
  }
  return std::make_unique<Buffer>(memory_->client(), item->array);
}

Result<int64_t> HostTransfer::ByteSize(int64_t index) const {
  Item* item = TRY(At(index));
  return item->array->shape.ByteSize();
}

Status HostTransfer::TransferRaw(int64_t index, const void* data, int64_t offset, int64_t size,
                                 bool is_last) {
  Item* item = TRY(At(index));
  Literal value;
  {
    MutexLock lock(item->mutex);
    if (item->finished) return InvalidArgument("transfer: buffer ", index, " is complete already");
    int64_t bytes = item->value.byte_size();
    if (offset < 0 || size < 0 || offset > bytes || size > bytes - offset) {
      return InvalidArgument("transfer: ", size, " bytes at ", offset, " of a buffer of ", bytes,
                             " bytes");
    }
    if (size > 0) {
      if (data == nullptr) return InvalidArgument("transfer: no data for ", size, " bytes");
      std::memcpy(item->value.mutable_data() + offset, data, static_cast<size_t>(size));
    }
    if (!is_last) return {};
    item->finished = true;
    value = std::exchange(item->value, Literal());
  }
  item->array->Fulfil(FromLaidOut(item->array->shape, value));
  return {};
}

Status HostTransfer::TransferLiteral(int64_t index, const HostArray& host) {
  Item* item = TRY(At(index));
  const Shape& shape = item->array->shape;
  if (host.shape.dtype() != shape.dtype() || !Shape::SameDims(host.shape, shape)) {
    return InvalidArgument("transfer: buffer ", index, " is ", shape.ToStringWithoutLayout(),
                           ", not ", host.shape.ToStringWithoutLayout());
  }
  const int64_t width = ByteWidth(shape.dtype());
  Dims strides(host.byte_strides);
  if (strides.empty()) strides = RowMajorStrides(shape.dims(), width);
  if (strides == LayoutStrides(shape)) {
    return TransferRaw(index, host.data, 0, shape.ByteSize(), /*is_last=*/true);
  }
  if (std::ssize(strides) != shape.rank()) {
    return InvalidArgument("transfer: ", host.byte_strides.size(), " byte strides for ",
                           shape.ToStringWithoutLayout());
  }
  Literal value = TRY(AllocateArray(memory_, shape));
  CopyStrided(shape.dims(), width, value.mutable_data(), LayoutStrides(shape),
              static_cast<const std::byte*>(host.data), strides);
  return TransferRaw(index, value.data(), 0, value.byte_size(), /*is_last=*/true);
}

Status HostTransfer::SetError(int64_t index, Error error) {
  Item* item = TRY(At(index));
  {
    MutexLock lock(item->mutex);
    if (item->finished) return InvalidArgument("transfer: buffer ", index, " is complete already");
    item->finished = true;
    item->value = Literal();
  }
  item->array->Fulfil(std::unexpected(std::move(error)));
  return {};
}

}  // namespace weft::client
