// Streams: work that a device does in the order it was given, while the host goes on.
//
// Functions that enqueue check what they are given at once. What goes wrong on the device arrives
// later, at the events recorded behind it and at Synchronize: the first error of a stream, with the
// name of the step that met it. What follows it may run or not, and what it writes is undefined; a
// stream that waits for a failed event has that error too. ForgetError starts afresh, in the order
// of the stream, so that each execution can have errors of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/trace.h"
#include "runtime/memory.h"

namespace weft::runtime {

enum class StreamKind : uint8_t { kCompute, kToDevice, kToHost };
enum class CopyKind : uint8_t { kToDevice, kToHost, kOnDevice };
std::string_view NameOf(StreamKind kind);  // "to host"
// What timelines say of a copy; only while one is recorded.
const trace::What* TracedCopy(CopyKind kind);

// A place in a stream.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool done() const = 0;    // the device has come by
  virtual Status Wait() const = 0;  // until then; the first error that came before
};
using EventPtr = std::shared_ptr<Event>;

// From any thread: each call is one place in the order. Memory that is named must stay until an
// event behind it is done; freeing it in the order of this stream is soon enough.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  virtual ~Stream() = default;
  virtual StreamKind kind() const = 0;
  // What other libraries of the process know it by; null: nobody does.
  virtual void* native_handle() const { return nullptr; }

  // Memory on the host may be of any kind; pinned copies without the host's help.
  virtual Status Copy(CopyKind kind, std::byte* to, const std::byte* from, int64_t bytes) = 0;
  // 1, 2, 4, 8 or 16 bytes, repeated; bytes is a multiple of that.
  virtual Status Fill(std::byte* to, int64_t bytes, std::span<const std::byte> pattern) = 0;
  // A function on the host, on a thread of the device's; it must not use the device. Its error is
  // the stream's, with the name before it.
  virtual Status Call(std::string name, std::function<Status()> fn) = 0;

  virtual Result<EventPtr> Record() = 0;
  virtual Status WaitFor(EventPtr event) = 0;  // this stream, not the host; of any device
  virtual Status Synchronize() = 0;            // the host waits for all so far; as Event::Wait
  virtual Status ForgetError() = 0;

 protected:
  friend class Allocation;
  virtual void Free(std::byte* address, MemorySpace space) = 0;
};
using StreamPtr = std::shared_ptr<Stream>;

// What is wrong with the arguments of Copy and Fill, wherever they lie.
Status CheckCopy(const std::byte* to, const std::byte* from, int64_t bytes);
Status CheckFill(const std::byte* to, int64_t bytes, size_t pattern);
void FillBytes(std::span<std::byte> to, std::span<const std::byte> pattern);

}  // namespace weft::runtime
