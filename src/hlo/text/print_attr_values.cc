// One writer per type of attribute value.
#include <algorithm>

#include "hlo/text/printer.h"

namespace weft::hlo::text {
namespace {

void AppendInts(std::string& out, const std::vector<int64_t>& ints) {
  out.push_back('{');
  AppendJoined(out, ints, ",");
  out.push_back('}');
}

template <class List, class F>
void AppendBraced(std::string& out, const List& list, std::string_view separator, F&& item) {
  out.push_back('{');
  bool first = true;
  for (const auto& x : list) {
    if (!first) out.append(separator);
    first = false;
    item(x);
  }
  out.push_back('}');
}

}  // namespace

void Printer::Value(const FieldRef& f) {
  switch (f.type) {
    case FieldType::kBool: return AppendOne(out_, f.As<bool>());
    case FieldType::kInt: return AppendOne(out_, f.As<int64_t>());
    case FieldType::kOptionalInt:
      return AppendOne(out_, f.As<std::optional<int64_t>>().value_or(0));
    case FieldType::kDouble: return AppendDouble(out_, f.As<double>());
    case FieldType::kString: return AppendQuoted(out_, f.As<std::string>());
    case FieldType::kIntList: return AppendInts(out_, f.As<std::vector<int64_t>>());
    case FieldType::kIntListList:
      return AppendBraced(out_, f.As<std::vector<std::vector<int64_t>>>(), ",",
                          [&](const auto& list) { AppendInts(out_, list); });
    case FieldType::kIntPairs:
      return AppendBraced(out_, f.As<IntPairs>(), ",", [&](const auto& pair) {
        StrAppend(out_, "{", pair.first, ",", pair.second, "}");
      });
    case FieldType::kEnum: return AppendOne(out_, f.enum_names[f.As<uint8_t>()]);
    case FieldType::kPrecisionList:
      return AppendBraced(out_, f.As<std::vector<Precision>>(), ",",
                          [&](Precision p) { out_.append(hlo::Name(p)); });
    case FieldType::kWindow: return WindowText(f.As<Window>());
    case FieldType::kConvDims: return ConvDimsText(f.As<ConvDims>());
    case FieldType::kPadding: {
      const Padding& padding = f.As<Padding>();
      for (size_t i = 0; i < padding.size(); ++i) {
        StrAppend(out_, i > 0 ? "x" : "", padding[i].low, "_", padding[i].high);
        if (padding[i].interior != 0) StrAppend(out_, "_", padding[i].interior);
      }
      return;
    }
    case FieldType::kSliceDims:
      return AppendBraced(out_, f.As<SliceDims>(), ", ", [&](const SliceDim& d) {
        StrAppend(out_, "[", d.start, ":", d.limit);
        if (d.stride != 1) StrAppend(out_, ":", d.stride);
        out_.push_back(']');
      });
    case FieldType::kReplicaGroups: return f.As<ReplicaGroups>().AppendTo(out_);
    case FieldType::kSharding: return AppendSharding(out_, f.As<Sharding>(), o_.metadata);
    case FieldType::kComputation: return Name(f.As<Computation*>());
    case FieldType::kComputationList:
      return AppendBraced(out_, f.As<std::vector<Computation*>>(), ", ",
                          [&](const Computation* c) { Name(c); });
    case FieldType::kShape: return ShapeText(f.As<Shape>());
    case FieldType::kShapeList:
      return AppendBraced(out_, f.As<std::vector<Shape>>(), ", ",
                          [&](const Shape& s) { ShapeText(s); });
    case FieldType::kLiteral: return TypedLiteral(f.As<Literal>());
    case FieldType::kOperandAliases: return AliasesText(f.As<OperandAliases>());
    case FieldType::kResultAccuracy: return AccuracyText(f.As<ResultAccuracy>());
    case FieldType::kSparsity: return SparsityText(f.As<SparsityConfig>());
  }
}

void Printer::WindowText(const Window& window) {
  auto part = [&](std::string_view name, bool always, auto value, int64_t usual) {
    bool differs = always;
    for (const WindowDim& d : window.dims) differs |= value(d) != usual;
    if (!differs) return;
    StrAppend(out_, out_.back() == '{' ? "" : " ", name, "=");
    for (size_t i = 0; i < window.dims.size(); ++i) {
      StrAppend(out_, i > 0 ? "x" : "", value(window.dims[i]));
    }
  };
  out_.push_back('{');
  if (!window.dims.empty()) {
    part("size", true, [](const WindowDim& d) { return d.size; }, 0);
    part("stride", false, [](const WindowDim& d) { return d.stride; }, 1);
    bool padded = false;
    for (const WindowDim& d : window.dims) padded |= d.pad_low != 0 || d.pad_high != 0;
    if (padded) {
      out_.append(" pad=");
      for (size_t i = 0; i < window.dims.size(); ++i) {
        StrAppend(out_, i > 0 ? "x" : "", window.dims[i].pad_low, "_", window.dims[i].pad_high);
      }
    }
    part("lhs_dilate", false, [](const WindowDim& d) { return d.base_dilation; }, 1);
    part("rhs_dilate", false, [](const WindowDim& d) { return d.window_dilation; }, 1);
    part("rhs_reversal", false, [](const WindowDim& d) { return int64_t{d.reversal}; }, 0);
  }
  out_.push_back('}');
}

void Printer::ConvDimsText(const ConvDims& d) {
  auto group = [&](int64_t rank, char first, int64_t first_dim, char second, int64_t second_dim,
                   const std::vector<int64_t>& spatial) {
    int64_t used = 2 + static_cast<int64_t>(spatial.size());
    std::string labels(static_cast<size_t>(std::max(rank, used)), '?');
    auto set = [&](int64_t dim, char c) {
      if (dim >= 0 && dim < static_cast<int64_t>(labels.size())) {
        labels[static_cast<size_t>(dim)] = c;
      }
    };
    for (size_t i = 0; i < spatial.size(); ++i) set(spatial[i], static_cast<char>('0' + i));
    set(first_dim, first);
    set(second_dim, second);
    out_.append(labels);
  };
  group(d.input_rank, 'b', d.input_batch, 'f', d.input_feature, d.input_spatial);
  out_.push_back('_');
  group(d.kernel_rank, 'i', d.kernel_input, 'o', d.kernel_output, d.kernel_spatial);
  out_.append("->");
  group(d.output_rank, 'b', d.output_batch, 'f', d.output_feature, d.output_spatial);
}

void Printer::AliasesText(const OperandAliases& aliases) {
  AppendBraced(out_, aliases, ", ", [&](const OperandAlias& a) {
    StrAppend(out_, ShapeIndexToString(a.output), ": (", a.operand, ", ",
              ShapeIndexToString(a.operand_index), ")");
  });
}

void Printer::AccuracyText(const ResultAccuracy& a) {
  switch (a.mode) {
    case ResultAccuracy::Mode::kDefault: out_.append("{mode=default}"); break;
    case ResultAccuracy::Mode::kHighest: out_.append("{mode=highest}"); break;
    case ResultAccuracy::Mode::kTolerance:
      StrAppend(out_, "{tolerance={atol=", a.atol, ",rtol=", a.rtol, ",ulps=", a.ulps, "}}");
      break;
  }
}

void Printer::SparsityText(const SparsityConfig& config) {
  auto side = [&](std::string_view name, const std::optional<TensorSparsity>& s) {
    if (!s) return;
    StrAppend(out_, out_.back() == '{' ? "" : " ", name, "={sparsity=", s->num_non_zero, "x",
              s->block_size, " dimension=", s->dimension, " stride=", s->stride,
              " idx=", s->index_operand, "}");
  };
  out_.push_back('{');
  side("lhs", config.lhs);
  side("rhs", config.rhs);
  out_.push_back('}');
}

void Printer::TypedLiteral(const Literal& literal) {
  if (!literal.shape().IsTuple()) {
    // With a layout, or else the elements would be read as one.
    Shape shape = literal.shape();
    shape.MutableLayout();
    shape.AppendTo(out_);
    out_.push_back(' ');
    return literal.AppendTo(out_);
  }
  out_.push_back('(');
  for (size_t i = 0; i < literal.tuple().size(); ++i) {
    if (i > 0) out_.append(", ");
    TypedLiteral(literal.tuple()[i]);
  }
  out_.push_back(')');
}

void Printer::FrontendText(const FrontendAttributes& attributes) {
  std::vector<const FrontendAttribute*> order;
  for (const FrontendAttribute& a : attributes) order.push_back(&a);
  if (o_.canonical) {
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->key < b->key; });
  }
  AppendBraced(out_, order, ",", [&](const FrontendAttribute* a) {
    StrAppend(out_, a->key, "=");
    ConfigText({a->value, a->is_dict});
  });
}

void Printer::ConfigText(const BackendConfig& config) {
  if (!config.is_dict) return AppendQuoted(out_, config.text);
  out_.append(o_.sort_json ? SortedJson(config.text) : config.text);
}

void Printer::StatisticsText(const Statistics& statistics) {
  StrAppend(out_, "{visualizing_index=", statistics.visualizing_index);
  for (const Statistic& s : statistics.values) StrAppend(out_, ",", s.name, "=", s.value);
  out_.push_back('}');
}

}  // namespace weft::hlo::text
