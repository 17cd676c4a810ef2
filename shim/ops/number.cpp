// Operators with scalar arguments that PyTorch's kernels check, not its metas: ours run after the call has returned, so the check
// is here.
#include <c10/util/Exception.h>

// Below here: c10/core/OptionalRef.h uses the macros of the line above.
#include <ATen/Dispatch.h>
#include <ATen/ops/clamp_max_meta.h>
#include <ATen/ops/clamp_meta.h>
#include <ATen/ops/clamp_min_meta.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/softshrink_meta.h>

#include <limits>

#include "structured.h"

namespace rustdev {
namespace {

// A limit that the dtype cannot hold is refused, for integers only on the side where no value would be left.
void check_limit(c10::ScalarType dtype, const at::Scalar& limit, bool is_min) {
  if (!c10::isIntegralType(dtype, /*includeBool=*/false)) {
    check_number(limit, dtype);
    return;
  }
  const auto [least, greatest] = integer_range(dtype);
  const bool is_beyond = limit.type() == c10::ScalarType::UInt64;
  const int64_t value = is_beyond ? std::numeric_limits<int64_t>::max() : limit.toLong();
  TORCH_CHECK(!(is_beyond && is_min), "Clamp min value ", limit.toDouble(), " is outside the representable range of ", dtype);
  TORCH_CHECK(is_min ? value <= greatest : value >= least, "Clamp ", is_min ? "min" : "max", " value ", value,
              " is outside the representable range of ", dtype);
}

double greatest_of(c10::ScalarType dtype) {
  return AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "softshrink",
                                         [] { return static_cast<double>(std::numeric_limits<scalar_t>::max()); });
}

// PyTorch's metas, with what its kernels refuse.
// NOLINTBEGIN(bugprone-derived-method-shadowing-base-method): the template calls these by their types
struct Clamp : public at::meta::structured_clamp {
  static bool is_plain(const std::optional<at::Scalar>& min, const std::optional<at::Scalar>& max) { return min || max; }

  void meta(const at::Tensor& self, at::OptionalScalarRef min, at::OptionalScalarRef max) {
    at::meta::structured_clamp::meta(self, min, max);
    if (min) {
      check_limit(common_dtype(), min.get(), /*is_min=*/true);
    }
    if (max) {
      check_limit(common_dtype(), max.get(), /*is_min=*/false);
    }
  }
};

struct ClampMin : public at::meta::structured_clamp_min {
  void meta(const at::Tensor& self, const at::Scalar& min) {
    at::meta::structured_clamp_min::meta(self, min);
    check_limit(common_dtype(), min, /*is_min=*/true);
  }
};

struct ClampMax : public at::meta::structured_clamp_max {
  void meta(const at::Tensor& self, const at::Scalar& max) {
    at::meta::structured_clamp_max::meta(self, max);
    check_limit(common_dtype(), max, /*is_min=*/false);
  }
};

// The exponent of a power in float32 or float64 may be any number, whatever the dtype holds.
struct PowerOfTensor : public at::meta::structured_pow_Tensor_Scalar {
  void meta(const at::Tensor& self, const at::Scalar& exponent) {
    at::meta::structured_pow_Tensor_Scalar::meta(self, exponent);
    if (c10::isReducedFloatingType(common_dtype()) || c10::isIntegralType(common_dtype(), /*includeBool=*/false)) {
      check_number(exponent, common_dtype());
    }
  }
};

struct Softshrink : public at::meta::structured_softshrink {
  static bool is_plain(const at::Scalar& lambd) { return !lambd.isComplex() && lambd.toDouble() >= 0; }

  void meta(const at::Tensor& self, const at::Scalar& lambd) {
    at::meta::structured_softshrink::meta(self, lambd);
    if (takes_dtype(Structured<Softshrink>::binding, common_dtype())) {
      const double value = lambd.toDouble();
      const double greatest = greatest_of(common_dtype());
      TORCH_CHECK(value >= 0 && value <= greatest, "lambda must be in range [0, ", greatest, "] for input dtype ", common_dtype(),
                  ", but found ", value);
    }
  }
};
// NOLINTEND(bugprone-derived-method-shadowing-base-method)

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bind<Structured<Clamp, Fast::numeric, Scalars::checked>>(m, {"clamp", "clamp_", "clamp.out", "clamp"});
  bind<Structured<ClampMax, Fast::numeric, Scalars::checked>>(m, {"clamp_max", "clamp_max_", "clamp_max.out", "clamp_max"});
  bind<Structured<PowerOfTensor, Fast::floating, Scalars::checked>>(
      m, {"pow.Tensor_Scalar", "pow_.Scalar", "pow.Tensor_Scalar_out", "pow_scalar"});
  bind<Structured<Softshrink, Fast::floating, Scalars::checked>>(m, {"softshrink", nullptr, "softshrink.out", "softshrink"});
  bind<Structured<ClampMin, Fast::numeric, Scalars::checked>>(m, {"clamp_min", "clamp_min_", "clamp_min.out", "clamp_min"});
}

}  // namespace rustdev
