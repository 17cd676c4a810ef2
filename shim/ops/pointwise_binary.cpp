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
#include <ATen/ops/clamp_meta.h>
#include <ATen/ops/clamp_max_meta.h>
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
#include <ATen/ops/logaddexp_meta.h>
#include <ATen/ops/logaddexp2_meta.h>
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
#define COMPARE(name)                                                                                             \
  bind<Structured<at::meta::structured_##name##_Tensor, Fast::boolean>>(                                          \
      m, {#name ".Tensor", #name "_.Tensor", #name ".Tensor_out", #name});                                        \
  bind<Structured<at::meta::structured_##name##_Scalar, Fast::number, Scalars::none>>(                            \
      m, {#name ".Scalar", #name "_.Scalar", #name ".Scalar_out", #name})

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OP(addcdiv, none);
  OP(addcmul, none);
  OP(atan2, floating);
  OP(gcd, none);
  OP(heaviside, none);
  OP(hypot, floating);
  OP(lcm, none);
  OP(nextafter, none);

  // Without an in-place variant.
  PURE(fmax, numeric);
  PURE(fmin, numeric);
  PURE(logaddexp2, none);
  PURE(logaddexp, none);
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
  bind<Structured<at::meta::structured_add_Tensor, Fast::numeric>>(m, {"add.Tensor", "add_.Tensor", "add.out", "add"});
  bind<Structured<at::meta::structured_bitwise_and_Tensor, Fast::none>>(m, {"bitwise_and.Tensor", "bitwise_and_.Tensor", "bitwise_and.Tensor_out", "bitwise_and"});
  bind<Structured<at::meta::structured_bitwise_left_shift_Tensor, Fast::none>>(m, {"bitwise_left_shift.Tensor", "bitwise_left_shift_.Tensor", "bitwise_left_shift.Tensor_out", "bitwise_left_shift"});
  bind<Structured<at::meta::structured_bitwise_or_Tensor, Fast::none>>(m, {"bitwise_or.Tensor", "bitwise_or_.Tensor", "bitwise_or.Tensor_out", "bitwise_or"});
  bind<Structured<at::meta::structured_bitwise_right_shift_Tensor, Fast::none>>(m, {"bitwise_right_shift.Tensor", "bitwise_right_shift_.Tensor", "bitwise_right_shift.Tensor_out", "bitwise_right_shift"});
  bind<Structured<at::meta::structured_bitwise_xor_Tensor, Fast::none>>(m, {"bitwise_xor.Tensor", "bitwise_xor_.Tensor", "bitwise_xor.Tensor_out", "bitwise_xor"});
  bind<Structured<at::meta::structured_clamp_max_Tensor, Fast::none>>(m, {"clamp_max.Tensor", "clamp_max_.Tensor", "clamp_max.Tensor_out", "clamp_max_tensor"});
  bind<Structured<at::meta::structured_clamp_Tensor, Fast::none>>(m, {"clamp.Tensor", "clamp_.Tensor", "clamp.Tensor_out", "clamp_tensor"});
  bind<Structured<at::meta::structured_clamp_min_Tensor, Fast::none>>(m, {"clamp_min.Tensor", "clamp_min_.Tensor", "clamp_min.Tensor_out", "clamp_min_tensor"});
  bind<Structured<at::meta::structured_copysign_Tensor, Fast::floating>>(m, {"copysign.Tensor", "copysign_.Tensor", "copysign.out", "copysign"});
  bind<Structured<at::meta::structured_div_Tensor, Fast::floating, Scalars::zero>>(m, {"div.Tensor", "div_.Tensor", "div.out", "div"});
  bind<Structured<at::meta::structured_div_Tensor_mode, Fast::none>>(m, {"div.Tensor_mode", "div_.Tensor_mode", "div.out_mode", "div"});
  bind<Structured<at::meta::structured_fmod_Tensor, Fast::none>>(m, {"fmod.Tensor", "fmod_.Tensor", "fmod.Tensor_out", "fmod"});
  bind<Structured<at::meta::structured_lerp_Scalar, Fast::none>>(m, {"lerp.Scalar", "lerp_.Scalar", "lerp.Scalar_out", "lerp_scalar"});
  bind<Structured<at::meta::structured_lerp_Tensor, Fast::none>>(m, {"lerp.Tensor", "lerp_.Tensor", "lerp.Tensor_out", "lerp"});
  bind<Structured<at::meta::structured_mul_Tensor, Fast::numeric>>(m, {"mul.Tensor", "mul_.Tensor", "mul.out", "mul"});
  bind<Structured<at::meta::structured_pow_Tensor_Tensor, Fast::floating>>(m, {"pow.Tensor_Tensor", "pow_.Tensor", "pow.Tensor_Tensor_out", "pow"});
  bind<Structured<at::meta::structured_remainder_Tensor, Fast::none>>(m, {"remainder.Tensor", "remainder_.Tensor", "remainder.Tensor_out", "remainder"});
  bind<Structured<at::meta::structured_sub_Tensor, Fast::numeric>>(m, {"sub.Tensor", "sub_.Tensor", "sub.out", "sub"});
  bind<Structured<at::meta::structured_xlogy_Tensor, Fast::floating>>(m, {"xlogy.Tensor", "xlogy_.Tensor", "xlogy.OutTensor", "xlogy"});
}

#undef OP
#undef PURE
#undef COMPARE

}  // namespace rustdev
