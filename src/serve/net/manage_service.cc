// Of inference.GRPCInferenceService what is not inference: facts, statistics, the repository,
// shared memory.
#include <utility>

#include "inference.pb.h"
#include "serve/infer_message.h"
#include "serve/net/services.h"
#include "serve/types.h"

namespace weft::serve {
namespace {

namespace pb = inference;

void FillStatistics(const Servable& servable, pb::ModelStatistics& to) {
  const ModelStats& stats = servable.stats();
  auto fill = [&](Phase phase, pb::StatisticDuration* duration) {
    for (int c = 0; c < kPriorities; ++c) {
      const Histogram& histogram = stats.histogram(static_cast<Priority>(c), phase);
      duration->set_count(duration->count() + static_cast<uint64_t>(histogram.count()));
      duration->set_ns(duration->ns() + static_cast<uint64_t>(histogram.sum()));
    }
  };
  to.set_name(servable.name());
  to.set_version(StrCat(servable.version()));
  to.set_inference_count(static_cast<uint64_t>(stats.rows()));
  to.set_execution_count(static_cast<uint64_t>(stats.batches()));
  pb::InferStatistics& all = *to.mutable_inference_stats();
  fill(Phase::kTotal, all.mutable_success());
  fill(Phase::kQueue, all.mutable_queue());
  fill(Phase::kToDevice, all.mutable_compute_input());
  fill(Phase::kRun, all.mutable_compute_infer());
  fill(Phase::kToHost, all.mutable_compute_output());
  uint64_t failed = 0, good = 0;
  for (int c = 0; c < kPriorities; ++c) {
    for (int o = 0; o < kOutcomes; ++o) {
      auto count =
          static_cast<uint64_t>(stats.count(static_cast<Priority>(c), static_cast<Outcome>(o)));
      (static_cast<Outcome>(o) == Outcome::kOk ? good : failed) += count;
    }
  }
  all.mutable_fail()->set_count(failed);
  all.mutable_success()->set_count(good);
}

template <class To>
void AddConfigTensor(const TensorSpec& tensor, bool batched, To& to) {
  const TypeNames* type = FindType(tensor.dtype);
  pb::DataType number = pb::TYPE_INVALID;
  if (type != nullptr) pb::DataType_Parse(StrCat("TYPE_", type->inference), &number);
  to.set_name(tensor.name);
  to.set_data_type(number);
  for (size_t d = batched ? 1 : 0; d < tensor.dims.size(); ++d) {
    to.add_dims(tensor.dims[d].symbol < 0 ? tensor.dims[d].size : -1);
  }
}

Status FillConfig(Server& server, const pb::ModelConfigRequest& request, pb::ModelConfig& config) {
  ModelQuery query = TRY(ToModelQuery(request.name(), request.version()));
  std::shared_ptr<Servable> servable = TRY(server.models().Find(query));
  const GraphSpec& spec = TRY(servable->Find(""))->spec();
  const bool batched = spec.IsBatched();
  config.set_name(servable->name());
  config.set_platform("weft_jax");
  config.set_backend("weft");
  config.set_max_batch_size(batched ? static_cast<int>(spec.LargestBatch()) : 0);
  for (const TensorSpec& input : spec.inputs) AddConfigTensor(input, batched, *config.add_input());
  for (const TensorSpec& output : spec.outputs)
    AddConfigTensor(output, batched, *config.add_output());
  if (batched) config.mutable_dynamic_batching();
  return {};
}

Status FillAllStatistics(Server& server, const pb::ModelStatisticsRequest& request,
                         pb::ModelStatisticsResponse& response) {
  std::vector<std::string> names = {request.name()};
  if (request.name().empty()) names = server.models().Names();
  for (const std::string& name : names) {
    auto servable = server.models().Find(TRY(ToModelQuery(name, request.version())));
    if (!servable && !request.name().empty()) return std::unexpected(servable.error());
    if (servable) FillStatistics(**servable, *response.add_model_stats());
  }
  return {};
}

void FillIndex(Server& server, bool only_ready, pb::RepositoryIndexResponse& response) {
  for (const std::string& name : server.models().Names()) {
    auto versions = server.models().StatusOf({name});
    if (!versions) continue;
    for (const VersionStatus& version : *versions) {
      bool ready = version.state == VersionState::kAvailable;
      if (only_ready && !ready) continue;
      auto& model = *response.add_models();
      model.set_name(name);
      model.set_version(StrCat(version.version));
      model.set_state(ready ? "READY" : std::string(NameOf(version.state)));
      if (version.error) model.set_reason(version.error->message());
    }
  }
}

Status FillRegions(Server& server, const pb::SystemSharedMemoryStatusRequest& request,
                   pb::SystemSharedMemoryStatusResponse& response) {
  for (const auto& [name, facts] : TRY(server.shared_memory().Regions(request.name()))) {
    auto& region = (*response.mutable_regions())[name];
    region.set_name(name);
    region.set_key(facts.key);
    region.set_offset(static_cast<uint64_t>(facts.offset));
    region.set_byte_size(static_cast<uint64_t>(facts.size));
  }
  return {};
}

const std::string kService = "/inference.GRPCInferenceService/";

void AddSharedMemoryMethods(Methods& methods, Server& server) {
  methods.Unary<pb::SystemSharedMemoryStatusRequest, pb::SystemSharedMemoryStatusResponse>(
      kService + "SystemSharedMemoryStatus", [&server](const auto& request, auto& response) {
        return FillRegions(server, request, response);
      });
  methods.Unary<pb::SystemSharedMemoryRegisterRequest, pb::SystemSharedMemoryRegisterResponse>(
      kService + "SystemSharedMemoryRegister", [&server](const auto& request, auto&) {
        return server.shared_memory().Register(
            request.name(), {request.key(), static_cast<int64_t>(request.offset()),
                             static_cast<int64_t>(request.byte_size())});
      });
  methods.Unary<pb::SystemSharedMemoryUnregisterRequest, pb::SystemSharedMemoryUnregisterResponse>(
      kService + "SystemSharedMemoryUnregister", [&server](const auto& request, auto&) {
        return server.shared_memory().Unregister(request.name());
      });
  // There is none of a GPU: nothing to list, nothing to give back.
  methods.Unary<pb::CudaSharedMemoryStatusRequest, pb::CudaSharedMemoryStatusResponse>(
      kService + "CudaSharedMemoryStatus", [](const auto&, auto&) { return Status(); });
  methods.Unary<pb::CudaSharedMemoryRegisterRequest, pb::CudaSharedMemoryRegisterResponse>(
      kService + "CudaSharedMemoryRegister", [](const auto&, auto&) -> Status {
        return Unimplemented("shared memory of a GPU: use system shared memory");
      });
  methods.Unary<pb::CudaSharedMemoryUnregisterRequest, pb::CudaSharedMemoryUnregisterResponse>(
      kService + "CudaSharedMemoryUnregister", [](const auto&, auto&) { return Status(); });
}

void AddRepositoryMethods(Methods& methods, Server& server) {
  using How = Methods::How;
  methods.Unary<pb::RepositoryIndexRequest, pb::RepositoryIndexResponse>(
      kService + "RepositoryIndex", [&server](const auto& request, auto& response) -> Status {
        FillIndex(server, request.ready(), response);
        return {};
      });
  methods.Unary<pb::RepositoryModelLoadRequest, pb::RepositoryModelLoadResponse>(
      kService + "RepositoryModelLoad",
      [&server](const auto& request, auto&) {
        return server.models().LoadModel(request.model_name());
      },
      How::kLater);
  methods.Unary<pb::RepositoryModelUnloadRequest, pb::RepositoryModelUnloadResponse>(
      kService + "RepositoryModelUnload",
      [&server](const auto& request, auto&) {
        return server.models().UnloadModel(request.model_name());
      },
      How::kLater);
}

}  // namespace

void AddManageMethods(Methods& methods, Server& server) {
  methods.Unary<pb::ServerMetadataRequest, pb::ServerMetadataResponse>(
      kService + "ServerMetadata", [](const auto&, auto& response) -> Status {
        response.set_name("weft-serve");
        response.set_version(std::string(kServerVersion));
        for (const char* name :
             {"binary_tensor_data", "schedule_policy", "statistics", "model_repository",
              "model_configuration", "system_shared_memory"}) {
          response.add_extensions(name);
        }
        return {};
      });
  methods.Unary<pb::ModelConfigRequest, pb::ModelConfigResponse>(
      kService + "ModelConfig", [&server](const auto& request, auto& response) {
        return FillConfig(server, request, *response.mutable_config());
      });
  methods.Unary<pb::ModelStatisticsRequest, pb::ModelStatisticsResponse>(
      kService + "ModelStatistics", [&server](const auto& request, auto& response) {
        return FillAllStatistics(server, request, response);
      });
  AddRepositoryMethods(methods, server);
  AddSharedMemoryMethods(methods, server);
}

}  // namespace weft::serve
