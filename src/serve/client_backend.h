// The devices of a client (the objects that the plugin has too) as a Backend.
#pragma once

#include <memory>

#include "base/error.h"
#include "serve/backend.h"

namespace weft::serve {

// By the environment: WEFT_PLATFORM, WEFT_CACHE, WEFT_THREADS, ...
Result<std::unique_ptr<Backend>> MakeClientBackend();

}  // namespace weft::serve
