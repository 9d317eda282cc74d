// Open Inference's messages: a request for the server, and its answer.
#pragma once

#include "inference.pb.h"
#include "serve/server.h"
#include "serve/shared_memory.h"

namespace weft::serve {

// `infer` has what metadata said already; inputs may lie in shared memory.
Status ReadInferRequest(const inference::ModelInferRequest& request, const SharedMemory& memory,
                        InferRequest& infer);
// `request`: for outputs that it wants in shared memory.
Status FillInferResponse(const InferResponse& result, const inference::ModelInferRequest& request,
                         const SharedMemory& memory, inference::ModelInferResponse& response);

}  // namespace weft::serve
