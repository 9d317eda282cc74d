// Where an instruction came from, and other facts carried along that do not change its meaning.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/shape.h"

namespace weft::hlo {

struct Metadata {
  std::string op_type, op_name, source_file;
  int32_t source_line = 0, source_end_line = 0, source_column = 0, source_end_column = 0;
  int32_t stack_frame_id = 0;  // 1-based into Module::stack_frames
  std::vector<int64_t> profile_type;
  std::string deduplicated_name, scheduling_name, payload;
  bool operator==(const Metadata&) const = default;
};

// frontend_attributes={k="v",k2={json}}: insertion order is kept; a value written as a dictionary
// stays one.
struct FrontendAttribute {
  std::string key, value;
  bool is_dict = false;  // value is `{...}` kept verbatim
  bool operator==(const FrontendAttribute&) const = default;
};
using FrontendAttributes = std::vector<FrontendAttribute>;

struct Statistic {
  std::string name;
  double value = 0;
  bool operator==(const Statistic&) const = default;
};
struct Statistics {
  int64_t visualizing_index = 0;
  std::vector<Statistic> values;
  bool operator==(const Statistics&) const = default;
};

// origin={...}: the leaves of a tree shaped like the instruction's tuple shape.
struct OriginNode {
  enum class Kind : uint8_t { kEmpty, kArray, kTuple, kSyntheticCall };
  Kind kind = Kind::kEmpty;
  std::string instruction;  // kArray
  ShapeIndex index;         // kArray
  std::vector<OriginNode> elements;
  bool operator==(const OriginNode&) const = default;
};

// backend_config="text" or ={json}, kept verbatim.
struct BackendConfig {
  std::string text;
  bool is_dict = false;
  bool operator==(const BackendConfig&) const = default;
};

}  // namespace weft::hlo
