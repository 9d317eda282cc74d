// bound-dynamic-shapes: the walk, loops and conditionals, the entry's parameters and results.
#include "compiler/passes/dynamic/bound_shapes.h"

#include <algorithm>
#include <map>

#include "base/str.h"
#include "compiler/passes.h"
#include "compiler/passes/expand/expand_ops.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

// A dimension of a leaf whose size is passed along.
struct PassedSize {
  size_t leaf;
  int64_t dim;
  bool operator==(const PassedSize&) const = default;
};

void ClearDynamic(Shape& shape) {
  for (Shape& element : shape.mutable_tuple()) ClearDynamic(element);
  if (!shape.IsArray()) return;
  for (int64_t d = 0; d < shape.rank(); ++d) shape.set_dynamic(d, false);
}

void AddDynamicDims(const Shape& shape, std::vector<PassedSize>& passed) {
  std::vector<Shape> leaves = LeavesOf(shape);
  for (size_t k = 0; k < leaves.size(); ++k) {
    for (int64_t d = 0; leaves[k].IsArray() && d < leaves[k].rank(); ++d) {
      PassedSize size{k, d};
      if (leaves[k].is_dynamic(d) && std::ranges::find(passed, size) == passed.end()) {
        passed.push_back(size);
      }
    }
  }
}

void AddKnownDims(std::span<const Sizes> leaves, std::vector<PassedSize>& passed) {
  for (size_t k = 0; k < leaves.size(); ++k) {
    for (size_t d = 0; d < leaves[k].size(); ++d) {
      PassedSize size{k, static_cast<int64_t>(d)};
      if (leaves[k][d] != nullptr && std::ranges::find(passed, size) == passed.end()) {
        passed.push_back(size);
      }
    }
  }
}

int64_t TopElements(const Shape& shape) {
  return shape.IsTuple() ? shape.tuple_size() : 1;
}

// State of loops, by name, that gets sizes in the body alone.
using LateSizes = std::map<std::string, std::vector<PassedSize>>;

class Bounding {
 public:
  // `late` is added to when a loop is found to have such state; the error of Run then says nothing.
  Bounding(hlo::Module& module, LateSizes& late) : module_(module), late_(late) {}

  Status Run() {
    Computation& entry = *module_.entry();
    std::vector<PassedSize> taken, given;
    std::vector<std::vector<Sizes>> sizes;
    size_t leaf = 0;
    const std::vector<Instruction*> parameters(entry.parameters().begin(),
                                               entry.parameters().end());
    for (Instruction* p : parameters) {
      std::vector<PassedSize> own;
      AddDynamicDims(p->shape(), own);
      std::vector<Sizes> leaves(LeavesOf(p->shape()).size());
      Builder b(entry, entry.first(), p);
      for (const PassedSize& size : own) {
        const Shape shape = LeavesOf(p->shape())[size.leaf];
        leaves[size.leaf].resize(static_cast<size_t>(shape.rank()));
        leaves[size.leaf][static_cast<size_t>(size.dim)] = TRY(b.Parameter(
            std::ssize(entry.parameters()), Shape::Scalar(DType::kS32), p->name() + ".size"));
        taken.push_back({leaf + size.leaf, size.dim});
      }
      leaf += leaves.size();
      known_.Note(*p, std::move(leaves));
      ClearDynamic(p->mutable_shape());
    }
    Shape declared = entry.root()->shape();
    TRY(Walk(entry));
    AddDynamicDims(declared, given);
    AddKnownDims(known_.Of(*entry.root()), given);
    if (!given.empty()) TRY(ExtendRoot(entry, given));
    ChangeInterface(taken, given, declared.IsTuple());
    for (const auto& computation : module_.computations()) {
      for (Instruction* i : *computation) ClearDynamic(i->mutable_shape());
    }
    return {};
  }

 private:
  Status Walk(Computation& computation) {
    for (Instruction* i : computation.Snapshot()) {
      if (i->shape().HasUnboundedDims()) {
        return Unimplemented(hlo::Mnemonic(i->op()), ": no native lowering of ",
                             i->shape().ToStringWithoutLayout());
      }
      if (i->IsParameter() || known_.Has(*i)) continue;
      if (i->op() == Op::kWhile) {
        TRY(WalkWhile(i));
      } else if (i->op() == Op::kConditional) {
        TRY(WalkConditional(i));
      } else {
        BoundValue bound = TRY(BoundOp(i, known_));
        ClearDynamic(bound.value->mutable_shape());
        known_.Note(*bound.value, std::move(bound.leaves));
      }
    }
    return {};
  }

  // The elements of a value, then the sizes.
  Result<Instruction*> Extended(Builder& b, Instruction* value,
                                std::span<const PassedSize> passed) {
    std::vector<Instruction*> all = {value};
    if (value->shape().IsTuple()) {
      all.clear();
      for (int64_t k = 0; k < value->shape().tuple_size(); ++k) {
        all.push_back(TRY(ElementOf(b, value, k)));
      }
    }
    std::vector<Sizes> leaves = known_.Of(*value);
    std::vector<Shape> shapes = LeavesOf(value->shape());
    for (const PassedSize& size : passed) {
      all.push_back(SizeValue(b, leaves[size.leaf], shapes[size.leaf], size.dim));
    }
    return b.Tuple(all);
  }

  // The value that `extended` was made of, and its sizes.
  Result<Instruction*> Restored(Builder& b, Instruction* extended, const Shape& shape,
                                std::span<const PassedSize> passed) {
    Instruction* value = nullptr;
    if (shape.IsTuple()) {
      std::vector<Instruction*> elements;
      for (int64_t k = 0; k < shape.tuple_size(); ++k) {
        elements.push_back(TRY(b.GetTupleElement(extended, k)));
      }
      value = TRY(b.Tuple(elements));
    } else {
      value = TRY(b.GetTupleElement(extended, 0));
    }
    std::vector<Shape> shapes = LeavesOf(shape);
    std::vector<Sizes> leaves(shapes.size());
    int64_t next = TopElements(shape);
    for (const PassedSize& size : passed) {
      leaves[size.leaf].resize(static_cast<size_t>(shapes[size.leaf].rank()));
      leaves[size.leaf][static_cast<size_t>(size.dim)] = TRY(b.GetTupleElement(extended, next++));
    }
    known_.Note(*value, std::move(leaves));
    return value;
  }

  static Shape ExtendedShape(Shape shape, size_t passed) {
    ClearDynamic(shape);
    std::vector<Shape> elements = {shape};
    if (shape.IsTuple()) elements = shape.elements_of_tuple();
    elements.resize(elements.size() + passed, Shape::Scalar(DType::kS32));
    return Shape::Tuple(std::move(elements));
  }

  Status ExtendRoot(Computation& computation, std::span<const PassedSize> passed) {
    Builder b(computation, nullptr, computation.root());
    computation.set_root(TRY(Extended(b, computation.root(), passed)));
    return {};
  }

  // A parameter, loop or conditional gets sizes behind its elements: its users read the value
  // within.
  Status Extend(Instruction* op, std::span<const PassedSize> passed) {
    std::vector<Instruction*> users(op->users());
    bool is_root = op->IsRoot();
    const Shape shape = op->shape();
    op->mutable_shape() = ExtendedShape(shape, passed.size());
    Builder b(*op->parent(), op->next(), op);
    Instruction* value = TRY(Restored(b, op, shape, passed));
    for (Instruction* user : users) {
      for (int64_t k = 0; k < user->operand_count(); ++k) {
        if (user->operand(k) == op) user->ReplaceOperand(k, value);
      }
    }
    if (is_root) op->parent()->set_root(value);
    return {};
  }

  Status WalkWhile(Instruction* loop) {
    const hlo::WhileAttrs attrs = loop->attrs<hlo::WhileAttrs>();
    std::vector<PassedSize> passed;
    AddDynamicDims(loop->shape(), passed);
    AddDynamicDims(attrs.body->parameter(0)->shape(), passed);
    AddDynamicDims(attrs.body->root()->shape(), passed);
    AddKnownDims(known_.Of(*loop->operand(0)), passed);
    if (auto late = late_.find(loop->name()); late != late_.end()) {
      for (const PassedSize& size : late->second) {
        if (std::ranges::find(passed, size) == passed.end()) passed.push_back(size);
      }
    }
    if (passed.empty()) {
      TRY(Walk(*attrs.condition));
      TRY(Walk(*attrs.body));
      return CheckPassed(*loop, passed);
    }
    Builder b(*loop->parent(), loop, loop);
    loop->ReplaceOperand(0, TRY(Extended(b, loop->operand(0), passed)));
    TRY(Extend(attrs.condition->parameter(0), passed));
    TRY(Walk(*attrs.condition));
    TRY(Extend(attrs.body->parameter(0), passed));
    TRY(Walk(*attrs.body));
    TRY(CheckPassed(*loop, passed));
    TRY(ExtendRoot(*attrs.body, passed));
    return Extend(loop, passed);
  }

  // All sizes that the body makes go to the next round.
  Status CheckPassed(const Instruction& loop, std::span<const PassedSize> passed) {
    std::vector<PassedSize> made;
    AddKnownDims(known_.Of(*loop.attrs<hlo::WhileAttrs>().body->root()), made);
    std::erase_if(made, [&](const PassedSize& size) {
      return std::ranges::find(passed, size) != passed.end();
    });
    if (made.empty()) return {};
    std::vector<PassedSize>& late = late_[loop.name()];
    late.insert(late.end(), made.begin(), made.end());
    return Unimplemented("while: state that gets sizes in the loop");
  }

  Status WalkConditional(Instruction* conditional) {
    std::vector<PassedSize> results;
    AddDynamicDims(conditional->shape(), results);
    int64_t operand = 1;
    for (Computation* branch : conditional->called_computations()) {
      std::vector<PassedSize> passed;
      AddDynamicDims(branch->parameter(0)->shape(), passed);
      AddKnownDims(known_.Of(*conditional->operand(operand)), passed);
      if (!passed.empty()) {
        Builder b(*conditional->parent(), conditional, conditional);
        conditional->ReplaceOperand(operand,
                                    TRY(Extended(b, conditional->operand(operand), passed)));
        TRY(Extend(branch->parameter(0), passed));
      }
      TRY(Walk(*branch));
      AddKnownDims(known_.Of(*branch->root()), results);
      ++operand;
    }
    if (results.empty()) return {};
    for (Computation* branch : conditional->called_computations()) {
      TRY(ExtendRoot(*branch, results));
    }
    return Extend(conditional, results);
  }

  static std::string Listed(std::span<const PassedSize> sizes) {
    std::string out;
    for (const PassedSize& size : sizes) {
      StrAppend(out, out.empty() ? "" : ",", size.leaf, ".", size.dim);
    }
    return out;
  }

  // What the outside gives and gets beside the arrays, by leaf and dimension.
  void ChangeInterface(std::span<const PassedSize> taken, std::span<const PassedSize> given,
                       bool tuple) {
    hlo::ModuleConfig& config = module_.config();
    if (!taken.empty()) {
      config.frontend_attributes.push_back({std::string(kParameterSizes), Listed(taken)});
    }
    if (!given.empty()) {
      config.frontend_attributes.push_back({std::string(kResultSizes), Listed(given)});
      if (!tuple) {
        for (hlo::InputOutputAlias& alias : config.input_output_alias) alias.output.push_back(0);
      }
    }
    if (!config.entry_layout) return;
    for (Shape& shape : config.entry_layout->parameters) ClearDynamic(shape);
    config.entry_layout->parameters.resize(config.entry_layout->parameters.size() + taken.size(),
                                           Shape::Scalar(DType::kS32));
    if (given.empty()) {
      ClearDynamic(config.entry_layout->result);
    } else {
      config.entry_layout->result = ExtendedShape(config.entry_layout->result, given.size());
    }
  }

  hlo::Module& module_;
  LateSizes& late_;
  KnownSizes known_;
};

bool HasLoops(const hlo::Module& module) {
  for (const auto& computation : module.computations()) {
    for (const Instruction* i : *computation) {
      if (i->op() == Op::kWhile) return true;
    }
  }
  return false;
}

// Tried on copies until no loop has more state with sizes.
LateSizes FindLateSizes(const hlo::Module& module) {
  LateSizes late;
  auto count = [&] {
    size_t sizes = 0;
    for (const auto& [name, passed] : late) sizes += passed.size();
    return sizes;
  };
  if (!HasLoops(module)) return late;
  for (size_t before = 0;; before = count()) {
    std::unique_ptr<hlo::Module> copy = hlo::CloneModule(module);
    if (Bounding(*copy, late).Run() || count() == before) return late;
  }
}

bool NeedsBounding(const hlo::Module& module) {
  for (const auto& computation : module.computations()) {
    for (const Instruction* i : *computation) {
      if (!i->shape().IsStatic() || IsSizeOp(*i)) return true;
    }
  }
  return false;
}

}  // namespace

Result<bool> BoundDynamicShapes(hlo::Module& module, const PassContext& context) {
  if (!NeedsBounding(module)) return false;
  TRY(SeparateComputations(module, context));
  LateSizes late = FindLateSizes(module);
  TRY(Bounding(module, late).Run());
  TRY(RewriteEach(module, ExpandDeviceCollectives));
  return true;
}

std::vector<SizedDimension> SizedDimensions(const hlo::Module& module, std::string_view key) {
  std::vector<SizedDimension> sizes;
  for (const hlo::FrontendAttribute& attribute : module.config().frontend_attributes) {
    if (attribute.key != key) continue;
    for (size_t at = 0; at < attribute.value.size();) {
      SizedDimension size;
      for (int64_t* number : {&size.leaf, &size.dim}) {
        for (; at < attribute.value.size() && attribute.value[at] >= '0' &&
               attribute.value[at] <= '9';
             ++at) {
          *number = *number * 10 + (attribute.value[at] - '0');
        }
        ++at;  // the point or comma
      }
      sizes.push_back(size);
    }
  }
  return sizes;
}

}  // namespace weft::compiler
