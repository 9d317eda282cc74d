// Functions, the module's and the functions' attributes, source positions.
#include <algorithm>

#include "base/stack.h"
#include "hlo/import/attr_values.h"
#include "hlo/import/import.h"
#include "hlo/import/to_hlo.h"
#include "hlo/text.h"

namespace weft::hlo {
namespace mlir {
namespace {

constexpr int kMaxDepth = kMaxProgramNesting + 1;  // in a function

// A name that HLO text can spell.
std::string HloName(std::string_view name) {
  std::string out;
  for (char c : name) {
    bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '_' || c == '-' || c == '.';
    out.push_back(fine ? c : '_');
  }
  if (out.empty() || !((out[0] | 0x20) >= 'a' && (out[0] | 0x20) <= 'z')) {
    if (out.empty() || out[0] != '_') out.insert(out.begin(), '_');
  }
  return out;
}

// `a,b` with a backslash before the commas and backslashes of the items.
std::string JoinItems(const std::vector<std::string>& items) {
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.push_back(',');
    for (char c : items[i]) {
      if (c == ',' || c == '\\') out.push_back('\\');
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace

Status Converter::IndexSymbols() {
  const Operation* top = tree_.module;
  if (top == nullptr || top->regions.size() != 1 || top->regions[0].blocks.size() != 1) {
    return InvalidArgument("the module has no body");
  }
  for (const Operation* op : top->regions[0].blocks[0].operations) {
    if (op->name == "func") {
      if (!functions_.emplace(TextAttr(*op, "sym_name"), FunctionState{.op = op}).second) {
        return InvalidArgument("two functions are named ", TextAttr(*op, "sym_name"));
      }
    } else if (op->name == "sdy.mesh") {
      const Attr* mesh = op->Find("mesh");
      if (mesh == nullptr) return InvalidArgument("sdy.mesh: attribute mesh is missing");
      meshes_.emplace(TextAttr(*op, "sym_name"), mesh);
    }
  }
  return {};
}

const Operation* Converter::FindFunction(std::string_view name) const {
  auto it = functions_.find(name);
  return it == functions_.end() ? nullptr : it->second.op;
}

Status Converter::ConvertModule() {
  TRY(IndexSymbols());
  TRY(ModuleAttributes());
  const Operation* entry = FindFunction("main");
  if (entry == nullptr && functions_.size() == 1) entry = functions_.begin()->second.op;
  if (entry == nullptr) {
    return InvalidArgument("the module has no function @main among its ", functions_.size());
  }
  return ConvertEntry(*entry);
}

Status Converter::ModuleAttributes() {
  const Operation& top = *tree_.module;
  if (std::string_view name = TextAttr(top, "sym_name"); !name.empty()) {
    module_.set_name(HloName(name));
  }
  ModuleConfig& config = module_.config();
  config.num_partitions = TRY(IntAttr(top, "mhlo.num_partitions", 1));
  config.replica_count = TRY(IntAttr(top, "mhlo.num_replicas", 1));
  config.num_partitions_written = config.num_partitions != 1;
  config.replica_count_written = config.replica_count != 1;
  if (const Attr* all = top.Find("mhlo.frontend_attributes");
      all != nullptr && all->kind == Attr::Kind::kDict) {
    for (size_t i = 0; i < all->elements.size(); ++i) {
      config.frontend_attributes.push_back(
          {std::string(all->names[i]), std::string(all->elements[i]->text)});
    }
  }
  return {};
}

Result<const Block*> Converter::OnlyBlock(const Operation& op, size_t region) {
  if (region >= op.regions.size() || op.regions[region].blocks.size() != 1) {
    return InvalidArgument("region ", region, " must have one block");
  }
  const Block& block = op.regions[region].blocks[0];
  if (block.operations.empty() || (block.operations.back()->name != "return" &&
                                   block.operations.back()->name != "sdy.return")) {
    return InvalidArgument("region ", region, " does not end with a return");
  }
  return &block;
}

Result<Computation*> Converter::Function(std::string_view name) {
  auto it = functions_.find(name);
  if (it == functions_.end()) return NotFound("there is no function @", name);
  FunctionState& state = it->second;
  if (state.open) return InvalidArgument("function @", name, " calls itself");
  if (state.computation != nullptr) return state.computation;
  const Block* block = TRY(OnlyBlock(*state.op, 0));
  Computation* before = scope_ != nullptr ? scope_->computation : nullptr;
  Computation* computation = module_.AddComputation(NextName(HloName(name)), before);
  state.open = true;
  TRY(ConvertBody(*block, computation, nullptr, false, {}));
  FunctionState& done = functions_.find(name)->second;
  done.open = false;
  done.computation = computation;
  return computation;
}

Status Converter::ConvertEntry(const Operation& function) {
  module_.set_entry(TRY(Function(TextAttr(function, "sym_name"))));
  const Operation* outer = std::exchange(op_, &function);
  Status status = EntryAttributes(function);
  op_ = outer;
  if (!status) return std::unexpected(Place(std::move(status).error(), function));
  return {};
}

Status Converter::ConvertBody(const Block& block, Computation* into, Scope* parent, bool state,
                              std::span<const Value* const> captures) {
  if (++depth_ > kMaxDepth || IsStackShort()) {
    return ResourceExhausted("functions and regions are nested deeper than ", depth_ - 1);
  }
  Scope scope;
  scope.computation = into;
  scope.parent = parent;
  scope.values.reserve(block.operations.size() + block.arguments.size());
  Scope* outer_scope = std::exchange(scope_, &scope);
  const Operation* outer_op = std::exchange(op_, nullptr);
  std::vector<const Value*> arguments(block.arguments.begin(), block.arguments.end());
  arguments.insert(arguments.end(), captures.begin(), captures.end());
  auto parameter = [&](int64_t number, Shape shape) {
    return into->Add(Op::kParameter, NextName(StrCat("Arg_", number)), std::move(shape), {},
                     ParameterAttrs{.number = number});
  };
  if (state && arguments.size() != 1) {
    std::vector<Shape> shapes;
    for (const Value* argument : arguments) shapes.push_back(TRY(ShapeOf(argument->type)));
    Instruction* all = parameter(0, Shape::Tuple(std::move(shapes)));
    for (size_t i = 0; i < arguments.size(); ++i) {
      scope.values[arguments[i]] = EmitElement(all, static_cast<int64_t>(i));
    }
  } else {
    for (size_t i = 0; i < arguments.size(); ++i) {
      scope.values[arguments[i]] =
          parameter(static_cast<int64_t>(i), TRY(ShapeOf(arguments[i]->type)));
    }
  }
  TRY(ConvertOperations(block));
  const Operation& terminator = *block.operations.back();
  op_ = &terminator;
  std::vector<Instruction*> results = TRY(Operands(terminator));
  op_ = outer_op;
  into->set_root(Pack(results));
  scope_ = outer_scope;
  cloned_.erase(into);
  --depth_;
  return {};
}

void Converter::SetEntryLists(std::string_view prefix, const Attr& all) {
  static constexpr std::pair<std::string_view, std::string_view> kLists[] = {
      {"mhlo.memory_kind", "memory_kinds"},
      {"mhlo.layout_mode", "layout_modes"},
      {"jax.result_info", "infos"},
  };
  for (auto [attribute, list] : kLists) {
    bool any = false;
    std::vector<std::string> items;
    for (const Attr* one : all.elements) {
      const Attr* found = one->Find(attribute);
      any |= found != nullptr;
      items.emplace_back(found == nullptr ? std::string_view() : found->text);
    }
    if (!any) continue;
    module_.config().frontend_attributes.push_back({StrCat(prefix, list), JoinItems(items)});
  }
}

Status Converter::ArgumentAttributes(const Attr& all) {
  std::span<Instruction* const> parameters = module_.entry()->parameters();
  if (all.elements.size() != parameters.size()) {
    return InvalidArgument("arg_attrs has ", all.elements.size(), " entries for ",
                           parameters.size(), " arguments");
  }
  SetEntryLists(kParameterListPrefix, all);
  bool tuple = module_.entry()->root()->shape().IsTuple();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Attr& one = *all.elements[i];
    int64_t number = static_cast<int64_t>(i);
    if (const Attr* alias = one.Find("tf.aliasing_output")) {
      std::optional<int64_t> output = IntOf(*alias);
      if (!output) return InvalidArgument("tf.aliasing_output: an integer is expected");
      InputOutputAlias entry;
      entry.parameter = number;
      if (tuple) {
        entry.output = {*output};
      } else if (*output != 0) {
        return InvalidArgument("tf.aliasing_output = ", *output, ", there is one result");
      }
      module_.config().input_output_alias.push_back(entry);
    } else if (const Attr* donor = one.Find("jax.buffer_donor");
               donor != nullptr && IntOf(*donor).value_or(1) != 0) {
      module_.config().buffer_donors.push_back({.parameter = number, .index = {}});
    }
    const Attr* sharding = one.Find("sdy.sharding");
    if (sharding == nullptr) sharding = one.Find("mhlo.sharding");
    if (sharding != nullptr) {
      parameters[i]->mutable_extras().sharding.Make() = TRY(ShardingOf(*sharding));
    }
    if (const Attr* replicated = one.Find("mhlo.parameter_replication");
        replicated != nullptr && replicated->kind == Attr::Kind::kArray) {
      for (const Attr* leaf : replicated->elements) {
        parameters[i]->mutable_extras().parameter_replication.push_back(IntOf(*leaf).value_or(0) !=
                                                                        0);
      }
    }
  }
  return {};
}

Status Converter::ResultAttributes(const Attr& all, size_t count) {
  if (all.elements.size() != count) {
    return InvalidArgument("res_attrs has ", all.elements.size(), " entries for ", count,
                           " results");
  }
  SetEntryLists(kResultListPrefix, all);
  std::vector<Sharding> shardings;
  bool any = false;
  for (const Attr* one : all.elements) {
    const Attr* sharding = one->Find("sdy.sharding");
    if (sharding == nullptr) sharding = one->Find("mhlo.sharding");
    any |= sharding != nullptr;
    Sharding& to = shardings.emplace_back();
    to.kind = Sharding::Kind::kUnknown;
    if (sharding != nullptr) to = TRY(ShardingOf(*sharding));
  }
  if (!any) return {};
  Computation* entry = module_.entry();
  Instruction* root = entry->root();
  if (count == 1) {
    if (root->IsParameter() || root->sharding() != nullptr) {
      root = entry->Add(Op::kCopy, NextName("copy"), root->shape(), std::span(&root, 1), NoAttrs{});
      entry->set_root(root);
    }
    root->mutable_extras().sharding.Make() = std::move(shardings[0]);
    return {};
  }
  Sharding& sharding = root->mutable_extras().sharding.Make();
  sharding.kind = Sharding::Kind::kTuple;
  sharding.elements = std::move(shardings);
  return {};
}

Status Converter::EntryAttributes(const Operation& function) {
  const Block& block = function.regions[0].blocks[0];
  if (const Attr* all = function.Find("arg_attrs"); all != nullptr && !all->elements.empty()) {
    TRY(ArgumentAttributes(*all));
  }
  if (const Attr* all = function.Find("res_attrs"); all != nullptr && !all->elements.empty()) {
    TRY(ResultAttributes(*all, block.operations.back()->operands.size()));
  }
  return {};
}

int32_t Converter::StringId(std::vector<std::string>& list,
                            std::unordered_map<std::string_view, int32_t>& ids,
                            std::string_view text) {
  if (text.empty()) return 0;
  auto [it, is_new] = ids.emplace(text, static_cast<int32_t>(list.size()) + 1);
  if (is_new) list.emplace_back(text);
  return it->second;
}

int32_t Converter::FrameId(const Frame* frame) {
  // From the innermost frame out, as far as frames are new; then back.
  std::vector<const Frame*> fresh;
  int32_t parent = 0;
  for (const Frame* f = frame; f != nullptr && fresh.size() < 10'000; f = f->caller) {
    if (auto it = frames_.find(f); it != frames_.end()) {
      parent = it->second;
      break;
    }
    fresh.push_back(f);
  }
  StackFrames& all = module_.stack_frames();
  for (; !fresh.empty(); fresh.pop_back()) {
    const Frame& f = *fresh.back();
    FileLocation location{.file = StringId(all.files, files_, f.file),
                          .function = StringId(all.functions, frame_functions_, f.function),
                          .line = f.line,
                          .end_line = f.end_line,
                          .column = f.column,
                          .end_column = f.end_column};
    all.locations.push_back(location);
    all.frames.push_back(
        {.location = static_cast<int32_t>(all.locations.size()), .parent = parent});
    parent = static_cast<int32_t>(all.frames.size());
    frames_.emplace(&f, parent);
  }
  return parent;
}

const Metadata* Converter::MetadataOf(const Location* location) {
  if (location == nullptr || (location->name.empty() && location->frame == nullptr)) {
    return nullptr;
  }
  // Neighbours mostly come from one place.
  if (location == last_location_) return &last_metadata_;
  last_location_ = location;
  Metadata& m = last_metadata_;
  m = Metadata();
  m.op_name = location->name;
  if (const Frame* frame = location->frame) {
    m.source_file = frame->file;
    m.source_line = frame->line;
    m.source_column = frame->column;
    m.source_end_line = frame->end_line;
    m.source_end_column = frame->end_column;
    m.stack_frame_id = FrameId(frame);
  }
  return &m;
}

}  // namespace mlir

std::vector<std::string> EntryList(const Module& module, std::string_view key) {
  std::vector<std::string> items;
  for (const FrontendAttribute& attribute : module.config().frontend_attributes) {
    if (attribute.key != key) continue;
    items.emplace_back();
    for (size_t i = 0; i < attribute.value.size(); ++i) {
      char c = attribute.value[i];
      if (c == ',') {
        items.emplace_back();
        continue;
      }
      if (c == '\\' && i + 1 < attribute.value.size()) c = attribute.value[++i];
      items.back().push_back(c);
    }
  }
  return items;
}

}  // namespace weft::hlo
