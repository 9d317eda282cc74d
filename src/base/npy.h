// NumPy's .npy files (versions 1 to 3) to and from literals. Types that NumPy lacks are kept as
// their bits, one element in one or two bytes (u1, u2; i1 for small signed integers), and named in
// a types.txt beside the files: a line `0 f8e4m3fn[256]` for each, the number being the file's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/literal.h"

namespace weft {

// Little endian (or one byte), C or Fortran order. `as` says what the elements are when the file
// cannot: any type of the width of the file's u1, u2, ... or V1, V2, ... Anything else that differs
// from the file's type is an error.
Result<Literal> ParseNpy(std::string_view bytes, DType as = DType::kInvalid);
Result<Literal> ReadNpy(const std::string& path, DType as = DType::kInvalid);
// As above; the dimensions must be those of the shape too.
Result<Literal> ReadNpyAs(const std::string& path, const Shape& shape);

Result<std::string> FormatNpy(const Literal& array);  // version 1, C order
Status WriteNpy(const std::string& path, const Literal& array);

// True for the types that need a line in types.txt.
bool NumpyLacks(DType t);
void AppendNpyTypeLine(std::string& out, int64_t index, const Shape& shape);
Result<std::vector<std::pair<int64_t, Shape>>> ParseNpyTypes(std::string_view text);

}  // namespace weft
