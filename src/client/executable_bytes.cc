#include "client/executable_bytes.h"

#include <utility>

#include "base/digest.h"
#include "base/float_mode.h"
#include "base/log.h"
#include "base/wire.h"
#include "client/build.h"
#include "client/client.h"
#include "client/executable.h"
#include "hlo/import/import.h"
#include "hlo/text.h"
#include "hlo/verify.h"
#include "inspect/dump_folder.h"

namespace weft::client {
namespace {

constexpr std::string_view kSavedMagic = "WEFTEXE1";
constexpr int64_t kTextConstant = 16;  // elements; larger constants are saved as bytes

// Constants that the text leaves out, in the order of the module.
template <class Fn>
Status ForEachLargeConstant(const hlo::Module& module, Fn&& fn) {
  for (const auto& computation : module.computations()) {
    for (hlo::Instruction* instruction : *computation) {
      if (!instruction->IsConstant() || !instruction->shape().IsArray()) continue;
      if (instruction->shape().elements() > kTextConstant) TRY(fn(*instruction));
    }
  }
  return {};
}

std::string_view BytesOf(const Literal& literal) {
  return {reinterpret_cast<const char*>(literal.data()),
          static_cast<size_t>(literal.IsValid() ? literal.byte_size() : 0)};
}

}  // namespace

std::string ProgramFingerprint(const hlo::Module& module, const CompileRequest& request,
                               std::string_view compiler_options, std::string_view machine) {
  Digest digest;
  auto add = [&](std::string_view part) {
    uint64_t size = part.size();
    digest.Update(&size, sizeof(size));
    digest.Update(part);
  };
  add(Version());
  add(SourceHash());
  add(machine);
  add(compiler_options);
  CompileRequest relevant = request;  // where it runs and how much memory there is do not matter
  relevant.device_assignment.clear();
  relevant.device_ordinal = -1;
  relevant.device_memory_size = 0;
  relevant.debug_options.clear();
  add(SerializeCompileOptions(relevant));
  hlo::PrintOptions print = hlo::PrintOptions::Canonical();
  print.max_constant_elements = kTextConstant;
  add(hlo::PrintModule(module, print));
  (void)ForEachLargeConstant(module, [&](const hlo::Instruction& constant) -> Status {
    add(BytesOf(constant.literal()));
    return {};
  });
  auto raw = digest.Finish();
  return ToHex({reinterpret_cast<const char*>(raw.data()), raw.size()});
}

std::string SaveExecutable(const hlo::Module& module, const CompileRequest& request,
                           std::string_view fingerprint) {
  hlo::PrintOptions print = hlo::PrintOptions::Full();
  print.max_constant_elements = kTextConstant;
  WireWriter writer;
  writer.BytesAlways(1, Version());
  writer.BytesAlways(2, SerializeCompileOptions(request));
  writer.BytesAlways(3, fingerprint);
  writer.BytesAlways(4, hlo::PrintModule(module, print));
  (void)ForEachLargeConstant(module, [&](const hlo::Instruction& constant) -> Status {
    writer.BytesAlways(5, BytesOf(constant.literal()));
    return {};
  });
  const std::string& body = writer.str();
  return StrCat(kSavedMagic, Digest::Raw(body), body);
}

Result<SavedExecutable> ReadExecutable(std::string_view bytes) {
  constexpr size_t kHeader = kSavedMagic.size() + 32;
  if (bytes.size() < kHeader || !bytes.starts_with(kSavedMagic)) {
    return InvalidArgument("executable: these ", bytes.size(), " bytes are not a saved executable");
  }
  std::string_view body = bytes.substr(kHeader);
  if (Digest::Raw(body) != bytes.substr(kSavedMagic.size(), 32)) {
    return MakeError(Code::kDataLoss, "executable: the bytes are damaged: the checksum is wrong");
  }
  SavedExecutable saved;
  std::string_view version, text;
  std::vector<std::string_view> constants;
  WireReader reader(body);
  while (reader.Next()) {
    switch (reader.field()) {
      case 1: version = reader.Bytes(); break;
      case 2: saved.request = TRY(ParseCompileOptions(reader.Bytes())); break;
      case 3: saved.fingerprint = reader.Bytes(); break;
      case 4: text = reader.Bytes(); break;
      case 5: constants.push_back(reader.Bytes()); break;
      default: break;
    }
  }
  if (!reader.ok()) return InvalidArgument("executable: the bytes are malformed");
  if (version != Version()) {
    return InvalidArgument("executable: saved by version ", version, " of Weft, this is ",
                           Version());
  }
  saved.module = TRY(hlo::ParseModule(text));
  size_t next = 0;
  TRY(ForEachLargeConstant(*saved.module, [&](hlo::Instruction& constant) -> Status {
    const Shape& shape = constant.shape();
    if (next == constants.size() ||
        shape.ByteSize() != static_cast<int64_t>(constants[next].size())) {
      return InvalidArgument("executable: no elements for ", constant.name());
    }
    Literal literal = TRY(Literal::Allocate(shape));
    std::memcpy(literal.mutable_data(), constants[next].data(), constants[next].size());
    ++next;
    auto& attrs = constant.mutable_attrs<hlo::ConstantAttrs>();
    attrs.literal = std::move(literal);
    attrs.elided = false;
    return {};
  }));
  TRY(hlo::Verify(*saved.module));
  return saved;
}

std::string Executable::Serialize() const {
  return SaveExecutable(*module_, request_, fingerprint_);
}

void Executable::DumpIfAsked(const CompileOverrides& asked) const {
  auto directory = asked.find("xla_dump_to");
  if (directory == asked.end() || !std::holds_alternative<std::string>(directory->second)) return;
  const std::string& path = std::get<std::string>(directory->second);
  if (path.empty()) return;
  auto is_set = [&](const char* option) {
    auto found = asked.find(option);
    return found != asked.end() && std::holds_alternative<bool>(found->second) &&
           std::get<bool>(found->second);
  };
  const bool proto = is_set("xla_dump_hlo_as_proto");
  const bool text = is_set("xla_dump_hlo_as_text") || !proto;
  inspect::WriteOptimized(path, name_, text ? OptimizedText() : "",
                          proto ? hlo::ExportHloProto(Optimized()) : "");
}

Result<std::shared_ptr<Executable>> Executable::Deserialize(Client& client, std::string_view bytes,
                                                            const CompileOverrides& asked) {
  FloatMode mode(/*flush=*/false);  // as in Compile
  SavedExecutable saved = TRY(ReadExecutable(bytes));
  inspect::CompileWatch watch(*saved.module, client.options().dump_directory,
                              client.options().compiler_options, client.report());
  std::shared_ptr<Executable> executable =
      TRY(Make(client, std::move(saved.module), std::move(saved.request),
               std::move(saved.fingerprint), watch));
  executable->DumpIfAsked(asked);
  NOTE("compile", 1) << "compile " << executable->name_ << ": " << executable->how_
                     << ", from a saved executable";
  return executable;
}

}  // namespace weft::client
