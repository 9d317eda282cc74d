// What a module needs before its order is chosen: collectives that may overlap, values that do not
// wait for each other without a reason, loops whose iterations may overlap.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "hlo/module.h"

namespace weft::compiler::schedule {

// Collectives become async-start and async-done, with their facts; those whose mnemonic is in
// `disabled` (or all, by "all") stay. Returns how many.
Result<int64_t> MakeAsync(hlo::Module& module, const std::vector<std::string>& disabled);

// Elements of tuples that are made in the same computation are read directly, and a barrier of a
// tuple becomes a barrier of each element: none of them waits for its neighbours.
Result<bool> SplitTuples(hlo::Module& module);

// Reshapes of row-major arrays, which move nothing, become bitcasts: what says so to every reader
// of the text.
Result<bool> RenameReshapes(hlo::Module& module);

// Groups of collectives as lists of devices, whatever form they were written in: whoever reads the
// text needs no mesh.
Status WriteOutGroups(hlo::Module& module);

// Loops of known trip count that hold collectives are unrolled, the innermost first: whole, where
// the module then has at most `most` instructions, else by a factor of the trip count. Channels and
// scheduling groups of each copy are its own.
Result<int64_t> UnrollLoops(hlo::Module& module, int64_t most);

}  // namespace weft::compiler::schedule
