#include "serve/models.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/nearest.h"

namespace weft::serve {
namespace {

// Changes when files are added to the folder, removed or renamed in it.
int64_t StampOf(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return 0;
  return info.st_mtim.tv_sec * kSecond + info.st_mtim.tv_nsec;
}

std::set<int64_t> Wanted(const VersionPolicy& policy, const std::vector<int64_t>& there) {
  std::set<int64_t> wanted(there.begin(), there.end());
  switch (policy.kind) {
    case VersionPolicy::Kind::kAll: break;
    case VersionPolicy::Kind::kLatest:
      while (static_cast<int64_t>(wanted.size()) > policy.latest) wanted.erase(wanted.begin());
      break;
    case VersionPolicy::Kind::kSpecific:
      std::erase_if(wanted, [&](int64_t v) { return std::ranges::count(policy.specific, v) == 0; });
      break;
  }
  return wanted;
}

}  // namespace

std::string_view NameOf(VersionState state) {
  switch (state) {
    case VersionState::kStart: return "START";
    case VersionState::kLoading: return "LOADING";
    case VersionState::kAvailable: return "AVAILABLE";
    case VersionState::kUnloading: return "UNLOADING";
    case VersionState::kEnd: return "END";
  }
  return "UNKNOWN";
}

Models::~Models() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

Status Models::SetConfig(std::vector<ModelConfig> configs) {
  std::set<std::string> names;
  for (const ModelConfig& config : configs) {
    if (config.name.empty()) return InvalidArgument("a model without a name");
    if (!names.insert(config.name).second) return InvalidArgument("model ", config.name, ": twice");
  }
  {
    MutexLock lock(mutex_);
    std::erase_if(models_, [&](const auto& model) { return !names.contains(model.first); });
    for (ModelConfig& config : configs) {
      Model& model = models_[config.name];
      // Another folder is another model of the same name.
      if (model.config.base_path != config.base_path) model.versions.clear();
      model.config = std::move(config);
    }
  }
  return Poll();
}

Status Models::Poll() {
  MutexLock loading(loading_);
  std::vector<ModelConfig> configs;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, model] : models_) {
      if (!model.unloaded) configs.push_back(model.config);
    }
  }
  Status first;
  for (const ModelConfig& config : configs) {
    Status status = PollModel(config);
    if (!status && first) first = status;
  }
  return first;
}

Status Models::PollModel(const ModelConfig& config) {
  std::vector<int64_t> there = TRY(ListVersions(config.base_path));
  std::set<int64_t> wanted = Wanted(config.policy, there);
  if (wanted.empty()) {
    return NotFound("model ", config.name, ": ", config.base_path, " has no version",
                    there.empty() ? "" : " that the policy wants");
  }
  Status first;
  bool any = false;
  for (int64_t version : wanted) {
    Status status = LoadVersion(config, version);
    any |= status.has_value();
    if (!status && first) first = status;
  }
  // What serves is let go of when something else can.
  if (any) Unload(config.name, wanted, {there.begin(), there.end()});
  return first;
}

Status Models::LoadVersion(const ModelConfig& config, int64_t version) {
  std::string path = StrCat(config.base_path, "/", version);
  int64_t stamp = StampOf(path);
  {
    MutexLock lock(mutex_);
    auto model = models_.find(config.name);
    if (model == models_.end() || model->second.unloaded || stopping_) return {};
    Version& entry = model->second.versions[version];
    if (entry.state == VersionState::kAvailable) return {};
    if (entry.error && entry.stamp == stamp) return std::unexpected(*entry.error);
    entry = {};
    entry.state = VersionState::kLoading;
  }
  Result<std::shared_ptr<Servable>> loaded = LoadServable(config, version, path);
  MutexLock lock(mutex_);
  auto model = models_.find(config.name);
  if (model == models_.end() || model->second.unloaded) return {};
  Version& entry = model->second.versions[version];
  if (loaded) {
    entry.state = VersionState::kAvailable;
    entry.servable = std::move(*loaded);
    return {};
  }
  LOG(warn) << "model " << config.name << ": version " << version << ": " << loaded.error();
  entry.state = VersionState::kEnd;
  entry.error = loaded.error();
  entry.stamp = stamp;
  return std::unexpected(loaded.error());
}

// Weights beyond the limit are refused before any are read.
Result<std::shared_ptr<Servable>> Models::LoadServable(const ModelConfig& config, int64_t version,
                                                       const std::string& path) {
  int64_t left = limits_.weights_bytes == 0 ? 0 : limits_.weights_bytes - weights_bytes();
  if (limits_.weights_bytes != 0 && left <= 0) {
    return MakeError(Code::kResourceExhausted, "no room for weights: ", weights_bytes(), " of ",
                     limits_.weights_bytes, " bytes are taken");
  }
  return Servable::Load({.name = config.name, .version = version, .path = path, .most_bytes = left},
                        backend_, store_, stats_.Of(config.name), batching_);
}

int64_t Models::weights_bytes() const {
  MutexLock lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [name, model] : models_) {
    for (const auto& [number, version] : model.versions) {
      if (version.servable != nullptr) bytes += version.servable->variables().loaded_bytes();
    }
  }
  return bytes;
}

Status Models::LoadModel(const std::string& name) {
  MutexLock loading(loading_);
  ModelConfig config;
  {
    MutexLock lock(mutex_);
    auto model = models_.find(name);
    if (model == models_.end()) {
      // One folder of the repository, not a path.
      if (limits_.repository.empty() || name.empty() || name[0] == '.' ||
          name.find('/') != name.npos || name.find('\0') != name.npos) {
        return NotFound("model ", name, ": not configured");
      }
      model = models_.try_emplace(name).first;
      model->second.config = {name, StrCat(limits_.repository, "/", name)};
    }
    model->second.unloaded = false;
    for (auto& [number, version] : model->second.versions) version.stamp = 0;
    config = model->second.config;
  }
  Status status = PollModel(config);
  if (!status) {
    // What never was there is not kept.
    MutexLock lock(mutex_);
    auto model = models_.find(name);
    if (model != models_.end() && model->second.versions.empty()) models_.erase(model);
  }
  return status;
}

Status Models::UnloadModel(const std::string& name) {
  MutexLock loading(loading_);
  {
    MutexLock lock(mutex_);
    auto model = models_.find(name);
    if (model == models_.end()) return NotFound("model ", name, ": not served");
    model->second.unloaded = true;
  }
  Unload(name, {}, {});
  return {};
}

void Models::Unload(const std::string& name, const std::set<int64_t>& keep,
                    const std::set<int64_t>& there) {
  std::vector<std::shared_ptr<Servable>> gone;  // freed outside of the lock
  MutexLock lock(mutex_);
  auto model = models_.find(name);
  if (model == models_.end()) return;
  for (auto& [number, version] : model->second.versions) {
    if (version.state == VersionState::kUnloading && version.going.expired()) {
      version.state = VersionState::kEnd;
    }
    if (keep.contains(number) || version.state != VersionState::kAvailable) continue;
    version.state = VersionState::kUnloading;
    version.going = version.servable;
    gone.push_back(std::move(version.servable));
  }
  // Those that ended and whose folders are gone are forgotten.
  std::erase_if(model->second.versions, [&](const auto& version) {
    return version.second.state == VersionState::kEnd && !there.contains(version.first);
  });
}

void Models::Watch(Time interval) {
  watcher_ = std::thread([this, interval] {
    for (;;) {
      {
        MutexLock lock(mutex_);
        auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(interval);
        while (!stopping_ && std::chrono::steady_clock::now() < until) {
          mutex_.WaitUntil(wake_, until);
        }
        if (stopping_) return;
      }
      // Errors are logged where they happen first, and kept with the version.
      if (Status status = Poll(); !status) {
        LOG(info) << status.error();
      }
    }
  });
}

Result<std::shared_ptr<Servable>> Models::Find(const ModelQuery& query) const {
  MutexLock lock(mutex_);
  auto found = models_.find(query.name);
  if (found == models_.end()) {
    std::vector<std::string_view> known;
    for (const auto& [name, model] : models_) known.push_back(name);
    return NotFound("model ", query.name, ": not served", DidYouMean(query.name, known));
  }
  const Model& model = found->second;
  std::optional<int64_t> wanted = query.version;
  if (!query.label.empty()) {
    auto label = model.config.labels.find(query.label);
    if (label == model.config.labels.end()) {
      return NotFound("model ", query.name, ": no label ", query.label);
    }
    wanted = label->second;
  }
  for (auto v = model.versions.rbegin(); v != model.versions.rend(); ++v) {
    if (wanted && v->first != *wanted) continue;
    if (v->second.servable != nullptr) return v->second.servable;
    if (wanted && v->second.error) return std::unexpected(*v->second.error);
  }
  if (!wanted)
    return MakeError(Code::kUnavailable, "model ", query.name, ": no version is available");
  return NotFound("model ", query.name, ": version ", *wanted, " is not available");
}

Result<std::vector<VersionStatus>> Models::StatusOf(const ModelQuery& query) const {
  MutexLock lock(mutex_);
  auto found = models_.find(query.name);
  if (found == models_.end()) return NotFound("model ", query.name, ": not served");
  std::optional<int64_t> wanted = query.version;
  if (!query.label.empty()) {
    auto label = found->second.config.labels.find(query.label);
    if (label == found->second.config.labels.end()) {
      return NotFound("model ", query.name, ": no label ", query.label);
    }
    wanted = label->second;
  }
  std::vector<VersionStatus> all;
  const auto& versions = found->second.versions;
  for (auto v = versions.rbegin(); v != versions.rend(); ++v) {
    if (wanted && v->first != *wanted) continue;
    VersionState state = v->second.state;
    if (state == VersionState::kUnloading && v->second.going.expired()) state = VersionState::kEnd;
    all.push_back({v->first, state, v->second.error});
  }
  if (wanted && all.empty()) {
    return NotFound("model ", query.name, ": no version ", *wanted);
  }
  return all;
}

std::vector<std::string> Models::Names() const {
  MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, model] : models_) names.push_back(name);
  return names;
}

bool Models::Ready() const {
  MutexLock lock(mutex_);
  return std::ranges::all_of(models_, [](const auto& model) {
    if (model.second.unloaded) return true;
    return std::ranges::any_of(model.second.versions,
                               [](const auto& v) { return v.second.servable != nullptr; });
  });
}

}  // namespace weft::serve
