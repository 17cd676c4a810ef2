// Special functions: names only, the template of structured.h does the rest.
#include <ATen/ops/digamma_meta.h>
#include <ATen/ops/erfinv_meta.h>
#include <ATen/ops/i0_meta.h>
#include <ATen/ops/igamma_meta.h>
#include <ATen/ops/igammac_meta.h>
#include <ATen/ops/lgamma_meta.h>
#include <ATen/ops/polygamma_meta.h>
#include <ATen/ops/special_airy_ai_meta.h>
#include <ATen/ops/special_bessel_j0_meta.h>
#include <ATen/ops/special_bessel_j1_meta.h>
#include <ATen/ops/special_bessel_y0_meta.h>
#include <ATen/ops/special_bessel_y1_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_t_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_u_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_v_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_w_meta.h>
#include <ATen/ops/special_entr_meta.h>
#include <ATen/ops/special_erfcx_meta.h>
#include <ATen/ops/special_hermite_polynomial_h_meta.h>
#include <ATen/ops/special_hermite_polynomial_he_meta.h>
#include <ATen/ops/special_i0e_meta.h>
#include <ATen/ops/special_i1_meta.h>
#include <ATen/ops/special_i1e_meta.h>
#include <ATen/ops/special_laguerre_polynomial_l_meta.h>
#include <ATen/ops/special_legendre_polynomial_p_meta.h>
#include <ATen/ops/special_log_ndtr_meta.h>
#include <ATen/ops/special_modified_bessel_i0_meta.h>
#include <ATen/ops/special_modified_bessel_i1_meta.h>
#include <ATen/ops/special_modified_bessel_k0_meta.h>
#include <ATen/ops/special_modified_bessel_k1_meta.h>
#include <ATen/ops/special_ndtri_meta.h>
#include <ATen/ops/special_scaled_modified_bessel_k0_meta.h>
#include <ATen/ops/special_scaled_modified_bessel_k1_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_t_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_u_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_v_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_w_meta.h>
#include <ATen/ops/special_spherical_bessel_j0_meta.h>
#include <ATen/ops/special_xlog1py_meta.h>
#include <ATen/ops/special_zeta_meta.h>

#include "structured.h"

namespace rustdev {

#define OP(name, fast) bind<Structured<at::meta::structured_##name, Fast::fast>>(m, {#name, #name "_", #name ".out", #name})
#define PURE(name, fast) bind<Structured<at::meta::structured_##name, Fast::fast>>(m, {#name, nullptr, #name ".out", #name})

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OP(digamma, floating);
  OP(erfinv, floating);
  OP(i0, floating);
  OP(igamma, none);
  OP(igammac, none);
  OP(lgamma, floating);
  OP(polygamma, none);

  // Without an in-place variant.
  PURE(special_airy_ai, none);
  PURE(special_bessel_j0, none);
  PURE(special_bessel_j1, none);
  PURE(special_bessel_y0, none);
  PURE(special_bessel_y1, none);
  PURE(special_chebyshev_polynomial_t, none);
  PURE(special_chebyshev_polynomial_u, none);
  PURE(special_chebyshev_polynomial_v, none);
  PURE(special_chebyshev_polynomial_w, none);
  PURE(special_entr, none);
  PURE(special_erfcx, none);
  PURE(special_hermite_polynomial_h, none);
  PURE(special_hermite_polynomial_he, none);
  PURE(special_i0e, none);
  PURE(special_i1, none);
  PURE(special_i1e, none);
  PURE(special_laguerre_polynomial_l, none);
  PURE(special_legendre_polynomial_p, none);
  PURE(special_log_ndtr, none);
  PURE(special_modified_bessel_i0, none);
  PURE(special_modified_bessel_i1, none);
  PURE(special_modified_bessel_k0, none);
  PURE(special_modified_bessel_k1, none);
  PURE(special_ndtri, none);
  PURE(special_scaled_modified_bessel_k0, none);
  PURE(special_scaled_modified_bessel_k1, none);
  PURE(special_shifted_chebyshev_polynomial_t, none);
  PURE(special_shifted_chebyshev_polynomial_u, none);
  PURE(special_shifted_chebyshev_polynomial_v, none);
  PURE(special_shifted_chebyshev_polynomial_w, none);
  PURE(special_spherical_bessel_j0, none);
  PURE(special_xlog1py, none);
  PURE(special_zeta, none);
}

#undef OP
#undef PURE

}  // namespace rustdev
