// TF Serving's REST API: predict in row form (instances, predictions) and in column form (inputs,
// outputs), status, metadata.
#include <algorithm>
#include <map>
#include <utility>

#include "serve/json.h"
#include "serve/rest.h"
#include "serve/rest_tensor.h"
#include "serve/types.h"

namespace weft::serve {
namespace {

using Kind = JsonReader::Kind;

bool IsNamedInstance(std::string_view text) {
  JsonReader json(text);
  std::string key;
  if (json.Peek() != Kind::kObject || !json.BeginObject()) return false;
  Result<bool> any = json.NextKey(key);
  return any && *any && key != "b64";
}

Result<TensorReader*> ReaderFor(const GraphSpec& spec, std::map<std::string, TensorReader>& readers,
                                const std::string& name) {
  auto found = std::ranges::find(spec.inputs, name, &TensorSpec::name);
  if (found == spec.inputs.end()) {
    return InvalidArgument("input ", name, ": ", spec.name, " has no such input");
  }
  return &readers.try_emplace(name, found->dtype).first->second;
}

Result<TensorReader*> ReaderForOnly(const GraphSpec& spec,
                                    std::map<std::string, TensorReader>& readers) {
  if (spec.inputs.size() != 1) {
    return InvalidArgument(spec.name, " has ", spec.inputs.size(),
                           " inputs: give each by its name");
  }
  return ReaderFor(spec, readers, spec.inputs[0].name);
}

Status ReadOne(TensorReader& reader, JsonReader& json, std::string_view name) {
  Status status = reader.Read(json);
  if (!status) status.error().Prefix(StrCat("input ", name, ": "));
  return status;
}

// A list with an instance for each row: an object of inputs, or the one input.
Status ReadRows(const GraphSpec& spec, std::string_view text,
                std::map<std::string, TensorReader>& readers, int64_t& rows) {
  JsonReader json(text);
  if (json.Peek() != Kind::kArray) return json.Fail("instances is a list");
  TRY(json.BeginArray());
  while (TRY(json.NextElement())) {
    ++rows;
    std::string_view instance = TRY(json.Skip());
    JsonReader value(instance);
    if (!IsNamedInstance(instance)) {
      TRY(ReadOne(*TRY(ReaderForOnly(spec, readers)), value, spec.inputs[0].name));
      continue;
    }
    std::string name;
    TRY(value.BeginObject());
    while (TRY(value.NextKey(name))) {
      TRY(ReadOne(*TRY(ReaderFor(spec, readers, name)), value, name));
    }
  }
  for (const auto& [name, reader] : readers) {
    if (reader.values() != rows) {
      return InvalidArgument("input ", name, ": in ", reader.values(), " of ", rows, " instances");
    }
  }
  return {};
}

Status ReadColumns(const GraphSpec& spec, std::string_view text,
                   std::map<std::string, TensorReader>& readers) {
  JsonReader json(text);
  if (!IsNamedInstance(text)) {
    return ReadOne(*TRY(ReaderForOnly(spec, readers)), json, spec.inputs[0].name);
  }
  std::string name;
  TRY(json.BeginObject());
  while (TRY(json.NextKey(name))) {
    TRY(ReadOne(*TRY(ReaderFor(spec, readers, name)), json, name));
  }
  return {};
}

struct PredictBody {
  std::string graph;
  std::string_view instances, inputs;
};

Result<PredictBody> ReadPredictBody(std::string_view text) {
  PredictBody body;
  JsonReader json(text);
  std::string key;
  TRY(json.BeginObject());
  while (TRY(json.NextKey(key))) {
    if (key == "signature_name") {
      body.graph = TRY(json.String());
    } else if (key == "instances") {
      body.instances = TRY(json.Skip());
    } else if (key == "inputs") {
      body.inputs = TRY(json.Skip());
    } else {
      TRY(json.Skip());
    }
  }
  TRY(json.End());
  if (body.instances.empty() == body.inputs.empty()) {
    return InvalidArgument("predict takes either instances (row form) or inputs (column form)");
  }
  return body;
}

// Rows again: one value each, or an object where there are several outputs.
Result<std::string> RowAnswer(const InferResponse& response, int64_t rows) {
  for (const NamedTensor& output : response.outputs) {
    if (output.value.shape().rank() > 0 && output.value.shape().dim(0) == rows) continue;
    return FailedPrecondition("output ", output.name, " is ", output.value.shape(),
                              ": not a row for each of ", rows, " instances; use the column form");
  }
  std::string out = "{\"predictions\":[";
  bool named = response.outputs.size() > 1;
  for (int64_t row = 0; row < rows; ++row) {
    if (row > 0) out += ',';
    if (named) out += '{';
    for (size_t k = 0; k < response.outputs.size(); ++k) {
      if (k > 0) out += ',';
      if (named) AppendJsonText(out, response.outputs[k].name), out += ':';
      AppendRow(out, response.outputs[k].value, row);
    }
    if (named) out += '}';
  }
  return out + "]}";
}

std::string ColumnAnswer(const InferResponse& response) {
  std::string out = "{\"outputs\":";
  if (response.outputs.size() == 1) {
    AppendTensor(out, response.outputs[0].value);
    return out + "}";
  }
  out += '{';
  for (size_t k = 0; k < response.outputs.size(); ++k) {
    if (k > 0) out += ',';
    AppendJsonText(out, response.outputs[k].name);
    out += ':';
    AppendTensor(out, response.outputs[k].value);
  }
  return out + "}}";
}

void AppendTensorInfo(std::string& out, const std::vector<TensorSpec>& tensors) {
  out += '{';
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i > 0) out += ',';
    const TypeNames* type = FindType(tensors[i].dtype);
    AppendJsonText(out, tensors[i].name);
    StrAppend(out, ":{\"dtype\":\"", type != nullptr ? type->tensorflow_name : "DT_INVALID",
              "\",\"tensor_shape\":{\"dim\":[");
    for (size_t d = 0; d < tensors[i].dims.size(); ++d) {
      const DimSpec& dim = tensors[i].dims[d];
      StrAppend(out, d > 0 ? "," : "", "{\"size\":\"", dim.symbol < 0 ? dim.size : int64_t{-1},
                "\",\"name\":\"\"}");
    }
    out += "],\"unknown_rank\":false},\"name\":";
    AppendJsonText(out, tensors[i].name);
    out += '}';
  }
  out += '}';
}

}  // namespace

Status RestApi::Predict(const Target& target, HttpRequest& http, HttpDone& done) const {
  InferRequest request;
  TRY(ReadRequestHeaders(http, request));
  if (request.deadline == kNever && timeout_ != kNever) request.deadline = http.received + timeout_;
  PredictBody body = TRY(ReadPredictBody(http.body));
  request.servable = TRY(server_.models().Find(target.model));
  Graph* graph = TRY(request.servable->Find(body.graph));
  request.graph = graph->spec().name;
  std::map<std::string, TensorReader> readers;
  int64_t rows = 0;
  bool by_row = !body.instances.empty();
  if (by_row) {
    TRY(ReadRows(graph->spec(), body.instances, readers, rows));
  } else {
    TRY(ReadColumns(graph->spec(), body.inputs, readers));
  }
  for (const auto& [name, reader] : readers) {
    request.inputs.push_back({name, TRY(reader.Take(by_row))});
  }
  server_.Infer(std::move(request), [by_row, rows, done](Result<InferResponse> response) {
    if (!response) return done(ErrorResponse(response.error()));
    Result<std::string> answer = by_row ? RowAnswer(*response, rows) : ColumnAnswer(*response);
    if (!answer) return done(ErrorResponse(answer.error()));
    done({.status = 200, .body = std::move(*answer)});
  });
  return {};
}

Result<std::string> RestApi::TfStatus(const Target& target) const {
  std::string out = "{\"model_version_status\":[";
  bool first = true;
  for (const VersionStatus& version : TRY(server_.models().StatusOf(target.model))) {
    StrAppend(out, first ? "" : ",", "{\"version\":\"", version.version, "\",\"state\":\"",
              NameOf(version.state), "\",\"status\":{\"error_code\":\"",
              version.error ? CodeName(version.error->code()) : "OK", "\",\"error_message\":");
    AppendJsonText(out, version.error ? version.error->ToString() : "");
    out += "}}";
    first = false;
  }
  return out + "]}";
}

Result<std::string> RestApi::TfMetadata(const Target& target) const {
  std::shared_ptr<Servable> servable = TRY(server_.models().Find(target.model));
  std::string out = "{\"model_spec\":{\"name\":";
  AppendJsonText(out, servable->name());
  StrAppend(out, ",\"signature_name\":\"\",\"version\":\"", servable->version(),
            "\"},\"metadata\":{\"signature_def\":{\"signature_def\":{");
  bool first = true;
  for (const GraphSpec& graph : servable->folder().spec.graphs) {
    if (!first) out += ',';
    first = false;
    AppendJsonText(out, graph.name);
    out += ":{\"inputs\":";
    AppendTensorInfo(out, graph.inputs);
    out += ",\"outputs\":";
    AppendTensorInfo(out, graph.outputs);
    out += ",\"method_name\":\"tensorflow/serving/predict\"}";
  }
  return out + "}}}}";
}

}  // namespace weft::serve
