// HLO text: reading and printing. FORMAT.md describes the grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "hlo/module.h"

namespace weft::hlo {

// Reads a module: with header, without header, or a single instruction. Errors carry line, column
// and the line's text.
Result<std::unique_ptr<Module>> ParseModule(std::string_view text);

// Parts of the grammar alone; the whole text must be consumed.
Result<Shape> ParseShape(std::string_view text);
Result<Sharding> ParseSharding(std::string_view text);
Result<ReplicaGroups> ParseReplicaGroups(std::string_view text);
Result<Literal> ParseLiteral(const Shape& shape, std::string_view text);

struct PrintOptions {
  bool percent = true;  // %name
  bool layouts = true;
  bool operand_shapes = false;  // f32[4] %x instead of %x
  bool metadata = true;
  bool backend_config = true;
  bool sharding = true;
  bool frontend_attributes = true;
  bool control_dependencies = true;
  bool origin = true;
  bool async_sugar = true;  // all-to-all-start(...) instead of async-start(...), calls=...
  bool stack_frames = true;
  bool header = true;
  int64_t max_constant_elements = -1;  // larger constants print as {...}; -1: no limit
  bool canonical = false;  // numbers for names, only what the entry reaches, in order of calls
  bool sort_json = false;  // keys of backend configs sorted

  static PrintOptions Full() { return {}; }
  static PrintOptions
  Short();  // for people: no percent, metadata, layouts, configs; constants over 16 elided
  static PrintOptions
  Canonical();  // the text behind Fingerprint: no metadata, no names, JSON keys sorted
};

std::string PrintModule(const Module& module, const PrintOptions& options = {});
std::string PrintComputation(const Computation& computation, const PrintOptions& options = {});
std::string PrintInstruction(const Instruction& instruction, const PrintOptions& options = {});

// The same for modules that differ only in names, metadata and key order of configs.
uint64_t Fingerprint(const Module& module);

}  // namespace weft::hlo
