// Blobs of jax.export.
#include "serve/export_blob.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)weft::serve::ParseExportBlob({reinterpret_cast<const char*>(data), size});
  return 0;
}
