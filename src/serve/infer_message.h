// Open Inference's ModelInfer, as bytes: a request for the server, and its answer. Tensors go from
// the message into literals and back without a copy between.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "serve/message.h"
#include "serve/server.h"
#include "serve/shared_memory.h"

namespace weft::serve {

// An empty version: the latest.
Result<ModelQuery> ToModelQuery(std::string_view name, std::string_view version);

// What an answer has of its request.
struct InferReply {
  std::string id;
  std::vector<std::pair<std::string, SharedSlice>> shared;  // outputs that go there, by name
};

// `infer` has what metadata said already; inputs may lie in shared memory.
// `storage`: what the bytes lie in, which inputs keep that are read in place; null: all are copied.
Status ReadInferRequest(std::string_view bytes, const SharedMemory& memory, InferRequest& infer,
                        InferReply& reply, const std::shared_ptr<std::byte[]>& storage = nullptr);
// Behind `prefix` bytes, left for the caller. Large tensors stay where they lie.
Result<Message> WriteInferResponse(const InferResponse& result, const InferReply& reply,
                                   const SharedMemory& memory, size_t prefix);

}  // namespace weft::serve
