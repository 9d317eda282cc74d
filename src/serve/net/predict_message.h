// TF Serving's messages: a request for the server, and its answer.
#pragma once

#include "serve/server.h"
#include "tensorflow_serving.pb.h"

namespace weft::serve {

ModelQuery ToQuery(const tensorflow::serving::ModelSpec& spec);
Status ReadPredict(const tensorflow::serving::PredictRequest& request, InferRequest& infer);
void FillPredict(const InferResponse& result, tensorflow::serving::PredictResponse& response);

}  // namespace weft::serve
