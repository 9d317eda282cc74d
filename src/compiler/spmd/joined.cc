#include "compiler/spmd/joined.h"

#include <complex>
#include <cstring>
#include <map>

#include "hlo/text.h"

namespace weft::compiler::spmd {
namespace {

// Calls fn(element of the whole, element of the part) for what the part at `tile` covers.
template <class Fn>
void VisitPart(const Shape& whole, const Shape& part, std::span<const int64_t> tile, Fn&& fn) {
  const int64_t rank = whole.rank();
  std::vector<int64_t> at(static_cast<size_t>(rank), 0);
  for (int64_t k = 0; k < part.elements(); ++k) {
    int64_t rest = k, index = 0, stride = 1;
    bool inside = true;
    for (int64_t d = rank; d-- > 0;) {
      const int64_t place = rest % part.dim(d) + tile[static_cast<size_t>(d)] * part.dim(d);
      rest /= part.dim(d);
      inside &= place < whole.dim(d);
      index += place * stride;
      stride *= whole.dim(d);
    }
    if (inside) fn(index, k);
  }
}

int64_t PlaceOf(const Form& form, const DeviceMesh& mesh, int64_t device) {
  int64_t place = 0;
  for (int64_t p = 0; p < mesh.devices; ++p) {
    const int64_t at = form.order.empty() ? mesh.DeviceAt(p) : form.order[static_cast<size_t>(p)];
    if (at == device) place = p;
  }
  return place;
}

std::vector<int64_t> TileOf(const Form& form, const DeviceMesh& mesh, int64_t device) {
  const int64_t place = PlaceOf(form, mesh, device);
  std::vector<int64_t> tile;
  for (const DimForm& dim : form.dims) tile.push_back(mesh.IndexOf(place, dim.axes));
  return tile;
}

void Combine(Literal& into, const Literal& part, hlo::ReductionKind kind) {
  for (int64_t k = 0; k < into.size(); ++k) {
    const std::complex<double> x = into.GetComplex(k), y = part.GetComplex(k);
    const bool least = kind == hlo::ReductionKind::kMin;
    if (least || kind == hlo::ReductionKind::kMax) {
      if (x.real() != y.real() && (x.real() > y.real()) == least) into.SetComplex(k, y);
    } else if (IsFloat(into.dtype()) || IsComplex(into.dtype())) {
      into.SetComplex(k, x + y);
    } else {
      into.SetInt(k, into.GetInt(k) + part.GetInt(k));
    }
  }
}

// What the devices hold once those that have summands of the same elements have added them up.
std::vector<Literal> AddUp(std::span<const Literal> parts, const Form& form,
                           const DeviceMesh& mesh) {
  AxisList others;
  for (int k = 0; k < static_cast<int>(mesh.pieces.size()); ++k) {
    if ((form.unreduced & BitOf(k)) == 0) others.push_back(k);
  }
  std::map<int64_t, Literal> sums;
  std::vector<int64_t> groups;
  for (int64_t device = 0; device < mesh.devices; ++device) {
    const Literal& part = parts[static_cast<size_t>(device)];
    groups.push_back(mesh.IndexOf(PlaceOf(form, mesh, device), others));
    auto [sum, first] = sums.try_emplace(groups.back(), part);
    if (!first) Combine(sum->second, part, form.reduction);
  }
  std::vector<Literal> all;
  for (int64_t group : groups) all.push_back(sums.at(group));
  return all;
}

// Whether two elements are the same, or nearly so where devices add up in different orders.
bool Agree(const Literal& a, int64_t i, const Literal& b, int64_t j) {
  const int64_t width = ByteWidth(a.dtype());
  if (std::memcmp(a.data() + i * width, b.data() + j * width, static_cast<size_t>(width)) == 0) {
    return true;
  }
  std::string x, y;
  a.AppendElement(x, i);
  b.AppendElement(y, j);
  return x.contains("nan") && y.contains("nan");
}

Result<std::vector<Form>> FormsNoted(const hlo::Module& module, std::string_view key,
                                     const DeviceMesh& mesh, std::span<const Shape* const> leaves) {
  for (const hlo::FrontendAttribute& attribute : module.config().frontend_attributes) {
    if (attribute.key != key) continue;
    const hlo::Sharding all = TRY(hlo::ParseSharding(attribute.value));
    if (all.elements.size() != leaves.size()) {
      return InvalidArgument(key, ": ", all.elements.size(), " for ", leaves.size(), " arrays");
    }
    std::vector<Form> forms;
    for (size_t k = 0; k < leaves.size(); ++k) {
      forms.push_back(TRY(ReadForm(all.elements[k], *leaves[k], mesh)));
    }
    return forms;
  }
  return NotFound("the module is not partitioned: it has no ", key);
}

Literal CutTree(const Literal& whole, std::span<const Form> forms, size_t& at,
                const DeviceMesh& mesh, int64_t device) {
  if (!whole.shape().IsTuple()) return CutFor(whole, forms[at++], mesh, device);
  std::vector<Literal> elements;
  for (const Literal& element : whole.tuple()) {
    elements.push_back(CutTree(element, forms, at, mesh, device));
  }
  return Literal::Tuple(std::move(elements));
}

Result<Literal> JoinTree(const Shape& whole, std::span<const Literal> parts,
                         std::span<const Form> forms, size_t& at, const DeviceMesh& mesh) {
  if (!whole.IsTuple()) return Join(whole, parts, forms[at++], mesh);
  std::vector<Literal> elements;
  for (int64_t k = 0; k < whole.tuple_size(); ++k) {
    std::vector<Literal> inner;
    for (const Literal& part : parts) inner.push_back(part.tuple()[static_cast<size_t>(k)]);
    elements.push_back(TRY(JoinTree(whole.tuple_element(k), inner, forms, at, mesh)));
  }
  return Literal::Tuple(std::move(elements));
}

// The mesh that the noted shardings are about.
Result<DeviceMesh> MeshOf(const hlo::Module& partitioned) {
  hlo::Module noted("noted");
  hlo::Computation* computation = noted.AddComputation("noted");
  noted.config().num_partitions = partitioned.config().num_partitions;
  for (const hlo::FrontendAttribute& attribute : partitioned.config().frontend_attributes) {
    if (attribute.key != kParameterShardings && attribute.key != kResultShardings) continue;
    hlo::Instruction* holder =
        computation->Add(hlo::Op::kAfterAll, "holder", Shape::Token(), {}, hlo::Attrs());
    holder->mutable_extras().sharding.Make() = TRY(hlo::ParseSharding(attribute.value));
  }
  return DeviceMesh::Of(noted);
}

}  // namespace

bool IsPartitioned(const hlo::Module& module) {
  for (const hlo::FrontendAttribute& attribute : module.config().frontend_attributes) {
    if (attribute.key == kResultShardings) return true;
  }
  return false;
}

Literal CutFor(const Literal& whole, const Form& form, const DeviceMesh& mesh, int64_t device) {
  if (!whole.shape().IsArray()) return whole;
  Shape shape = LocalShape(whole.shape(), form, mesh);
  shape.ClearLayout();
  Literal part(shape);
  const int64_t width = ByteWidth(whole.dtype());
  AxisList summands;
  for (int k = 0; k < static_cast<int>(mesh.pieces.size()); ++k) {
    if ((form.unreduced & BitOf(k)) != 0) summands.push_back(k);
  }
  const bool sums =
      form.reduction != hlo::ReductionKind::kMax && form.reduction != hlo::ReductionKind::kMin;
  Form by_summand = Form::Replicated(1);
  by_summand.dims[0].axes = summands;
  by_summand.order = form.order;
  if (sums && !summands.empty() && TileOf(by_summand, mesh, device)[0] != 0) return part;
  std::byte* to = part.mutable_data();
  VisitPart(whole.shape(), shape, TileOf(form, mesh, device), [&](int64_t from, int64_t at) {
    std::memcpy(to + at * width, whole.data() + from * width, static_cast<size_t>(width));
  });
  return part;
}

Result<Literal> Join(const Shape& whole, std::span<const Literal> parts, const Form& form,
                     const DeviceMesh& mesh) {
  if (!whole.IsArray()) return parts[0];
  std::vector<Literal> sums;
  if (form.unreduced != 0) {
    sums = AddUp(parts, form, mesh);
    parts = sums;
  }
  Shape shape = whole;
  shape.ClearLayout();
  Literal joined(shape);
  std::vector<int8_t> seen(static_cast<size_t>(joined.size()), 0);
  const int64_t width = ByteWidth(whole.dtype());
  for (int64_t device = 0; device < mesh.devices; ++device) {
    const Literal& part = parts[static_cast<size_t>(device)];
    const Shape expected = LocalShape(whole, form, mesh);
    if (!Shape::SameDims(expected, part.shape())) {
      return InvalidArgument("device ", device, " has ", part.shape().ToStringWithoutLayout(),
                             " instead of ", expected.ToStringWithoutLayout());
    }
    std::string differs;
    std::byte* to = joined.mutable_data();
    VisitPart(whole, part.shape(), TileOf(form, mesh, device), [&](int64_t at, int64_t k) {
      if (seen[static_cast<size_t>(at)] == 0) {
        std::memcpy(to + at * width, part.data() + k * width, static_cast<size_t>(width));
        seen[static_cast<size_t>(at)] = 1;
      } else if (differs.empty() && !Agree(joined, at, part, k)) {
        std::string a, b;
        joined.AppendElement(a, at);
        part.AppendElement(b, k);
        differs =
            StrCat("device ", device, " holds another copy of element ", at, ": ", b, " and ", a);
      }
    });
    if (!differs.empty()) return InvalidArgument(differs);
  }
  return joined;
}

Result<Literal> RunJoined(const hlo::Module& whole, const hlo::Module& partitioned,
                          std::span<const Literal> arguments, const RunParts& run) {
  const DeviceMesh mesh = TRY(MeshOf(partitioned));
  std::vector<const Shape*> leaves;
  for (const hlo::Instruction* p : whole.entry()->parameters()) {
    for (const Shape* leaf : LeavesOf(p->shape())) leaves.push_back(leaf);
  }
  const std::vector<Form> in = TRY(FormsNoted(partitioned, kParameterShardings, mesh, leaves));
  const Shape& result = whole.entry()->root()->shape();
  const std::vector<Form> out =
      TRY(FormsNoted(partitioned, kResultShardings, mesh, LeavesOf(result)));
  const int64_t replicas = std::max<int64_t>(partitioned.config().replica_count, 1);
  std::vector<std::vector<Literal>> by_device;
  for (int64_t device = 0; device < replicas * mesh.devices; ++device) {
    std::vector<Literal>& own = by_device.emplace_back();
    size_t at = 0;
    for (const Literal& argument : arguments) {
      own.push_back(CutTree(argument, in, at, mesh, device % mesh.devices));
    }
  }
  std::vector<Literal> parts = TRY(run(by_device));
  size_t at = 0;
  return JoinTree(result, std::span(parts).first(static_cast<size_t>(mesh.devices)), out, at, mesh);
}

Result<Literal> EvaluateJoined(const hlo::Module& whole, const hlo::Module& partitioned,
                               std::span<const Literal> arguments,
                               const hlo::EvalOptions& options) {
  return RunJoined(whole, partitioned, arguments, [&](std::span<std::vector<Literal>> by_device) {
    return hlo::EvaluateOnDevices(partitioned, by_device, options);
  });
}

}  // namespace weft::compiler::spmd
