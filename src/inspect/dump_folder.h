// A numbered folder with everything that was made from one module, as files that can be read back.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/literal.h"

namespace weft::inspect {

class DumpFolder {
 public:
  // Makes directory/NNNN.name, NNNN being the first number that is free, and what is missing above.
  static Result<DumpFolder> Make(const std::string& directory, std::string_view name);

  const std::string& path() const { return path_; }
  // Errors are warnings to the user: a dump that fails does not keep a program from running.
  void Write(std::string_view name, std::string_view text) const;
  // 0012.simplify.hlo, counting from 0000.
  void WriteNumbered(std::string_view name, std::string_view text);
  // The arrays as argument0.npy, ... and the types that NumPy lacks. Returns the --input flags that
  // read them.
  std::string WriteArguments(std::span<const Literal> leaves) const;
  // REPRO: commands to be run in the folder.
  void WriteRepro(std::string_view commands) const;

 private:
  explicit DumpFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
  int next_ = 0;
};

// directory/module_NNNN.NAME.weft_after_optimizations.txt and .hlo.pb, as XLA's xla_dump_to names
// them, NNNN being the first number that is free for the name. What is empty is not written.
void WriteOptimized(const std::string& directory, std::string_view name, std::string_view text,
                    std::string_view proto);

}  // namespace weft::inspect
