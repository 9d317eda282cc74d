// Programs of one factorisation or solve each.
#include "base/elements.h"
#include "base/str.h"
#include "gpu/routines_cases.h"

namespace weft::gpu {
namespace {

// Adds to the diagonal, so that matrices are well conditioned and positive definite: a a^T is not
// needed, as only one triangle is read and it is diagonally dominant.
std::function<void(Literal&, int64_t)> Dominant(int64_t n) {
  return [n](Literal& a, int64_t number) {
    if (number != 0) return;
    DType type = a.shape().dtype(), real = RealType(type);
    int64_t width = ByteWidth(type);
    for (int64_t e = 0; e < a.shape().elements(); ++e) {
      if (e / n % n != e % n) continue;
      double x[2] = {static_cast<double>(n), 0};
      for (int64_t part = 0; part < (IsComplex(type) ? 2 : 1); ++part) {
        StoreF64(real, &x[part], 1, a.mutable_data() + e * width + part * ByteWidth(real));
      }
    }
  };
}

// Reflections whose product does not grow with their number.
void ShrinkReflections(Literal& a, int64_t number) {
  if (number != 0) return;
  DType real = RealType(a.shape().dtype());
  int64_t n = a.byte_size() / ByteWidth(real);
  for (int64_t i = 0; i < n; ++i) {
    double x;
    std::byte* at = a.mutable_data() + i * ByteWidth(real);
    LoadF64(real, at, 1, &x);
    x /= 100;
    StoreF64(real, &x, 1, at);
  }
}

class LinalgList {
 public:
  void AddFew() {
    Cholesky("f32", 2, 37, true, true);
    Cholesky("c64", 1, 20, false, true);
    Cholesky("f32", 1, 5, true, false);
    Solve("f32", 2, 20, 50, true, ", transpose = true");
    Solve("c64", 1, 10, 9, false, ", conjugate = true, transpose = true, unit_diagonal = true");
    Lu("f32", 2, 30, 20);
    Qr("f32", 2, 20, 15);
  }

  // Also for those that kernels of our own compute in all types.
  void AddSmall(const char* type) {
    for (bool lower : {false, true}) {
      Cholesky(type, 3, 33, lower, true);
      Cholesky(type, 1, 130, lower, true);
      Solve(type, 2, 40, 70, lower, "");
      Solve(type, 2, 40, 70, lower, ", lower = false");
      Solve(type, 2, 40, 7, lower, ", transpose = true, conjugate = true");
      Solve(type, 2, 140, 1, lower, ", lower = false, transpose = true, unit_diagonal = true");
    }
  }

  void AddLarge(const char* type) {
    // Few large ones, which are the libraries'.
    Cholesky(type, 2, 150, true, true);
    Cholesky(type, 1, 150, false, true);
    Cholesky(type, 1, 150, true, false);
    for (bool left : {false, true}) {
      Solve(type, 2, 140, 160, left, "");
      Solve(type, 1, 140, 160, left, ", lower = false, transpose = true");
      Solve(type, 1, 140, 160, left, ", transpose = true, conjugate = true, unit_diagonal = true");
      Solve(type, 1, 140, 160, left, ", conjugate = true");
    }
    Lu(type, 2, 150, 140);
    Lu(type, 1, 140, 150);
    Qr(type, 2, 150, 140);
    Qr(type, 1, 140, 150);
    Lu(type, 2, 50, 30);
    Lu(type, 1, 30, 50);
    Lu(type, 1, 100, 100);
    Qr(type, 2, 50, 30);
    Qr(type, 2, 30, 50);
    Qr(type, 1, 300, 60);
  }

  std::vector<RoutineCase> Take() { return std::move(cases_); }

 private:
  static std::string Matrix(const char* type, int64_t batch, int64_t m, int64_t n) {
    return StrCat(type, "[", batch, ",", m, ",", n, "]");
  }
  void Cholesky(const char* type, int64_t batch, int64_t n, bool lower, bool definite) {
    std::string a = Matrix(type, batch, n, n);
    cases_.push_back(
        CallCase(StrCat("cholesky_", a, lower), "cholesky", {{"read", a}, {"write", a}},
                 StrCat("n = ", n, ", batch = ", batch, lower ? "" : ", lower = false"), 64));
    if (definite) cases_.back().prepare = Dominant(n);
  }
  void Solve(const char* type, int64_t batch, int64_t m, int64_t n, bool left, const char* attrs) {
    int64_t order = left ? m : n;
    std::string b = Matrix(type, batch, m, n);
    cases_.push_back(
        CallCase(StrCat("solve_", b, left, attrs), "triangular_solve",
                 {{"read", Matrix(type, batch, order, order)}, {"read", b}, {"write", b}},
                 StrCat("m = ", m, ", n = ", n, ", batch = ", batch,
                        left ? "" : ", left_side = false", attrs),
                 64));
    cases_.back().prepare = Dominant(order);
  }
  void Lu(const char* type, int64_t batch, int64_t m, int64_t n) {
    std::string a = Matrix(type, batch, m, n);
    cases_.push_back(CallCase(StrCat("lu_", a), "lu",
                              {{"read", a},
                               {"write", a},
                               {"write", StrCat("s32[", batch, ",", m < n ? m : n, "]")},
                               {"write", StrCat("s32[", batch, "]")}},
                              StrCat("m = ", m, ", n = ", n, ", batch = ", batch), 2000));
  }
  void Qr(const char* type, int64_t batch, int64_t m, int64_t n) {
    std::string a = Matrix(type, batch, m, n);
    int64_t k = m < n ? m : n;
    std::string taus = StrCat(type, "[", batch, ",", k, "]"),
                attrs = StrCat("m = ", m, ", n = ", n, ", batch = ", batch);
    cases_.push_back(CallCase(StrCat("qr_", a), "householder_qr",
                              {{"read", a}, {"write", a}, {"write", taus}}, attrs, 500));
    cases_.push_back(CallCase(StrCat("product_", a), "householder_product",
                              {{"read", a}, {"read", taus}, {"write", a}},
                              StrCat(attrs, ", k = ", k), 2000));
    cases_.back().prepare = ShrinkReflections;
  }

  std::vector<RoutineCase> cases_;
};

}  // namespace

std::vector<RoutineCase> LinalgCases(bool few) {
  LinalgList list;
  list.AddFew();
  if (few) return list.Take();
  for (const char* type : {"f32", "f64", "c64", "c128", "bf16", "f16"}) {
    list.AddSmall(type);
    if (std::string_view(type) != "bf16" && std::string_view(type) != "f16") list.AddLarge(type);
  }
  return list.Take();
}

}  // namespace weft::gpu
