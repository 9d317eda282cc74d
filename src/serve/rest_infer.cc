// Open Inference (KServe v2) over REST, with Triton's extension for tensors as bytes behind the
// JSON.
#include <algorithm>
#include <cstring>
#include <utility>

#include "serve/json.h"
#include "serve/rest.h"
#include "serve/rest_tensor.h"
#include "serve/types.h"
#include "serve/warm_up.h"

namespace weft::serve {
namespace {

constexpr std::string_view kHeaderLength = "inference-header-content-length";

// What requests, inputs and outputs carry beside.
struct Parameters {
  int64_t binary_size = -1;  // of an input
  bool binary = false;       // of an output, or of all
  bool binary_said = false;
  std::optional<Priority> priority;
  std::optional<int64_t> timeout;  // microseconds
  std::string graph;
  SharedSlice shared;  // no region: none
};

Result<Parameters> ReadParameters(JsonReader& json) {
  Parameters parameters;
  std::string key;
  TRY(json.BeginObject());
  while (TRY(json.NextKey(key))) {
    if (key == "binary_data_size") {
      parameters.binary_size = TRY(json.Int());
    } else if (key == "binary_data" || key == "binary_data_output") {
      parameters.binary = TRY(json.Bool());
      parameters.binary_said = true;
    } else if (key == "priority") {
      bool text = json.Peek() == JsonReader::Kind::kString;
      parameters.priority =
          text ? TRY(ReadPriority(TRY(json.String()))) : PriorityFromNumber(TRY(json.Int()));
    } else if (key == "timeout") {
      parameters.timeout = TRY(json.Int());
    } else if (key == "signature_name") {
      parameters.graph = TRY(json.String());
    } else if (key == "shared_memory_region") {
      parameters.shared.region = TRY(json.String());
    } else if (key == "shared_memory_offset") {
      parameters.shared.offset = TRY(json.Int());
    } else if (key == "shared_memory_byte_size") {
      parameters.shared.size = TRY(json.Int());
    } else {
      TRY(json.Skip());
    }
  }
  return parameters;
}

struct InferInput {
  std::string name, datatype;
  std::vector<int64_t> dims;
  std::string_view data;  // JSON; empty: binary
  int64_t binary_size = -1;
  SharedSlice shared;
};

struct InferOutput {
  std::string name;
  bool binary = false, said = false;
  SharedSlice shared;
};

struct InferBody {
  std::string id;
  Parameters parameters;
  std::vector<InferInput> inputs;
  std::vector<InferOutput> outputs;
};

Result<InferInput> ReadInput(JsonReader& json) {
  InferInput input;
  std::string key;
  TRY(json.BeginObject());
  while (TRY(json.NextKey(key))) {
    if (key == "name") {
      input.name = TRY(json.String());
    } else if (key == "datatype") {
      input.datatype = TRY(json.String());
    } else if (key == "shape") {
      TRY(json.BeginArray());
      while (TRY(json.NextElement())) {
        if (input.dims.size() >= kMaxRank) return json.Fail("more than ", kMaxRank, " dimensions");
        input.dims.push_back(TRY(json.Int()));
        if (input.dims.back() < 0) return json.Fail("a negative dimension");
      }
    } else if (key == "data") {
      input.data = TRY(json.Skip());
    } else if (key == "parameters") {
      Parameters parameters = TRY(ReadParameters(json));
      input.binary_size = parameters.binary_size;
      input.shared = std::move(parameters.shared);
    } else {
      TRY(json.Skip());
    }
  }
  return input;
}

Result<InferOutput> ReadOutput(JsonReader& json) {
  InferOutput output;
  std::string key;
  TRY(json.BeginObject());
  while (TRY(json.NextKey(key))) {
    if (key == "name") {
      output.name = TRY(json.String());
    } else if (key == "parameters") {
      Parameters parameters = TRY(ReadParameters(json));
      output.binary = parameters.binary;
      output.said = parameters.binary_said;
      output.shared = std::move(parameters.shared);
    } else {
      TRY(json.Skip());
    }
  }
  return output;
}

Result<InferBody> ReadInferBody(std::string_view text) {
  InferBody body;
  JsonReader json(text);
  std::string key;
  TRY(json.BeginObject());
  while (TRY(json.NextKey(key))) {
    if (key == "id") {
      body.id = TRY(json.String());
    } else if (key == "parameters") {
      body.parameters = TRY(ReadParameters(json));
    } else if (key == "inputs") {
      TRY(json.BeginArray());
      while (TRY(json.NextElement())) body.inputs.push_back(TRY(ReadInput(json)));
    } else if (key == "outputs") {
      TRY(json.BeginArray());
      while (TRY(json.NextElement())) body.outputs.push_back(TRY(ReadOutput(json)));
    } else {
      TRY(json.Skip());
    }
  }
  TRY(json.End());
  return body;
}

// Truth values are 0 or 1, whatever bytes came.
void Normalize(Literal& value) {
  if (value.dtype() != DType::kPred) return;
  for (bool& b : value.values<bool>()) b = *reinterpret_cast<const unsigned char*>(&b) != 0;
}

// The element type by the protocol's name, and the elements: from JSON, from the bytes behind it or
// from shared memory.
Result<Literal> ReadInputTensor(const InferInput& input, const SharedMemory& memory,
                                std::string_view& binary) {
  std::optional<DType> type = TypeFromInference(input.datatype);
  if (!type) return InvalidArgument("unknown datatype ", input.datatype);
  Shape shape(*type, input.dims);
  if (!input.shared.region.empty()) return ReadShared(memory, input.shared, shape);
  if (input.binary_size < 0) {
    if (input.data.empty()) return InvalidArgument("neither data nor binary_data_size");
    TensorReader reader(*type);
    JsonReader json(input.data);
    TRY(reader.Read(json));
    return reader.TakeAs(shape);
  }
  std::optional<int64_t> elements = shape.CheckedElements();
  int64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, ByteWidth(*type), &bytes) ||
      bytes != input.binary_size) {
    return InvalidArgument(input.binary_size, " bytes for ", shape.ToStringWithoutLayout());
  }
  if (static_cast<int64_t>(binary.size()) < bytes) {
    return InvalidArgument("the body ends before its ", bytes, " bytes");
  }
  Literal value = TRY(Literal::AllocateUnset(shape));
  if (bytes > 0) std::memcpy(value.mutable_data(), binary.data(), static_cast<size_t>(bytes));
  Normalize(value);
  binary.remove_prefix(static_cast<size_t>(bytes));
  return value;
}

// Which outputs go behind the JSON, as bytes.
struct Answer {
  std::string id;
  bool all_binary = false;
  std::vector<InferOutput> outputs;

  const InferOutput* Find(const std::string& name) const {
    auto found = std::ranges::find(outputs, name, &InferOutput::name);
    return found != outputs.end() ? &*found : nullptr;
  }
  bool IsBinary(const std::string& name) const {
    const InferOutput* output = Find(name);
    return output != nullptr && output->said ? output->binary : all_binary;
  }
};

Result<HttpResponse> WriteAnswer(const Answer& answer, const SharedMemory& memory,
                                 const InferResponse& response) {
  std::string out = "{\"model_name\":", bytes;
  AppendJsonText(out, response.model);
  StrAppend(out, ",\"model_version\":\"", response.version, "\"");
  if (!answer.id.empty()) out += ",\"id\":", AppendJsonText(out, answer.id);
  out += ",\"outputs\":[";
  for (size_t k = 0; k < response.outputs.size(); ++k) {
    const NamedTensor& output = response.outputs[k];
    const TypeNames* type = FindType(output.value.dtype());
    out += k > 0 ? ",{\"name\":" : "{\"name\":";
    AppendJsonText(out, output.name);
    StrAppend(out, ",\"datatype\":\"", type != nullptr ? type->inference : "", "\",\"shape\":[",
              StrJoin(output.value.shape().dims(), ","), "]");
    const InferOutput* asked = answer.Find(output.name);
    if (asked != nullptr && !asked->shared.region.empty()) {
      TRY(memory.Write(asked->shared,
                       {output.value.data(), static_cast<size_t>(output.value.byte_size())}));
      out += '}';  // Triton's clients take any parameters as a size of binary data
    } else if (answer.IsBinary(output.name)) {
      StrAppend(out, ",\"parameters\":{\"binary_data_size\":", output.value.byte_size(), "}}");
      bytes.append(reinterpret_cast<const char*>(output.value.data()),
                   static_cast<size_t>(output.value.byte_size()));
    } else {
      out += ",\"data\":";
      AppendTensor(out, output.value, true);
      out += '}';
    }
  }
  out += "]}";
  HttpResponse http{.status = 200};
  if (!bytes.empty()) {
    http.headers.emplace_back("Inference-Header-Content-Length", StrCat(out.size()));
    http.content_type = "application/octet-stream";
  }
  http.body = std::move(out) + bytes;
  return http;
}

void AppendMetadata(std::string& out, const std::vector<TensorSpec>& tensors) {
  out += '[';
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TypeNames* type = FindType(tensors[i].dtype);
    out += i > 0 ? ",{\"name\":" : "{\"name\":";
    AppendJsonText(out, tensors[i].name);
    StrAppend(out, ",\"datatype\":\"", type != nullptr ? type->inference : "", "\",\"shape\":[");
    for (size_t d = 0; d < tensors[i].dims.size(); ++d) {
      const DimSpec& dim = tensors[i].dims[d];
      StrAppend(out, d > 0 ? "," : "", dim.symbol < 0 ? dim.size : int64_t{-1});
    }
    out += "]}";
  }
  out += ']';
}

void AppendDuration(std::string& out, std::string_view name, int64_t count, Time time) {
  StrAppend(out, "\"", name, "\":{\"count\":", count, ",\"ns\":", time, "}");
}

Result<std::vector<NamedTensor>> ReadInputs(const std::vector<InferInput>& inputs,
                                            const SharedMemory& memory, std::string_view binary) {
  std::vector<NamedTensor> values;
  for (const InferInput& input : inputs) {
    Result<Literal> value = ReadInputTensor(input, memory, binary);
    if (!value) return std::unexpected(value.error().Prefix(StrCat("input ", input.name, ": ")));
    values.push_back({input.name, std::move(*value)});
  }
  if (!binary.empty()) return InvalidArgument(binary.size(), " bytes behind the inputs");
  return values;
}

}  // namespace

Result<WarmUpRecord> ReadWarmUpRecord(std::string_view line) {
  InferBody body = TRY(ReadInferBody(line));
  const SharedMemory none;
  return WarmUpRecord{body.parameters.graph, TRY(ReadInputs(body.inputs, none, {}))};
}

Status RestApi::Infer(const Target& target, HttpRequest& http, HttpDone& done) const {
  InferRequest request;
  TRY(ReadRequestHeaders(http, request));
  if (request.deadline == kNever && timeout_ != kNever) request.deadline = http.received + timeout_;
  std::string_view text = http.body, binary;
  if (std::string_view length = http.Header(kHeaderLength); !length.empty()) {
    std::optional<int64_t> size = ParseInt(length);
    if (!size || *size < 0 || static_cast<size_t>(*size) > text.size()) {
      return InvalidArgument(kHeaderLength, ": ", length, " of a body of ", text.size(), " bytes");
    }
    binary = text.substr(static_cast<size_t>(*size));
    text = text.substr(0, static_cast<size_t>(*size));
  }
  InferBody body = TRY(ReadInferBody(text));
  request.model = target.model;
  request.graph = body.parameters.graph;
  if (body.parameters.priority) request.priority = *body.parameters.priority;
  if (body.parameters.timeout.value_or(0) > 0) {
    Time most = std::min<int64_t>(*body.parameters.timeout, 1'000'000'000'000);
    request.deadline = std::min(request.deadline, http.received + most * kMicrosecond);
  }
  request.inputs = TRY(ReadInputs(body.inputs, server_.shared_memory(), binary));
  for (const InferOutput& output : body.outputs) request.outputs.push_back(output.name);
  Answer answer{std::move(body.id), body.parameters.binary, std::move(body.outputs)};
  const SharedMemory& memory = server_.shared_memory();
  server_.Infer(std::move(request), [answer, &memory, done](Result<InferResponse> response) {
    if (!response) return done(ErrorResponse(response.error()));
    Result<HttpResponse> http = WriteAnswer(answer, memory, *response);
    done(http ? std::move(*http) : ErrorResponse(http.error()));
  });
  return {};
}

std::string RestApi::ServerMetadata() const {
  return StrCat("{\"name\":\"weft-serve\",\"version\":\"", kServerVersion,
                "\",\"extensions\":[\"binary_tensor_data\",\"schedule_policy\",\"statistics\",",
                "\"model_repository\",\"model_configuration\",\"system_shared_memory\"]}");
}

Result<std::string> RestApi::ModelMetadata(const Target& target) const {
  std::shared_ptr<Servable> servable = TRY(server_.models().Find(target.model));
  const GraphSpec& graph = TRY(servable->Find(""))->spec();
  std::string out = "{\"name\":", versions;
  AppendJsonText(out, servable->name());
  for (const VersionStatus& version : TRY(server_.models().StatusOf({servable->name()}))) {
    if (version.state != VersionState::kAvailable) continue;
    StrAppend(versions, versions.empty() ? "" : ",", "\"", version.version, "\"");
  }
  StrAppend(out, ",\"versions\":[", versions, "],\"platform\":\"weft_jax\",\"inputs\":");
  AppendMetadata(out, graph.inputs);
  out += ",\"outputs\":";
  AppendMetadata(out, graph.outputs);
  return out + "}";
}

Result<std::string> RestApi::ModelStatistics(const Target& target) const {
  std::shared_ptr<Servable> servable = TRY(server_.models().Find(target.model));
  const ModelStats& stats = servable->stats();
  auto sum = [&](Phase phase) {
    std::pair<int64_t, Time> all;
    for (int c = 0; c < kPriorities; ++c) {
      const Histogram& histogram = stats.histogram(static_cast<Priority>(c), phase);
      all.first += histogram.count(), all.second += histogram.sum();
    }
    return all;
  };
  int64_t failed = 0, good = 0;
  for (int c = 0; c < kPriorities; ++c) {
    for (int o = 0; o < kOutcomes; ++o) {
      int64_t count = stats.count(static_cast<Priority>(c), static_cast<Outcome>(o));
      (static_cast<Outcome>(o) == Outcome::kOk ? good : failed) += count;
    }
  }
  std::string out = "{\"model_stats\":[{\"name\":";
  AppendJsonText(out, servable->name());
  StrAppend(out, ",\"version\":\"", servable->version(),
            "\",\"last_inference\":0,\"inference_count\":", stats.rows(),
            ",\"execution_count\":", stats.batches(), ",\"inference_stats\":{");
  AppendDuration(out, "success", good, sum(Phase::kTotal).second);
  AppendDuration(out += ',', "fail", failed, 0);
  AppendDuration(out += ',', "queue", sum(Phase::kQueue).first, sum(Phase::kQueue).second);
  AppendDuration(out += ',', "compute_input", good, sum(Phase::kToDevice).second);
  AppendDuration(out += ',', "compute_infer", good, sum(Phase::kRun).second);
  AppendDuration(out += ',', "compute_output", good, sum(Phase::kToHost).second);
  return out + "},\"batch_stats\":[]}]}";
}

}  // namespace weft::serve
