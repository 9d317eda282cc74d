#include "serve/variables.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

namespace weft::serve {
namespace {

constexpr size_t kMostClusters =
    4;  // reading is bound by memory or disk: more threads gain nothing

}  // namespace

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
  Value placed = store_.Place(std::move(value));
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

Variables::~Variables() {
  std::vector<std::jthread> threads;
  {
    MutexLock lock(mutex_);
    threads = std::move(fetching_);
  }
}

void Variables::Prefetch(std::vector<std::string> names) {
  struct Cluster {
    int64_t bytes = 0;
    std::vector<std::string> names;
  };
  std::vector<std::pair<int64_t, std::string>> wanted;
  {
    MutexLock lock(mutex_);
    for (std::string& name : names) {
      auto found = entries_.find(name);
      if (found == entries_.end() || found->second.value.valid()) continue;
      wanted.emplace_back(found->second.shape.ByteSize(), std::move(name));
    }
  }
  // The largest first, each to the cluster that has least.
  std::ranges::sort(wanted, std::greater());
  std::vector<Cluster> clusters(std::min(wanted.size(), kMostClusters));
  for (auto& [bytes, name] : wanted) {
    Cluster& least = *std::ranges::min_element(clusters, {}, &Cluster::bytes);
    least.bytes += bytes;
    least.names.push_back(std::move(name));
  }
  MutexLock lock(mutex_);
  for (Cluster& cluster : clusters) {
    fetching_.emplace_back([this, mine = std::move(cluster.names)] {
      for (const std::string& name : mine) (void)Get(name);
    });
  }
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
    // Not those that are being read: one of them may fail.
    const bool there = entry.value.valid() &&
                       entry.value.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    if (there) bytes += entry.shape.ByteSize();
  }
  return bytes;
}

}  // namespace weft::serve
