// One instruction on one line.
#include "hlo/text/printer.h"

namespace weft::hlo::text {

void Printer::Name(const Instruction* i) {
  if (o_.percent) out_.push_back('%');
  if (!o_.canonical) {
    out_.append(i->name());
    return;
  }
  auto it = numbers_.find(i);
  StrAppend(out_, "i", it == numbers_.end() ? int64_t{0} : it->second);
}

void Printer::Name(const Computation* c) {
  if (o_.percent) out_.push_back('%');
  if (!o_.canonical) {
    out_.append(c->name());
    return;
  }
  auto it = computation_numbers_.find(c);
  StrAppend(out_, "c", it == computation_numbers_.end() ? int64_t{0} : it->second);
}

const Instruction* Printer::SugarOf(const Instruction& async) {
  const AsyncAttrs& attrs = async.attrs<AsyncAttrs>();
  if (!o_.async_sugar || attrs.calls == nullptr) return nullptr;
  if (sugar_known_) return sugared_.contains(attrs.calls) ? attrs.calls->root() : nullptr;
  const Instruction* start = &async;
  for (int step = 0; step < 100 && start->op() == Op::kAsyncUpdate; ++step) {
    start = FindAsyncProducer(start->operand(0));
    if (start == nullptr) return nullptr;
  }
  if (async.op() == Op::kAsyncDone) {
    start = FindAsyncProducer(async.operand(0));
    for (int step = 0; step < 100 && start != nullptr && start->op() == Op::kAsyncUpdate; ++step) {
      start = FindAsyncProducer(start->operand(0));
    }
  }
  bool sugar = start != nullptr && start->op() == Op::kAsyncStart && HasSugar(*start, o_);
  return sugar ? attrs.calls->root() : nullptr;
}

void Printer::PrintInstruction(const Instruction& i) {
  Name(&i);
  out_.append(" = ");
  ShapeText(i.shape());
  out_.push_back(' ');
  bool is_async = i.attrs().Is<AsyncAttrs>();
  const Instruction* wrapped = is_async ? SugarOf(i) : nullptr;
  if (wrapped != nullptr) {
    StrAppend(out_, Mnemonic(wrapped->op()), Mnemonic(i.op()).substr(5));  // async-start
  } else {
    out_.append(Mnemonic(i.op()));
  }
  out_.push_back('(');
  if (i.op() == Op::kParameter) {
    StrAppend(out_, i.parameter_number());
  } else if (i.op() == Op::kConstant) {
    Constant(i.attrs<ConstantAttrs>(), i.shape());
  } else {
    Operands(i);
  }
  out_.push_back(')');
  if (wrapped != nullptr && i.op() == Op::kAsyncStart) Fields(wrapped->attrs(), false);
  bool inherited = wrapped != nullptr;
  if (is_async && i.op() != Op::kAsyncStart && !inherited && i.operand_count() > 0) {
    const Instruction* producer = FindAsyncProducer(i.operand(0));
    inherited = producer != nullptr && producer->attrs<AsyncAttrs>().calls != nullptr &&
                producer->attrs<AsyncAttrs>().calls == i.attrs<AsyncAttrs>().calls;
  }
  if (is_async && inherited && i.op() == Op::kAsyncStart) {
    const std::string& thread = i.attrs<AsyncAttrs>().async_execution_thread;
    if (!thread.empty()) {
      out_.append(", async_execution_thread=");
      AppendQuoted(out_, thread);
    }
  }
  Fields(i.attrs(), inherited);
  Common(i);
}

void Printer::Operands(const Instruction& i) {
  bool first = true;
  int64_t index = 0;
  for (const Instruction* operand : i.operands()) {
    if (!first) out_.append(", ");
    if (index > 0 && index % 5 == 0 && !o_.canonical) StrAppend(out_, "/*index=", index, "*/");
    ++index;
    first = false;
    if (o_.operand_shapes) {
      ShapeText(operand->shape());
      out_.push_back(' ');
    }
    Name(operand);
  }
}

void Printer::Constant(const ConstantAttrs& attrs, const Shape& shape) {
  if (!attrs.elided) return attrs.literal.AppendTo(out_, o_.max_constant_elements);
  if (!shape.IsTuple()) {
    out_.append("{...}");
    return;
  }
  // A scalar has no braces to stand for.
  auto leaves = [&](auto& self, const Literal& literal) -> void {
    if (literal.IsValid() && literal.shape().IsTuple()) {
      out_.push_back('(');
      for (size_t i = 0; i < literal.tuple().size(); ++i) {
        if (i > 0) out_.append(", ");
        self(self, literal.tuple()[i]);
      }
      out_.push_back(')');
    } else if (literal.IsValid() && literal.shape().rank() == 0) {
      literal.AppendTo(out_);
    } else {
      out_.append("{...}");
    }
  };
  leaves(leaves, attrs.literal);
}

// `inherited`: an async op whose computation and thread are said elsewhere.
void Printer::Fields(const Attrs& attrs, bool inherited) {
  if (attrs.Is<NoAttrs>() || attrs.Is<ParameterAttrs>() || attrs.Is<ConstantAttrs>()) return;
  if (attrs.Is<DomainAttrs>()) {
    const DomainAttrs& domain = attrs.As<DomainAttrs>();
    out_.append(", domain={kind=");
    AppendQuoted(out_, domain.kind);
    out_.append(", entry=");
    AppendSharding(out_, domain.entry, o_.metadata);
    out_.append(", exit=");
    AppendSharding(out_, domain.exit, o_.metadata);
    out_.push_back('}');
    return;
  }
  FieldList fields = attrs.Fields(), defaults = attrs.DefaultFields();
  for (int i = 0; i < fields.size(); ++i) {
    const FieldRef& f = fields[i];
    bool always = f.required || attrs.Is<BroadcastAttrs>();
    if (!always && FieldsEqual(f, defaults[i])) continue;
    if (f.type == FieldType::kComputation && f.As<Computation*>() == nullptr) continue;
    if (inherited && attrs.Is<AsyncAttrs>() && f.name != "output_to_operand_aliasing") continue;
    StrAppend(out_, ", ", f.name, "=");
    Value(f);
  }
}

void Printer::Common(const Instruction& i) {
  const InstructionExtras* x = i.extras();
  if (x != nullptr) {
    if (o_.sharding && x->sharding) {
      out_.append(", sharding=");
      AppendSharding(out_, *x->sharding, o_.metadata);
    }
    if (o_.frontend_attributes && !x->frontend_attributes.empty()) {
      out_.append(", frontend_attributes=");
      FrontendText(x->frontend_attributes);
    }
    if (x->statistics && !o_.canonical) {
      out_.append(", statistics=");
      StatisticsText(*x->statistics);
    }
    if (!x->parameter_replication.empty()) {
      out_.append(", parameter_replication={");
      for (size_t k = 0; k < x->parameter_replication.size(); ++k) {
        StrAppend(out_, k > 0 ? "," : "", static_cast<bool>(x->parameter_replication[k]));
      }
      out_.push_back('}');
    }
    if (o_.control_dependencies && !x->control_predecessors.empty()) {
      out_.append(", control-predecessors={");
      for (size_t k = 0; k < x->control_predecessors.size(); ++k) {
        if (k > 0) out_.append(", ");
        Name(x->control_predecessors[k]);
      }
      out_.push_back('}');
    }
    if (o_.origin && x->origin) {
      out_.append(", origin=");
      AppendOrigin(out_, *x->origin);
    }
  }
  if (o_.metadata && i.metadata() != nullptr) {
    out_.append(", metadata=");
    AppendMetadata(out_, *i.metadata());
  }
  if (x != nullptr && o_.backend_config &&
      (x->backend_config.is_dict || !x->backend_config.text.empty())) {
    out_.append(", backend_config=");
    ConfigText(x->backend_config);
  }
}

}  // namespace weft::hlo::text
