// REST beside inference: the repository, shared memory, a model's configuration (Triton's
// extensions), status and traces.
#include <thread>
#include <utility>

#include "serve/json.h"
#include "serve/rest.h"
#include "serve/status.h"
#include "serve/types.h"

namespace weft::serve {
namespace {

constexpr double kLongestTrace = 60;  // seconds

// The value of `key` in "?key=value&..."; empty: none.
std::string_view QueryValue(std::string_view target, std::string_view key) {
  size_t mark = target.find('?');
  std::string_view rest = mark == target.npos ? std::string_view() : target.substr(mark + 1);
  while (!rest.empty()) {
    size_t end = std::min(rest.find('&'), rest.size());
    std::string_view pair = rest.substr(0, end);
    if (TakePrefix(pair, key) && TakePrefix(pair, "=")) return pair;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

Result<SharedMemory::Facts> ReadRegion(std::string_view body) {
  SharedMemory::Facts facts;
  JsonReader json(body);
  std::string key;
  TRY(json.BeginObject());
  while (TRY(json.NextKey(key))) {
    if (key == "key") {
      facts.key = TRY(json.String());
    } else if (key == "offset") {
      facts.offset = TRY(json.Int());
    } else if (key == "byte_size") {
      facts.size = TRY(json.Int());
    } else {
      TRY(json.Skip());
    }
  }
  TRY(json.End());
  return facts;
}

std::string RegionsJson(const std::map<std::string, SharedMemory::Facts>& regions) {
  std::string out = "[";
  for (const auto& [name, facts] : regions) {
    AppendJsonText(out += out.size() > 1 ? ",{\"name\":" : "{\"name\":", name);
    AppendJsonText(out += ",\"key\":", facts.key);
    StrAppend(out, ",\"offset\":", facts.offset, ",\"byte_size\":", facts.size, "}");
  }
  return out + "]";
}

// As Triton's configuration has it: the batch is not among the dimensions.
void AppendConfigTensors(std::string& out, const std::vector<TensorSpec>& tensors, bool batched) {
  out += '[';
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TypeNames* type = FindType(tensors[i].dtype);
    AppendJsonText(out += i > 0 ? ",{\"name\":" : "{\"name\":", tensors[i].name);
    StrAppend(out, ",\"data_type\":\"TYPE_", type != nullptr ? type->inference : "INVALID",
              "\",\"dims\":[");
    for (size_t d = batched ? 1 : 0; d < tensors[i].dims.size(); ++d) {
      const DimSpec& dim = tensors[i].dims[d];
      StrAppend(out, d > (batched ? 1 : 0) ? "," : "", dim.symbol < 0 ? dim.size : int64_t{-1});
    }
    out += "]}";
  }
  out += ']';
}

}  // namespace

Result<std::string> RestApi::ModelConfiguration(const Target& target) const {
  std::shared_ptr<Servable> servable = TRY(server_.models().Find(target.model));
  Graph* graph = TRY(servable->Find(""));
  const GraphSpec& spec = graph->spec();
  const bool batched = spec.IsBatched();
  std::string out = "{\"name\":";
  AppendJsonText(out, servable->name());
  StrAppend(out, ",\"platform\":\"weft_jax\",\"backend\":\"weft\",\"version_policy\":",
            "{\"latest\":{\"num_versions\":1}},\"max_batch_size\":",
            batched ? spec.LargestBatch() : 0, ",\"input\":");
  AppendConfigTensors(out, spec.inputs, batched);
  AppendConfigTensors(out += ",\"output\":", spec.outputs, batched);
  if (batched) out += ",\"dynamic_batching\":{}";
  return out + "}";
}

std::string RestApi::RepositoryIndex(bool only_ready) const {
  std::string out = "[";
  for (const std::string& name : server_.models().Names()) {
    Result<std::vector<VersionStatus>> versions = server_.models().StatusOf({name});
    if (!versions) continue;
    for (const VersionStatus& version : *versions) {
      bool ready = version.state == VersionState::kAvailable;
      if (only_ready && !ready) continue;
      AppendJsonText(out += out.size() > 1 ? ",{\"name\":" : "{\"name\":", name);
      StrAppend(out, ",\"version\":\"", version.version, "\",\"state\":\"",
                ready ? "READY" : NameOf(version.state), "\",\"reason\":");
      AppendJsonText(out, version.error ? version.error->message() : "");
      out += '}';
    }
  }
  return out + "]";
}

Status RestApi::ManageRepository(std::string_view path, HttpRequest& request,
                                 HttpDone& done) const {
  if (path == "index") {
    bool ready = false;
    if (!request.body.empty()) {
      JsonReader json(request.body);
      std::string key;
      TRY(json.BeginObject());
      while (TRY(json.NextKey(key))) {
        if (key == "ready") {
          ready = TRY(json.Bool());
        } else {
          TRY(json.Skip());
        }
      }
    }
    return done(JsonResponse(RepositoryIndex(ready))), Status();
  }
  if (!TakePrefix(path, "models/")) return NotFound("no such path: ", request.target);
  size_t slash = path.rfind('/');
  std::string_view action = slash == path.npos ? path : path.substr(slash + 1);
  if (slash == path.npos || (action != "load" && action != "unload"))
    return NotFound("no such path: ", request.target);
  if (request.method != "POST") return done(WrongMethod("POST")), Status();
  std::string name = TRY(DecodePath(path.substr(0, slash)));
  // On a thread of its own: loading takes long, and those of HTTP have other requests. Who waits
  // for all answers before the server goes waits for this one.
  std::thread([&models = server_.models(), name = std::move(name), load = action == "load", done] {
    Status status = load ? models.LoadModel(name) : models.UnloadModel(name);
    done(status ? JsonResponse("{}") : ErrorResponse(status.error()));
  }).detach();
  return {};
}

// [region/NAME/](status|register|unregister).
Status RestApi::ManageSharedMemory(std::string_view path, HttpRequest& request,
                                   HttpDone& done) const {
  SharedMemory& memory = server_.shared_memory();
  std::string name;
  if (TakePrefix(path, "region/")) {
    size_t slash = path.rfind('/');
    if (slash == path.npos) return NotFound("no such path: ", request.target);
    name = TRY(DecodePath(path.substr(0, slash)));
    path = path.substr(slash + 1);
  }
  if (path == "status") {
    return done(JsonResponse(RegionsJson(TRY(memory.Regions(name))))), Status();
  }
  if (request.method != "POST") return done(WrongMethod("POST")), Status();
  if (path == "register") {
    TRY(memory.Register(name, TRY(ReadRegion(request.body))));
  } else if (path == "unregister") {
    TRY(memory.Unregister(name));
  } else {
    return NotFound("no such path: ", request.target);
  }
  return done(JsonResponse("{}")), Status();
}

Result<bool> RestApi::Manage(std::string_view path, HttpRequest& request, HttpDone& done) const {
  if (TakePrefix(path, "/v2/repository/")) {
    TRY(ManageRepository(path, request, done));
  } else if (TakePrefix(path, "/v2/systemsharedmemory/")) {
    TRY(ManageSharedMemory(path, request, done));
  } else if (TakePrefix(path, "/v2/cudasharedmemory/")) {
    // There is none: nothing to list, nothing to give back.
    if (path.ends_with("/register"))
      return Unimplemented("shared memory of a GPU: use system shared memory");
    done(JsonResponse(path.ends_with("unregister") ? "{}" : "[]"));
  } else if (path == "/v2/debug/status") {
    done(JsonResponse(StatusJson(server_)));
  } else if (path == "/v2/debug/trace") {
    std::string_view text = QueryValue(request.target, "seconds");
    std::optional<double> seconds = text.empty() ? 5 : ParseDouble(text);
    if (!seconds || !(*seconds > 0) || *seconds > kLongestTrace)
      return InvalidArgument("seconds=", text, ": expected up to ", kLongestTrace);
    TRY(recorder_.Start(static_cast<Time>(*seconds * 1e9), [done](Result<std::string> json) {
      done(json ? JsonResponse(std::move(*json)) : ErrorResponse(json.error()));
    }));
  } else {
    return false;
  }
  return true;
}

}  // namespace weft::serve
