// The program of one device, made from one of several partitions before it is compiled.
#pragma once

#include <memory>
#include <vector>

#include "base/error.h"
#include "client/compile_options.h"
#include "client/shards.h"
#include "compiler/options.h"
#include "hlo/module.h"
#include "inspect/compile_watch.h"
#include "runtime/device.h"

namespace weft::client {

struct PartitionedProgram {
  std::unique_ptr<hlo::Module> module;      // in shapes of one device
  std::vector<Shards> parameters, results;  // how the leaves lie on the devices
};

// Unimplemented: the partitioner does not take it. The module is not changed. `device`: whose links
// reshardings are planned for; null: nobody's. Those who asked how a value lies
// (jax.debug.inspect_array_sharding) are told.
Result<PartitionedProgram> PartitionProgram(const hlo::Module& module,
                                            const CompileRequest& request,
                                            const compiler::CompileOptions& options,
                                            const runtime::Device* device,
                                            inspect::CompileWatch& watch);

}  // namespace weft::client
