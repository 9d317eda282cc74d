// What a sender asks of a target: one input of halves.
#pragma once

#include <vector>

#include "inference.pb.h"
#include "senders.h"

namespace weft::serve {

inline inference::ModelInferRequest InferRequest(const LoadTarget& target) {
  inference::ModelInferRequest request;
  request.set_model_name(target.model);
  auto* input = request.add_inputs();
  input->set_name(target.input);
  input->set_datatype("FP32");
  for (int64_t dim : target.dims) input->add_shape(dim);
  std::vector<float> values(static_cast<size_t>(target.elements()), 0.5f);
  request.add_raw_input_contents(values.data(), values.size() * sizeof(float));
  return request;
}

}  // namespace weft::serve
