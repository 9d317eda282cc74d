// Which versions of which models are served: base folders that are watched, policies, labels.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "serve/servable.h"

namespace weft::serve {

struct VersionPolicy {
  enum class Kind : uint8_t { kLatest, kAll, kSpecific } kind = Kind::kLatest;
  int64_t latest = 1;
  std::vector<int64_t> specific = {};
};

struct ModelConfig {
  std::string name;
  std::string base_path;
  VersionPolicy policy = {};
  std::map<std::string, int64_t> labels = {};
};

// As TF Serving numbers them.
enum class VersionState : uint8_t {
  kStart = 10,
  kLoading = 20,
  kAvailable = 30,
  kUnloading = 40,
  kEnd = 50
};
std::string_view NameOf(VersionState state);  // "AVAILABLE"

struct VersionStatus {
  int64_t version = 0;
  VersionState state = VersionState::kStart;
  std::optional<Error> error = std::nullopt;
};

struct ModelQuery {
  std::string name;
  std::optional<int64_t> version = std::nullopt;
  std::string label = {};
};

struct ModelLimits {
  int64_t weights_bytes = 0;  // of all versions together; 0: no limit
  std::string repository;     // where models that are not configured may be loaded from; or none
};

class Models {
 public:
  Models(Backend& backend, ServerStats& stats, BatchingOptions batching, ModelLimits limits = {})
      : backend_(backend), stats_(stats), batching_(batching), limits_(limits), store_(backend) {}
  ~Models();
  Models(const Models&) = delete;

  // Loads what is new, lets go of what is not named any more. The first error, when all was tried.
  Status SetConfig(std::vector<ModelConfig> configs) WEFT_EXCLUDES(mutex_, loading_);
  // Looks at the folders once: new versions are loaded, then those that the policy does not want
  // any more are let go of. A version that fails is tried again when its folder changes.
  Status Poll() WEFT_EXCLUDES(mutex_, loading_);
  // As asked for by name: what failed is tried again, what was unloaded is served again. A model
  // that is not configured comes from the repository.
  Status LoadModel(const std::string& name) WEFT_EXCLUDES(mutex_, loading_);
  // Lets go of all versions, until it is loaded again; the model stays known.
  Status UnloadModel(const std::string& name) WEFT_EXCLUDES(mutex_, loading_);
  // Polls from now on, on a thread of its own.
  void Watch(Time interval) WEFT_EXCLUDES(mutex_);

  // The version asked for, or the latest that is available. Whoever holds it may use it.
  Result<std::shared_ptr<Servable>> Find(const ModelQuery& query) const WEFT_EXCLUDES(mutex_);
  Result<std::vector<VersionStatus>> StatusOf(const ModelQuery& query) const WEFT_EXCLUDES(mutex_);
  std::vector<std::string> Names() const WEFT_EXCLUDES(mutex_);
  // Weights that another version had already.
  int64_t shared_weights() const { return store_.shared(); }
  int64_t weights_bytes() const WEFT_EXCLUDES(mutex_);
  // Every model has a version that is available, but for those that were unloaded.
  bool Ready() const WEFT_EXCLUDES(mutex_);

 private:
  struct Version {
    VersionState state = VersionState::kStart;
    std::optional<Error> error;
    std::shared_ptr<Servable> servable;  // while it is available
    std::weak_ptr<Servable> going;       // while requests still hold it
    int64_t stamp = 0;                   // of the folder, when it failed
  };
  struct Model {
    ModelConfig config;
    std::map<int64_t, Version> versions;
    bool unloaded = false;
  };
  Result<std::shared_ptr<Servable>> LoadServable(const ModelConfig& config, int64_t version,
                                                 const std::string& path) WEFT_REQUIRES(loading_)
      WEFT_EXCLUDES(mutex_);
  Status PollModel(const ModelConfig& config) WEFT_REQUIRES(loading_) WEFT_EXCLUDES(mutex_);
  Status LoadVersion(const ModelConfig& config, int64_t version) WEFT_REQUIRES(loading_)
      WEFT_EXCLUDES(mutex_);
  // Lets go of what is not to be kept; `there`: versions that have a folder.
  void Unload(const std::string& model, const std::set<int64_t>& keep,
              const std::set<int64_t>& there) WEFT_EXCLUDES(mutex_);

  Backend& backend_;
  ServerStats& stats_;
  const BatchingOptions batching_;
  const ModelLimits limits_;
  WeightStore store_;
  Mutex loading_;  // one loads at a time; requests go on
  mutable Mutex mutex_;
  std::map<std::string, Model, std::less<>> models_ WEFT_GUARDED_BY(mutex_);
  std::condition_variable wake_;
  bool stopping_ WEFT_GUARDED_BY(mutex_) = false;
  std::thread watcher_;
};

}  // namespace weft::serve
