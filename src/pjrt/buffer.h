// Arrays in a device's memory, there already or still being computed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/literal.h"
#include "base/mutex.h"
#include "pjrt/device.h"
#include "pjrt/event.h"

namespace weft::pjrt {

// An array that is there or will be: what a Buffer holds and what executions wait for. `value` is
// written before `ready` is set, and only read after.
struct Array {
  explicit Array(Shape shape, Memory* memory) : shape(std::move(shape)), memory(memory) {}
  ~Array();                            // gives its bytes back to memory->use()
  void Fulfil(Result<Literal> value);  // accounts for the bytes, sets `ready`

  Shape shape;
  Memory* memory;
  Literal value;
  EventRef ready = std::make_shared<Event>();
  int64_t accounted = 0;
};
using ArrayRef = std::shared_ptr<Array>;

class Buffer {
 public:
  Buffer(Client* client, ArrayRef array);
  ~Buffer();

  Client* client() const { return client_; }
  const Shape& shape() const { return shape_; }  // an array; the layout is absent when row-major
  Memory* memory() const { return memory_; }
  Device* device() const { return memory_->device(); }

  // The array; an error when the buffer was deleted or donated.
  Result<ArrayRef> Get() const WEFT_EXCLUDES(mutex_);
  // The array, and the buffer is deleted. An error when it was deleted already or something outside
  // holds a reference (AddExternalReference).
  Result<ArrayRef> Donate() WEFT_EXCLUDES(mutex_);
  EventRef ready() const;  // of a deleted buffer too
  void Delete() WEFT_EXCLUDES(mutex_);
  bool IsDeleted() const WEFT_EXCLUDES(mutex_);
  int64_t size_in_bytes() const;

  // While references are held from outside (a NumPy view), the bytes stay where they are, whatever
  // becomes of the buffer.
  Status AddExternalReference() WEFT_EXCLUDES(mutex_);
  Status DropExternalReference() WEFT_EXCLUDES(mutex_);
  // The address of the elements; waits until they are there.
  Result<const void*> Address() WEFT_EXCLUDES(mutex_);

  // Copies out, row-major or with byte strides, when the elements are there. `to` must stay valid
  // until the event.
  EventRef CopyToHost(void* to, int64_t to_size, std::span<const int64_t> byte_strides = {});
  EventRef CopyRawToHost(void* to, int64_t offset, int64_t size);
  // To another memory of the same client (or of another client of this process).
  Result<std::unique_ptr<Buffer>> CopyTo(Memory* memory);

 private:
  Client* client_;
  Shape shape_;
  Memory* memory_;
  mutable Mutex mutex_;
  ArrayRef array_ WEFT_GUARDED_BY(mutex_);  // null: deleted
  EventRef ready_;
  Literal held_ WEFT_GUARDED_BY(mutex_);  // for external references
  int64_t external_references_ WEFT_GUARDED_BY(mutex_) = 0;
};

enum class HostSemantics : uint8_t {  // as PJRT numbers them
  kImmutableOnlyDuringCall = 0,
  kImmutableUntilTransferCompletes = 1,
  kImmutableZeroCopy = 2,
  kMutableZeroCopy = 3,
};

struct HostArray {
  const void* data = nullptr;
  Shape shape;                            // dense row-major unless byte_strides are given
  std::span<const int64_t> byte_strides;  // empty: row-major
  HostSemantics semantics = HostSemantics::kImmutableOnlyDuringCall;
};
// Zero-copy when the semantics allow it and the data is row-major and aligned to 16 bytes, else a
// copy. `*done_with_host` becomes the event after which the caller may change or free the data.
Result<std::unique_ptr<Buffer>> BufferFromHost(Memory* memory, const HostArray& host,
                                               EventRef* done_with_host);
// Memory of somebody else as a buffer (DLPack); `on_delete` runs when the last user is gone.
std::unique_ptr<Buffer> BufferFromView(Memory* memory, Shape shape, void* data,
                                       std::function<void()> on_delete);
std::unique_ptr<Buffer> UninitializedBuffer(Memory* memory, Shape shape);
std::unique_ptr<Buffer> ErrorBuffer(Memory* memory, Shape shape, Error error);

// Fills buffers piece by piece from the host (PJRT's AsyncHostToDeviceTransferManager).
class HostTransfer {
 public:
  static Result<std::unique_ptr<HostTransfer>> Create(Memory* memory, std::vector<Shape> shapes);
  int64_t count() const;
  std::unique_ptr<Buffer> TakeBuffer(int64_t index);
  int64_t ByteSize(int64_t index) const;
  // Copies at once; the last piece fulfils the buffer.
  Status TransferRaw(int64_t index, const void* data, int64_t offset, int64_t size, bool is_last);
  Status TransferLiteral(int64_t index, const HostArray& host);
  Status SetError(int64_t index, Error error);

 private:
  struct Item;
  Memory* memory_ = nullptr;
  std::vector<std::shared_ptr<Item>> items_;
};

}  // namespace weft::pjrt
