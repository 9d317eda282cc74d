// Modules from what other programs write: StableHLO (MLIR bytecode and text) and HloModuleProto.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "hlo/module.h"

namespace weft::hlo {

namespace mlir {
class Tree;
}

enum class FileFormat { kHloText, kStableHloBytecode, kStableHloText, kHloProto };
// By content; text that is neither is taken for HLO text.
FileFormat DetectFormat(std::string_view contents);

// Any of the formats, verified.
Result<std::unique_ptr<Module>> ReadModule(std::string contents);

// StableHLO, bytecode or text, verified. Donation, memory kinds, layout modes, meshes and shardings
// become the module's (input_output_alias, buffer_donors, entry layout, shardings); source
// positions become metadata. Composites are calls whose frontend attributes `composite.name`,
// `composite.attributes` and `composite.version` name them.
Result<std::unique_ptr<Module>> ImportStableHlo(std::string contents);

// The second half of it: from a Tree that a reader made.
Result<std::unique_ptr<Module>> TreeToHlo(const mlir::Tree& tree);

// HloModuleProto, or HloProto around it, in protobuf wire format; verified.
Result<std::unique_ptr<Module>> ImportHloProto(std::string_view bytes);

}  // namespace weft::hlo
