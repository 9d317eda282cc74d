// Modules from what other programs write: StableHLO (MLIR bytecode and text) and HloModuleProto.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

// What functions say about arguments and results that HLO has no place for: lists with one item for
// each, kept as the module's frontend attributes. Empty when nothing was said. Keys:
// `parameter_memory_kinds`, `parameter_layout_modes`, `result_memory_kinds`, `result_layout_modes`,
// `result_infos`.
inline constexpr std::string_view kParameterListPrefix = "parameter_",
                                  kResultListPrefix = "result_";
std::vector<std::string> EntryList(const Module& module, std::string_view key);

// Manual computations (jax.shard_map) over a mesh of more than one device become
//   x_i = custom-call(operand_i), custom_call_target="SPMDFullToShardShape", sharding=<of
//   operand_i> y = call(x_0, ...), to_apply=<the body, in shapes of one device> r_i =
//   custom-call(y_i), custom_call_target="SPMDShardToFullShape", sharding=<of result_i>
// where `sharding` says how the whole value lies on the mesh. All three carry the frontend
// attribute `manual.axes` ("x,y": the axes over which the body is manual), the call also
// `manual.in` and `manual.out`, the shardings of all operands and results as one tuple sharding
// each. On a mesh of one device the body stands in place.

// HloModuleProto, or HloProto around it, in protobuf wire format; verified.
Result<std::unique_ptr<Module>> ImportHloProto(std::string_view bytes);

// The way back: an HloModuleProto that XLA reads too. Names that several instructions or
// computations have get a suffix, arrays without a layout are written row-major. Not written:
// statistics, origins, sparsity and the layout of constants. The second
// writes an HloModuleProtoWithConfig; `module_fields` are more fields of the module, in wire
// format.
std::string ExportHloProto(const Module& module);
std::string ExportHloProtoWithConfig(const Module& module, std::string_view module_fields = {});

}  // namespace weft::hlo
