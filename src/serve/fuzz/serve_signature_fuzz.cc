// signature.json. What is read has shapes and sizes that can be asked for.
#include "serve/signature.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto model = weft::serve::ParseSignature({reinterpret_cast<const char*>(data), size});
  if (!model) return 0;
  for (const auto& graph : model->graphs) {
    for (const auto& program : graph.programs) {
      for (const auto& input : graph.inputs) (void)input.At(program.sizes).ByteSize();
    }
    (void)graph.IsBatched();
  }
  return 0;
}
