// Files of weights: safetensors, mapped into memory, and NumPy's npz. What is in them is known when
// they are opened; elements are read when asked for. Errors name the file, and the tensor.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/literal.h"

namespace weft::serve {

// A file's bytes for reading, as long as somebody holds it.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  std::string_view bytes() const { return {data_, size_}; }

 private:
  MappedFile(const char* data, size_t size) : data_(data), size_(size) {}
  const char* data_;
  size_t size_;
};

struct StoredTensor {
  Shape shape;                   // invalid: only known when it is read (npz)
  int64_t offset = 0, size = 0;  // bytes in the file
};
using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

// The tensors of a file of the format, by name; every offset lies within it.
Result<StoredTensors> ParseSafetensors(std::string_view file);
Result<StoredTensors> ParseNpz(std::string_view file);  // members, uncompressed

class WeightsFile {
 public:
  static Result<std::shared_ptr<const WeightsFile>> Open(const std::string& path);  // by its end
  const std::string& path() const { return path_; }
  const StoredTensors& tensors() const { return tensors_; }
  // The elements, which must be of this shape. Those of safetensors are the file's own bytes where
  // their place in it is aligned.
  Result<Literal> Read(std::string_view name, const Shape& shape) const;

 private:
  WeightsFile() = default;
  Result<Literal> ReadAs(const StoredTensor& tensor, const Shape& shape) const;
  std::string path_;
  bool is_npz_ = false;
  std::shared_ptr<const MappedFile> file_;
  StoredTensors tensors_;
};

}  // namespace weft::serve
