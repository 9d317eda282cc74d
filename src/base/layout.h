// How an array's elements lie in memory. Default (and meaning of an absent layout): row-major,
// untiled, space 0.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/inline_vec.h"
#include "base/value_ptr.h"

namespace weft {

class Shape;

struct Tile {
  static constexpr int64_t kCombine =
      std::numeric_limits<int64_t>::min();  // `*`: merged with the next dimension
  InlineVec<int64_t, 4> dims;
  bool operator==(const Tile&) const = default;
};

struct SplitConfig {
  int64_t dimension = 0;
  std::vector<int64_t> indices;
  bool operator==(const SplitConfig&) const = default;
};

enum class DimLevelType : uint8_t { kDense, kCompressed, kSingleton, kLooseCompressed };
struct DimLevel {
  DimLevelType type = DimLevelType::kDense;
  bool unique = true;   // `+` clears it
  bool ordered = true;  // `~` clears it
  bool operator==(const DimLevel&) const = default;
};

// Everything after the `:` of `{1,0:T(8,128)E(4)S(5)}`.
struct LayoutExtras {
  std::vector<DimLevel> dim_levels;             // D(D,C)
  std::vector<Tile> tiles;                      // T(8,128)(2,1)
  int64_t tail_padding_alignment = 1;           // L(n), elements
  DType index_type = DType::kInvalid;           // #(u32)
  DType pointer_type = DType::kInvalid;         // *(u32)
  int64_t element_bits = 0;                     // E(bits); 0: the dtype's own width
  int64_t memory_space = 0;                     // S(n)
  std::vector<SplitConfig> splits;              // SC(dim:i,j)
  std::shared_ptr<const Shape> physical_shape;  // P(shape), sparse arrays only
  int64_t dynamic_metadata_prefix_bytes = 0;    // M(bytes)
  bool operator==(const LayoutExtras& other) const;
};

struct Layout {
  Dims minor_to_major;
  ValuePtr<LayoutExtras> extras;

  static Layout RowMajor(int64_t rank);
  bool IsRowMajor() const;  // order alone, extras not looked at
  int64_t memory_space() const { return extras ? extras->memory_space : 0; }
  bool operator==(const Layout&) const = default;
  void AppendTo(std::string& out) const;  // "{1,0:T(8,128)S(5)}"
  std::string ToString() const;
};

}  // namespace weft
