// Arrays in a device's memory, there already or still being computed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "base/mutex.h"
#include "client/accelerator.h"
#include "client/device.h"
#include "client/event.h"

namespace weft::client {

// An array that is there or will be: what a Buffer holds and what executions wait for. Its elements
// are the host's (`value`) or a device's (`device`); the one is written before `defined()` is set,
// and only read after. It has two moments:
//  - defined: what writes it has been given to the device, so that more work can be enqueued
//  behind.
//    For the host's that is the same as
//  - ready: it is done. Errors of the device arrive here; there is nothing to see when it failed.
struct Array {
  Array(Shape shape, Memory* memory);    // pending
  Array(Literal value, Memory* memory);  // there, on the host, packed where its type is
  // The same of elements that lie row-major, an element a byte or more.
  Array(const Shape& shape, Memory* memory, std::shared_ptr<std::byte[]> elements);
  // Defined. `ready`, which arrays may share, is set when the device has come by.
  Array(Shape shape, Memory* memory, DeviceBytesRef device, EventRef ready);
  ~Array();  // gives its bytes back to memory->use()
  Array(const Array&) = delete;
  // Once. Elements on the host are brought to the device where the memory is a device's.
  void Fulfil(Result<Literal> value);
  // Once, of an array in device memory: `ready` is set when `written` is.
  void Define(Result<DeviceBytesRef> bytes, const EventRef& written);
  const EventRef& defined() const { return defined_ != nullptr ? defined_ : ready; }

  Shape shape;
  Memory* memory;
  Literal value;          // elements of two and four bits packed, as in memory of a device
  DeviceBytesRef device;  // null: `value`
  EventRef ready;

 private:
  void Account(int64_t bytes);
  EventRef defined_;                // null: `ready` is
  std::shared_ptr<MemoryUse> use_;  // null: nothing accounted
  int64_t accounted_ = 0;
};
using ArrayRef = std::shared_ptr<Array>;

// Bytes of the host that nobody may write to, as the deleter of a Literal's storage. Such a literal
// is never handed to a program as its sole owner (IsHostMemory).
struct HostBytes {
  EventRef done;                    // set, when given, once the last user is gone
  std::function<void()> on_delete;  // likewise
  bool writable = false;
  void operator()(std::byte*) const;
};
bool IsReadOnlyHostMemory(const Literal& value);

// The elements of an array that is defined, fetched from the device where they are there: waits.
Result<Literal> HostValue(const ArrayRef& array);
// Memory of the host for an array of this shape, not set, or RESOURCE_EXHAUSTED. For pinned memory
// of a GPU it is pinned.
Result<Literal> AllocateArray(Memory* memory, const Shape& shape);
// The same for a copy of an array's value, packed where that is.
Result<Literal> AllocateLike(Memory* memory, const Literal& value);

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
  // The array, and the buffer is deleted; an error when it was deleted already. What references
  // from outside hold (AddExternalReference) is not written to: a program then works on a copy.
  Result<ArrayRef> Donate() WEFT_EXCLUDES(mutex_);
  const EventRef& ready() const { return ready_; }  // of a deleted buffer too
  bool on_host() const { return memory_->accelerator() == nullptr; }
  void Delete() WEFT_EXCLUDES(mutex_);
  bool IsDeleted() const WEFT_EXCLUDES(mutex_);
  int64_t size_in_bytes() const;  // as the elements lie in memory, one byte for those of less

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
  Result<std::unique_ptr<Buffer>> CopyOnDevice(Memory* memory, ArrayRef from);
  Client* client_;
  Shape shape_;
  Memory* memory_;
  mutable Mutex mutex_;
  ArrayRef array_ WEFT_GUARDED_BY(mutex_);  // null: deleted
  EventRef ready_;
  Literal held_ WEFT_GUARDED_BY(mutex_);                // for external references ...
  DeviceBytesRef held_device_ WEFT_GUARDED_BY(mutex_);  // ... or this
  int64_t external_references_ WEFT_GUARDED_BY(mutex_) = 0;
  Literal laid_out_ WEFT_GUARDED_BY(mutex_);  // as the layout says, for who asked for the address
};

enum class HostSemantics : uint8_t {  // as PJRT numbers them
  kImmutableOnlyDuringCall = 0,
  kImmutableUntilTransferCompletes = 1,
  kImmutableZeroCopy = 2,
  kMutableZeroCopy = 3,
};

struct HostArray {
  const void* data = nullptr;
  Shape shape;                                 // dense row-major unless byte_strides are given
  std::span<const int64_t> byte_strides = {};  // empty: row-major
  HostSemantics semantics = HostSemantics::kImmutableOnlyDuringCall;
};
// Zero-copy when the semantics allow it and the data is row-major and aligned to 16 bytes, else a
// copy. `*done_with_host` becomes the event after which the caller may change or free the data.
Result<std::unique_ptr<Buffer>> BufferFromHost(Memory* memory, const HostArray& host,
                                               EventRef* done_with_host);
// Memory of somebody else as a buffer (DLPack); `on_delete` runs when the last user is gone. On a
// GPU the elements are there when what `native_stream` has by now is done; null: they are.
Result<std::unique_ptr<Buffer>> BufferFromView(Memory* memory, Shape shape, void* data,
                                               std::function<void()> on_delete,
                                               void* native_stream = nullptr);
// An array that is there.
std::unique_ptr<Buffer> BufferFromLiteral(Memory* memory, Literal value);
// The same for several, of which small ones go to a device's memory in one copy. That memory is
// freed when the last of them is gone.
std::vector<std::unique_ptr<Buffer>> BuffersFromLiterals(Memory* memory,
                                                         std::vector<Literal> values);
Result<std::unique_ptr<Buffer>> UninitializedBuffer(Memory* memory, Shape shape);
std::unique_ptr<Buffer> ErrorBuffer(Memory* memory, Shape shape, Error error);

// Fills buffers piece by piece from the host (PJRT's AsyncHostToDeviceTransferManager).
class HostTransfer {
 public:
  static Result<std::unique_ptr<HostTransfer>> Create(Memory* memory, std::vector<Shape> shapes);
  ~HostTransfer();  // buffers not filled by then fail
  Memory* memory() const { return memory_; }
  int64_t count() const { return static_cast<int64_t>(items_.size()); }
  Result<std::unique_ptr<Buffer>> TakeBuffer(int64_t index);  // each once
  Result<int64_t> ByteSize(int64_t index) const;
  // Copies at once; the last piece fulfils the buffer.
  Status TransferRaw(int64_t index, const void* data, int64_t offset, int64_t size, bool is_last);
  Status TransferLiteral(int64_t index, const HostArray& host);
  Status SetError(int64_t index, Error error);

 private:
  struct Item;
  HostTransfer() = default;
  Result<Item*> At(int64_t index) const;
  Memory* memory_ = nullptr;
  std::vector<std::unique_ptr<Item>> items_;
};

}  // namespace weft::client
