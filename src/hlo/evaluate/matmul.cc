#include "hlo/evaluate/contract.h"

namespace weft::hlo {}  // namespace weft::hlo
