// The rules of custom calls: as the program states them, or by what a target is known to do.
#include <algorithm>
#include <map>

#include "base/str.h"
#include "hlo/attrs.h"
#include "hlo/evaluate/custom_calls.h"
#include "hlo/ops/dim_rules.h"

namespace weft::hlo {
namespace {

// Reads what DimRule::ToString writes.
class RuleReader {
 public:
  explicit RuleReader(std::string_view text) : rest_(text) {}

  Result<DimRule> Read() {
    DimRule rule;
    TRY(ReadTensors(rule.operands));
    TRY(Expect("->"));
    TRY(ReadTensors(rule.results));
    rule.factors.resize(names_.size());
    while (SkipSpaces(), !rest_.empty()) TRY(ReadFactor(rule));
    return rule;
  }

 private:
  void SkipSpaces() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }
  bool Take(std::string_view token) {
    SkipSpaces();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  Status Expect(std::string_view token) {
    if (Take(token)) return {};
    return InvalidArgument("sharding rule: expected ", token, " before '", rest_, "'");
  }
  // Letters, digits and underscores.
  std::string_view Word() {
    SkipSpaces();
    size_t n = 0;
    while (n < rest_.size() && (rest_[n] == '_' || (rest_[n] >= 'a' && rest_[n] <= 'z') ||
                                (rest_[n] >= '0' && rest_[n] <= '9'))) {
      ++n;
    }
    std::string_view word = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return word;
  }

  Status ReadTensors(std::vector<DimRule::Tensor>& tensors) {
    TRY(Expect("("));
    while (!Take(")")) {
      if (!tensors.empty()) TRY(Expect(","));
      TRY(Expect("["));
      DimRule::Tensor& tensor = tensors.emplace_back();
      while (!Take("]")) {
        if (!tensor.empty()) TRY(Expect(","));
        DimRule::Dim& dim = tensor.emplace_back();
        for (std::string_view word = Word(); !word.empty(); word = Word()) {
          if (word == "1") continue;
          auto [name, added] = names_.try_emplace(std::string(word), std::ssize(names_));
          dim.push_back(static_cast<int>(name->second));
        }
        SkipSpaces();
        if (!rest_.starts_with(',') && !rest_.starts_with(']')) return Expect("]");
      }
    }
    return {};
  }

  Status ReadFactor(DimRule& rule) {
    const std::string_view name = Word();
    TRY(Expect("="));
    const std::optional<int64_t> size = ParseInt(Word());
    if (name.empty() || !size) return InvalidArgument("sharding rule: a factor at '", rest_, "'");
    Factor factor{.size = *size};
    if (Take(":reduced")) factor.kind = FactorKind::kReduced;
    if (Take(":permuted")) factor.kind = FactorKind::kPermuted;
    if (Take(":whole")) factor.kind = FactorKind::kWhole;
    auto found = names_.find(std::string(name));  // one that no tensor has says nothing
    if (found != names_.end()) rule.factors[static_cast<size_t>(found->second)] = factor;
    return {};
  }

  std::string_view rest_;
  std::map<std::string, int64_t> names_;
};

// Each dimension's factors make up its size.
bool FitsShape(const DimRule& rule, const DimRule::Tensor& tensor, const Shape& shape) {
  const int64_t rank = shape.IsArray() ? shape.rank() : 0;
  if (static_cast<int64_t>(tensor.size()) != rank) return false;
  for (int64_t d = 0; d < rank; ++d) {
    int64_t size = 1;
    for (int factor : tensor[static_cast<size_t>(d)]) {
      size *= rule.factors[static_cast<size_t>(factor)].size;
    }
    if (!tensor[static_cast<size_t>(d)].empty() && size != shape.dim(d)) return false;
  }
  return true;
}

// Factors that relate no operand to a result say that the call needs all of the dimension.
void KeepUnrelatedWhole(DimRule& rule) {
  auto named = [&](const std::vector<DimRule::Tensor>& tensors, int factor) {
    for (const DimRule::Tensor& tensor : tensors) {
      for (const DimRule::Dim& dim : tensor) {
        if (std::ranges::find(dim, factor) != dim.end()) return true;
      }
    }
    return false;
  };
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const int factor = static_cast<int>(f);
    if (rule.factors[f].kind != FactorKind::kParallel) continue;
    if (named(rule.operands, factor) && named(rule.results, factor)) continue;
    rule.factors[f].kind = FactorKind::kWhole;
  }
}

// The stated rule on this call's own operands; nothing where it does not fit them.
std::optional<DimRule> StatedRule(const Instruction& i) {
  const std::string* text = i.FrontendAttributeValue(kShardingRule);
  if (text == nullptr) return std::nullopt;
  Result<DimRule> stated = ParseDimRule(*text);
  RuleMaker maker(i);
  if (!stated || static_cast<int64_t>(stated->operands.size()) != i.operand_count() ||
      static_cast<int64_t>(stated->results.size()) != maker.leaves()) {
    return std::nullopt;
  }
  KeepUnrelatedWhole(*stated);
  for (const Factor& factor : stated->factors) maker.Add(factor.size, factor.kind);
  auto put = [&](const DimRule::Tensor& tensor, const Shape& shape, auto&& add) {
    if (!FitsShape(*stated, tensor, shape)) return false;
    for (size_t d = 0; d < tensor.size(); ++d) {
      for (int factor : tensor[d]) add(static_cast<int64_t>(d), factor);
    }
    return true;
  };
  for (int64_t k = 0; k < i.operand_count(); ++k) {
    const bool fits = put(stated->operands[static_cast<size_t>(k)], i.operand(k)->shape(),
                          [&](int64_t d, int factor) { maker.Operand(k, d, factor); });
    if (!fits) return std::nullopt;
  }
  for (int64_t k = 0; k < maker.leaves(); ++k) {
    const bool fits = put(stated->results[static_cast<size_t>(k)], maker.leaf(k),
                          [&](int64_t d, int factor) { maker.Result(k, d, factor); });
    if (!fits) return std::nullopt;
  }
  return maker.Take();
}

// The first dimensions of all arrays go together.
DimRule RuleBatches(const Instruction& i, int64_t batches) {
  RuleMaker maker(i);
  for (int64_t d = 0; d < batches; ++d) {
    auto has = [&](const Shape& shape) {
      return shape.IsArray() && shape.rank() > d && shape.dim(d) == maker.leaf(0).dim(d);
    };
    if (maker.leaves() == 0 || !maker.leaf(0).IsArray() || maker.leaf(0).rank() <= d) break;
    bool all = true;
    for (const Instruction* operand : i.operands()) all &= has(operand->shape());
    for (int64_t k = 0; k < maker.leaves(); ++k) all &= has(maker.leaf(k));
    if (!all) break;
    maker.Along(d, FactorKind::kParallel, 0, i.operand_count());
  }
  return maker.Take();
}

// All but the dimension along which elements are chosen.
DimRule RuleChosen(const Instruction& i, int64_t dimension) {
  RuleMaker maker(i);
  int64_t arrays = 0;
  while (arrays < i.operand_count() && i.operand(arrays)->shape().IsArray() &&
         i.operand(arrays)->shape().rank() == maker.leaf(0).rank()) {
    ++arrays;
  }
  for (int64_t d = 0; d < maker.leaf(0).rank(); ++d) {
    if (d != dimension) maker.Along(d, FactorKind::kParallel, 0, arrays);
  }
  return maker.Take();
}

}  // namespace

Result<DimRule> ParseDimRule(std::string_view text) {
  return RuleReader(text).Read();
}

DimRule RuleCustomCall(const Instruction& i) {
  if (std::optional<DimRule> stated = StatedRule(i)) return *stated;
  if (const std::string* batches = i.FrontendAttributeValue("num_batch_dims")) {
    return RuleBatches(i, ParseInt(*batches).value_or(0));
  }
  const std::string& target = i.attrs<CustomCallAttrs>().custom_call_target;
  const bool alike = i.operand_count() > 0 && i.shape().IsArray() &&
                     i.operand(0)->shape().IsArray() &&
                     Shape::SameDims(i.shape(), i.operand(0)->shape());
  if (alike &&
      (OpOfCustomCall(target) || (IsIdentityCustomCall(target) && i.operand_count() == 1))) {
    return RuleElementwise(i);
  }
  if (std::optional<TopKCall> chosen = TopKOfCustomCall(i)) return RuleChosen(i, chosen->dimension);
  return RuleMaker(i).Take();
}

}  // namespace weft::hlo
