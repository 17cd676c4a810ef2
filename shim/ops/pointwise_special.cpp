// Special functions: names only, the template of structured.h does the rest.
#include <ATen/ops/digamma_meta.h>
#include <ATen/ops/erfinv_meta.h>
#include <ATen/ops/i0_meta.h>
#include <ATen/ops/lgamma_meta.h>
#include <ATen/ops/special_entr_meta.h>
#include <ATen/ops/special_erfcx_meta.h>
#include <ATen/ops/special_hermite_polynomial_h_meta.h>
#include <ATen/ops/special_hermite_polynomial_he_meta.h>
#include <ATen/ops/special_i0e_meta.h>
#include <ATen/ops/special_i1_meta.h>
#include <ATen/ops/special_i1e_meta.h>
#include <ATen/ops/special_log_ndtr_meta.h>
#include <ATen/ops/special_ndtri_meta.h>
#include <ATen/ops/special_spherical_bessel_j0_meta.h>
#include <ATen/ops/special_xlog1py_meta.h>

#include "structured.h"

namespace rustdev {

#define OP(name, fast) bind<Structured<at::meta::structured_##name, Fast::fast>>(m, {#name, #name "_", #name ".out", #name})
#define PURE(name, fast) bind<Structured<at::meta::structured_##name, Fast::fast>>(m, {#name, nullptr, #name ".out", #name})

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OP(digamma, floating);
  OP(erfinv, floating);
  OP(i0, floating);
  OP(lgamma, floating);

  // Without an in-place variant.
  PURE(special_entr, none);
  PURE(special_erfcx, none);
  PURE(special_hermite_polynomial_h, none);
  PURE(special_hermite_polynomial_he, none);
  PURE(special_i0e, none);
  PURE(special_i1, none);
  PURE(special_i1e, none);
  PURE(special_log_ndtr, none);
  PURE(special_ndtri, none);
  PURE(special_spherical_bessel_j0, none);
  PURE(special_xlog1py, none);
}

#undef OP
#undef PURE

}  // namespace rustdev
