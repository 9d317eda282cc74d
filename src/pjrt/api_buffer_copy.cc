// Slots of copies of buffers: to the host, to other memories.
#include <algorithm>
#include <cstring>

#include "client/interrupt.h"
#include "client/strided.h"
#include "client/wait_habit.h"
#include "pjrt/api.h"

namespace weft::pjrt {
namespace {

Status CheckRange(const PJRT_Buffer& buffer, int64_t offset, int64_t size) {
  const int64_t total = buffer.buffer->size_in_bytes();
  if (offset < 0 || size < 0 || offset > total || size > total - offset) {
    return InvalidArgument("PJRT_Buffer_CopyRawToHost: ", size, " bytes from offset ", offset,
                           " of a buffer of ", total);
  }
  return {};
}

}  // namespace

namespace slot {

Status Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args& args) {
  args.event = nullptr;
  REQUIRE_ARG(src);
  Buffer& buffer = *args.src->buffer;
  const int64_t size = buffer.shape().ByteSize();
  if (args.dst == nullptr) {
    args.dst_size = size;
    return {};
  }
  if (args.dst_size < static_cast<size_t>(size)) {
    return InvalidArgument("PJRT_Buffer_ToHostBuffer: `dst_size` must be >= ", size, ", got ",
                           args.dst_size);
  }
  const Shape& shape = buffer.shape();
  std::vector<int64_t> strides;
  if (args.host_layout != nullptr) {
    strides = TRY(ToByteStrides(shape, args.host_layout));
  } else if (shape.layout() != nullptr) {  // as the buffer's own layout says
    const Dims own = client::LayoutStrides(shape);
    strides.assign(own.begin(), own.end());
  }
  // Strides from outside may reach beyond what was said to be there.
  int64_t last = ByteWidth(shape.dtype());
  for (size_t i = 0; i < strides.size() && shape.elements() != 0; ++i) {
    int64_t reach = 0;
    if (strides[i] < 0 || __builtin_mul_overflow(strides[i], shape.dim(i) - 1, &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return InvalidArgument("PJRT_Buffer_ToHostBuffer: stride ", strides[i], " of dimension ", i);
    }
  }
  if (!strides.empty() && shape.elements() != 0 && static_cast<size_t>(last) > args.dst_size) {
    return InvalidArgument("PJRT_Buffer_ToHostBuffer: the strides reach over ", last,
                           " bytes, `dst_size` is ", args.dst_size);
  }
  EventRef copied = buffer.CopyToHost(args.dst, static_cast<int64_t>(args.dst_size), strides);
  AboutToWait(copied);
  args.event = ToC(std::move(copied));
  return {};
}

Status Buffer_CopyRawToHost(PJRT_Buffer_CopyRawToHost_Args& args) {
  args.event = nullptr;
  REQUIRE_ARG(buffer);
  TRY(CheckRange(*args.buffer, args.offset, args.transfer_size));
  if (args.transfer_size != 0) REQUIRE_ARG(dst);
  EventRef copied = args.buffer->buffer->CopyRawToHost(args.dst, args.offset, args.transfer_size);
  AboutToWait(copied);
  args.event = ToC(std::move(copied));
  return {};
}

// The caller says where to copy to when it knows: by calling the function that it gets here.
Status Buffer_CopyRawToHostFuture(PJRT_Buffer_CopyRawToHostFuture_Args& args) {
  struct Pending {
    std::unique_ptr<Buffer> buffer;  // the array, whatever becomes of the caller's
    int64_t offset, size;
    EventRef done = std::make_shared<Event>();
  };
  args.event = nullptr;
  args.callback_data = nullptr;
  args.future_ready_callback = nullptr;
  REQUIRE_ARG(buffer);
  TRY(CheckRange(*args.buffer, args.offset, args.transfer_size));
  ArrayRef array = TRY(args.buffer->buffer->Get());
  auto own = std::make_unique<Buffer>(args.buffer->buffer->client(), std::move(array));
  auto* pending = new Pending{std::move(own), args.offset, args.transfer_size};
  args.event = ToC(pending->done);
  args.callback_data = pending;
  args.future_ready_callback = [](PJRT_Buffer_CopyRawToHostFuture_Callback_Args* ready) {
    std::unique_ptr<Pending> owned(static_cast<Pending*>(ready->callback_data));
    if (ready->error_code != PJRT_Error_Code_OK) {
      owned->done->Set(std::unexpected(
          FromC(ready->error_code, ready->error_message, ready->error_message_size)));
      return;
    }
    EventRef copied = owned->buffer->CopyRawToHost(ready->dst, owned->offset, owned->size);
    copied->OnReady([done = owned->done](const Status& status) { done->Set(status); });
  };
  return {};
}

Status Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args& args) {
  args.dst_buffer = nullptr;
  REQUIRE_ARG(buffer);
  REQUIRE_ARG(dst_memory);
  MemoryObject* memory = Object(args.dst_memory);
  std::unique_ptr<Buffer> copy = TRY(args.buffer->buffer->CopyTo(memory->memory));
  args.dst_buffer = new PJRT_Buffer(memory->client, std::move(copy));
  return {};
}
Status Buffer_CopyToDevice(PJRT_Buffer_CopyToDevice_Args& args) {
  args.dst_buffer = nullptr;
  REQUIRE_ARG(buffer);
  REQUIRE_ARG(dst_device);
  std::unique_ptr<Buffer> copy =
      TRY(args.buffer->buffer->CopyTo(args.dst_device->device->default_memory()));
  args.dst_buffer = new PJRT_Buffer(args.dst_device->client, std::move(copy));
  return {};
}

}  // namespace slot
}  // namespace weft::pjrt
