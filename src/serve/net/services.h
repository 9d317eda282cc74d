// The services of gRPC, as methods by name.
#pragma once

#include "serve/net/call_facts.h"
#include "serve/server.h"

namespace weft::serve {

// inference.GRPCInferenceService: inference, and what manages the server.
void AddInferenceMethods(Methods& methods, Server& server);
void AddManageMethods(Methods& methods, Server& server);
// tensorflow.serving.PredictionService and ModelService.
void AddTfMethods(Methods& methods, Server& server);

}  // namespace weft::serve
