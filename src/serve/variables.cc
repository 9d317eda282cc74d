#include "serve/variables.h"

#include <utility>

namespace weft::serve {

Status Variables::Register(const VariableSpec& variable) {
  if (file_ == nullptr) return NotFound("variable ", variable.name, ": the model has no weights");
  auto stored = file_->tensors().find(variable.name);
  if (stored == file_->tensors().end()) {
    return NotFound(file_->path(), ": no tensor ", variable.name, ", which the signature names");
  }
  const Shape& in_file = stored->second.shape;
  if (in_file.IsValid() && !Shape::Compatible(in_file, variable.shape)) {
    return InvalidArgument(file_->path(), ": tensor ", variable.name, ": is ", in_file,
                           ", the signature says ", variable.shape);
  }
  MutexLock lock(mutex_);
  auto [found, added] = entries_.try_emplace(variable.name, Entry{variable.shape, {}});
  if (added || Shape::Compatible(found->second.shape, variable.shape)) return {};
  return MakeError(Code::kAlreadyExists, "variable ", variable.name, ": registered as ",
                   found->second.shape, ", now as ", variable.shape);
}

Result<Shape> Variables::ShapeOf(std::string_view name) const {
  MutexLock lock(mutex_);
  auto found = entries_.find(name);
  if (found == entries_.end()) return NotFound("variable ", name, ": not registered");
  return found->second.shape;
}

Variables::Value Variables::Load(std::string_view name, const Shape& shape) {
  Literal value = TRY(file_->Read(name, shape));
  Value placed = backend_.Place(std::move(value));
  if (!placed) placed.error().Prefix(StrCat(file_->path(), ": tensor ", name, ": "));
  return placed;
}

Result<DeviceValueRef> Variables::Get(std::string_view name) {
  std::promise<Value> mine;
  std::shared_future<Value> theirs;
  Shape shape;
  {
    MutexLock lock(mutex_);
    auto found = entries_.find(name);
    if (found == entries_.end()) return NotFound("variable ", name, ": not registered");
    theirs = found->second.value;
    shape = found->second.shape;
    if (!theirs.valid()) found->second.value = mine.get_future().share();
  }
  if (theirs.valid()) return theirs.get();
  Value value = Load(name, shape);
  if (!value) {
    MutexLock lock(mutex_);
    entries_.find(name)->second.value = {};
  }
  mine.set_value(value);
  return value;
}

int64_t Variables::registered_bytes() const {
  MutexLock lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [name, entry] : entries_) bytes += entry.shape.ByteSize();
  return bytes;
}

int64_t Variables::loaded_bytes() const {
  MutexLock lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [name, entry] : entries_) {
    if (entry.value.valid()) bytes += entry.shape.ByteSize();
  }
  return bytes;
}

}  // namespace weft::serve
