// Pointwise operators of one tensor that are not activations: names only, the template of structured.h does the rest.
#include <ATen/ops/acos_meta.h>
#include <ATen/ops/acosh_meta.h>
#include <ATen/ops/asin_meta.h>
#include <ATen/ops/asinh_meta.h>
#include <ATen/ops/atan_meta.h>
#include <ATen/ops/atanh_meta.h>
#include <ATen/ops/bitwise_not_meta.h>
#include <ATen/ops/ceil_meta.h>
#include <ATen/ops/cos_meta.h>
#include <ATen/ops/cosh_meta.h>
#include <ATen/ops/erf_meta.h>
#include <ATen/ops/erfc_meta.h>
#include <ATen/ops/exp2_meta.h>
#include <ATen/ops/exp_meta.h>
#include <ATen/ops/expm1_meta.h>
#include <ATen/ops/floor_meta.h>
#include <ATen/ops/frac_meta.h>
#include <ATen/ops/isneginf_meta.h>
#include <ATen/ops/isposinf_meta.h>
#include <ATen/ops/log10_meta.h>
#include <ATen/ops/log1p_meta.h>
#include <ATen/ops/log2_meta.h>
#include <ATen/ops/log_meta.h>
#include <ATen/ops/neg_meta.h>
#include <ATen/ops/reciprocal_meta.h>
#include <ATen/ops/round_meta.h>
#include <ATen/ops/rsqrt_meta.h>
#include <ATen/ops/sgn_meta.h>
#include <ATen/ops/sigmoid_meta.h>
#include <ATen/ops/sign_meta.h>
#include <ATen/ops/signbit_meta.h>
#include <ATen/ops/sin_meta.h>
#include <ATen/ops/sinc_meta.h>
#include <ATen/ops/sinh_meta.h>
#include <ATen/ops/sqrt_meta.h>
#include <ATen/ops/tan_meta.h>
#include <ATen/ops/tanh_meta.h>
#include <ATen/ops/trunc_meta.h>

#include "structured.h"

namespace rustdev {

#define OP(name, fast) bind<Structured<at::meta::structured_##name, Fast::fast>>(m, {#name, #name "_", #name ".out", #name})
#define PURE(name, fast) bind<Structured<at::meta::structured_##name, Fast::fast>>(m, {#name, nullptr, #name ".out", #name})

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OP(acos, floating);
  OP(acosh, floating);
  OP(asin, floating);
  OP(asinh, floating);
  OP(atan, floating);
  OP(atanh, floating);
  OP(bitwise_not, none);
  OP(ceil, floating);
  OP(cos, floating);
  OP(cosh, floating);
  OP(erf, floating);
  OP(erfc, floating);
  OP(exp2, floating);
  OP(exp, floating);
  OP(expm1, floating);
  OP(floor, floating);
  OP(frac, floating);
  OP(log10, floating);
  OP(log1p, floating);
  OP(log2, floating);
  OP(log, floating);
  OP(neg, numeric);
  OP(reciprocal, floating);
  OP(round, floating);
  OP(rsqrt, floating);
  OP(sgn, floating);
  OP(sigmoid, floating);
  OP(sign, floating);
  OP(sin, floating);
  OP(sinc, floating);
  OP(sinh, floating);
  OP(sqrt, floating);
  OP(tan, floating);
  OP(tanh, floating);
  OP(trunc, floating);

  // Without an in-place variant.
  PURE(isneginf, none);
  PURE(isposinf, none);
  PURE(signbit, none);

  // Names of their own.
  bind<Structured<at::meta::structured_round_decimals, Fast::floating>>(
      m, {"round.decimals", "round_.decimals", "round.decimals_out", "round_decimals"});
}

#undef OP
#undef PURE

}  // namespace rustdev
