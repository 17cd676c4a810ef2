// Pointwise operators of two or three tensors, and comparisons: names only, the template of structured.h does the rest.
#include <ATen/ops/add_meta.h>
#include <ATen/ops/addcdiv_meta.h>
#include <ATen/ops/addcmul_meta.h>
#include <ATen/ops/atan2_meta.h>
#include <ATen/ops/bitwise_and_meta.h>
#include <ATen/ops/bitwise_left_shift_meta.h>
#include <ATen/ops/bitwise_or_meta.h>
#include <ATen/ops/bitwise_right_shift_meta.h>
#include <ATen/ops/bitwise_xor_meta.h>
#include <ATen/ops/clamp_max_meta.h>
#include <ATen/ops/clamp_meta.h>
#include <ATen/ops/clamp_min_meta.h>
#include <ATen/ops/copysign_meta.h>
#include <ATen/ops/div_meta.h>
#include <ATen/ops/eq_meta.h>
#include <ATen/ops/fmax_meta.h>
#include <ATen/ops/fmin_meta.h>
#include <ATen/ops/fmod_meta.h>
#include <ATen/ops/gcd_meta.h>
#include <ATen/ops/ge_meta.h>
#include <ATen/ops/gt_meta.h>
#include <ATen/ops/heaviside_meta.h>
#include <ATen/ops/hypot_meta.h>
#include <ATen/ops/lcm_meta.h>
#include <ATen/ops/le_meta.h>
#include <ATen/ops/lerp_meta.h>
#include <ATen/ops/logaddexp2_meta.h>
#include <ATen/ops/logaddexp_meta.h>
#include <ATen/ops/lt_meta.h>
#include <ATen/ops/maximum_meta.h>
#include <ATen/ops/minimum_meta.h>
#include <ATen/ops/mul_meta.h>
#include <ATen/ops/ne_meta.h>
#include <ATen/ops/nextafter_meta.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/remainder_meta.h>
#include <ATen/ops/sub_meta.h>
#include <ATen/ops/xlogy_meta.h>

#include "structured.h"

namespace rustdev {

#define OP(name, fast) bind<Structured<at::meta::structured_##name, Fast::fast>>(m, {#name, #name "_", #name ".out", #name})
#define PURE(name, fast) bind<Structured<at::meta::structured_##name, Fast::fast>>(m, {#name, nullptr, #name ".out", #name})
#define TENSOR(name, fast)                                            \
  bind<Structured<at::meta::structured_##name##_Tensor, Fast::fast>>( \
      m, {#name ".Tensor", #name "_.Tensor", #name ".Tensor_out", #name})
#define NAMED(name, fast) \
  bind<Structured<at::meta::structured_##name##_Tensor, Fast::fast>>(m, {#name ".Tensor", #name "_.Tensor", #name ".out", #name})
#define SCALED(name)                                                                     \
  bind<Structured<at::meta::structured_##name##_Tensor, Fast::numeric, Scalars::exact>>( \
      m, {#name ".Tensor", #name "_.Tensor", #name ".out", #name})
#define COMPARE(name)                                                                  \
  bind<Structured<at::meta::structured_##name##_Tensor, Fast::boolean>>(               \
      m, {#name ".Tensor", #name "_.Tensor", #name ".Tensor_out", #name});             \
  bind<Structured<at::meta::structured_##name##_Scalar, Fast::number, Scalars::none>>( \
      m, {#name ".Scalar", #name "_.Scalar", #name ".Scalar_out", #name})

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OP(addcdiv, floating);
  OP(addcmul, floating);
  OP(atan2, floating);
  OP(gcd, none);
  OP(heaviside, none);
  OP(hypot, floating);
  OP(lcm, none);
  OP(nextafter, none);

  // The overload Tensor, with the out= variant of the plain name.
  SCALED(add);
  NAMED(copysign, floating);
  NAMED(mul, numeric);
  SCALED(sub);

  // The overload Tensor.
  TENSOR(bitwise_and, numeric);
  TENSOR(bitwise_left_shift, numeric);
  TENSOR(bitwise_or, numeric);
  TENSOR(bitwise_right_shift, numeric);
  TENSOR(bitwise_xor, numeric);
  TENSOR(fmod, floating);
  TENSOR(lerp, floating);
  TENSOR(remainder, floating);

  // Without an in-place variant.
  PURE(fmax, numeric);
  PURE(fmin, numeric);
  PURE(logaddexp2, floating);
  PURE(logaddexp, floating);
  PURE(maximum, numeric);
  PURE(minimum, numeric);

  // Comparisons with a tensor and with a number.
  COMPARE(eq);
  COMPARE(ge);
  COMPARE(gt);
  COMPARE(le);
  COMPARE(lt);
  COMPARE(ne);

  // Names of their own.
  bind<Structured<at::meta::structured_clamp_max_Tensor, Fast::none>>(
      m, {"clamp_max.Tensor", "clamp_max_.Tensor", "clamp_max.Tensor_out", "clamp_max_tensor"});
  bind<Structured<at::meta::structured_clamp_Tensor, Fast::none>>(
      m, {"clamp.Tensor", "clamp_.Tensor", "clamp.Tensor_out", "clamp_tensor"});
  bind<Structured<at::meta::structured_clamp_min_Tensor, Fast::none>>(
      m, {"clamp_min.Tensor", "clamp_min_.Tensor", "clamp_min.Tensor_out", "clamp_min_tensor"});
  bind<Structured<at::meta::structured_div_Tensor, Fast::floating, Scalars::zero>>(m,
                                                                                   {"div.Tensor", "div_.Tensor", "div.out", "div"});
  bind<Structured<at::meta::structured_div_Tensor_mode, Fast::none>>(
      m, {"div.Tensor_mode", "div_.Tensor_mode", "div.out_mode", "div"});
  bind<Structured<at::meta::structured_lerp_Scalar, Fast::floating>>(
      m, {"lerp.Scalar", "lerp_.Scalar", "lerp.Scalar_out", "lerp_scalar"});
  bind<Structured<at::meta::structured_pow_Tensor_Tensor, Fast::floating>>(
      m, {"pow.Tensor_Tensor", "pow_.Tensor", "pow.Tensor_Tensor_out", "pow"});
  bind<Structured<at::meta::structured_xlogy_Tensor, Fast::floating>>(
      m, {"xlogy.Tensor", "xlogy_.Tensor", "xlogy.OutTensor", "xlogy"});
}

#undef OP
#undef NAMED
#undef SCALED
#undef TENSOR
#undef PURE
#undef COMPARE

}  // namespace rustdev
