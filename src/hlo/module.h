// A module: computations, one of which is the entry, and what the header says.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/shape.h"
#include "hlo/computation.h"
#include "hlo/instruction.h"
#include "hlo/metadata.h"

namespace weft::hlo {

enum class AliasKind : uint8_t { kMay, kMust };
struct InputOutputAlias {  // {output}: (parameter, {index}, may-alias)
  ShapeIndex output;
  int64_t parameter = 0;
  ShapeIndex parameter_index;
  AliasKind kind = AliasKind::kMay;
  bool operator==(const InputOutputAlias&) const = default;
};
struct BufferDonor {  // (parameter, {index})
  int64_t parameter = 0;
  ShapeIndex index;
  bool operator==(const BufferDonor&) const = default;
};
struct EntryLayout {  // entry_computation_layout={(shapes)->shape}
  std::vector<Shape> parameters;
  Shape result;
  bool operator==(const EntryLayout&) const = default;
};

// Source positions shared by many instructions (Metadata::stack_frame_id). Ids are 1-based; 0 is
// none.
struct FileLocation {
  int32_t file = 0, function = 0, line = 0, end_line = 0, column = 0, end_column = 0;
  bool operator==(const FileLocation&) const = default;
};
struct StackFrame {
  int32_t location = 0, parent = 0;
  bool operator==(const StackFrame&) const = default;
};
struct StackFrames {
  std::vector<std::string> files, functions;
  std::vector<FileLocation> locations;
  std::vector<StackFrame> frames;
  bool empty() const {
    return files.empty() && functions.empty() && locations.empty() && frames.empty();
  }
};

struct ModuleConfig {
  bool is_scheduled = false;
  int64_t replica_count = 1;
  int64_t num_partitions = 1;
  bool replica_count_written = false, num_partitions_written = false;
  std::vector<InputOutputAlias> input_output_alias;
  std::vector<BufferDonor> buffer_donors;
  bool alias_passthrough_params = false;
  std::optional<EntryLayout> entry_layout;
  FrontendAttributes frontend_attributes;
  // Empty: not given. One element: `true`; more: `{true,false}`.
  std::vector<bool> propagate_sharding_to_parameters, propagate_sharding_to_output;
  std::string origin_recovery_table, debug_attributes;  // `{...}` kept verbatim; empty: not given
};

class Module {
 public:
  explicit Module(std::string name) : name_(std::move(name)) {}
  Module(const Module&) = delete;
  ~Module();

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  Computation* entry() const { return entry_; }
  void set_entry(Computation* entry) { entry_ = entry; }
  ModuleConfig& config() { return config_; }
  const ModuleConfig& config() const { return config_; }
  StackFrames& stack_frames() { return stack_frames_; }
  const StackFrames& stack_frames() const { return stack_frames_; }

  // In text order: a computation stands before those that call it.
  const std::vector<std::unique_ptr<Computation>>& computations() const { return computations_; }
  Computation* AddComputation(std::string name, Computation* before = nullptr);
  void RemoveComputation(Computation* computation);  // must have no callers
  void RemoveUnusedComputations();                   // those that the entry does not reach
  Computation* FindComputation(std::string_view name) const;
  int64_t instruction_count() const;

  // `base`, or `base.2` ... such that no instruction and no computation of the module has that
  // name. Every name given out is remembered.
  std::string UniqueName(std::string_view base);
  int64_t NextId() { return next_id_++; }          // ids of instructions and computations
  int64_t id_limit() const { return next_id_; }    // all ids are below this
  void set_next_id(int64_t id) { next_id_ = id; }  // for CloneModule, which keeps ids

 private:
  std::string name_;
  std::vector<std::unique_ptr<Computation>> computations_;
  Computation* entry_ = nullptr;
  ModuleConfig config_;
  StackFrames stack_frames_;
  int64_t next_id_ = 0;
  bool names_known_ = false;  // names_ is filled on the first call of UniqueName
  std::unordered_map<std::string, int64_t> names_;  // name -> next suffix to try
};

}  // namespace weft::hlo
