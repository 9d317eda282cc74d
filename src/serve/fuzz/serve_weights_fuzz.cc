// safetensors and npz, by the first byte. Every tensor that is found lies within the file.
#include <cstdlib>
#include <string_view>

#include "base/npy.h"
#include "serve/weights.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view file(reinterpret_cast<const char*>(data) + 1, size - 1);
  bool npz = data[0] % 2 == 0;
  auto tensors = npz ? weft::serve::ParseNpz(file) : weft::serve::ParseSafetensors(file);
  if (!tensors) return 0;
  for (const auto& [name, tensor] : *tensors) {
    if (tensor.offset < 0 || tensor.size < 0 ||
        tensor.offset + tensor.size > static_cast<int64_t>(file.size())) {
      std::abort();
    }
    std::string_view bytes =
        file.substr(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.size));
    if (npz) (void)weft::ParseNpy(bytes);
  }
  return 0;
}
