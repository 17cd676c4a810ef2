// Guards of Fourier transforms, distances, linear algebra and indices of sparse matrices: see fallback_guard.h.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/isfinite.h>

#include "ops/fallback_guard.h"

namespace rustdev {
namespace {

// ---- Fourier transforms ----

// Nothing below torch.fft wraps negative dimensions.
void check_transform(const Arguments& args) {
  const int64_t ndim = args.tensor("self").dim();
  const std::vector<int64_t> dims = args.integers("dim");
  std::vector<bool> seen(static_cast<size_t>(ndim), false);
  for (const int64_t dim : dims) {
    TORCH_CHECK_INDEX(dim >= 0 && dim < ndim, args.operator_name(), ": Dimension out of range (expected to be in range of [0, ",
                      ndim - 1, "], but got ", dim, ")");
    TORCH_CHECK(!seen[static_cast<size_t>(dim)], args.operator_name(), ": dim ", dim,
                " appears multiple times in the list of dims");
    seen[static_cast<size_t>(dim)] = true;
  }
}

void check_inverse_transform(const Arguments& args) {
  check_transform(args);
  const std::vector<int64_t> dims = args.integers("dim");
  const int64_t size = args.integer("last_dim_size").value_or(0);
  TORCH_CHECK(size >= 1, args.operator_name(), ": Invalid number of data points (", size, ") specified");
  TORCH_CHECK(dims.empty() || args.tensor("self").size(dims.back()) == size / 2 + 1, args.operator_name(),
              ": expected self to have ", size / 2 + 1, " elements in the last dimension that is transformed, but got ",
              args.tensor("self").sizes());
}

// ---- distances ----

void check_cdist_backward(const Arguments& args) {
  const at::Tensor x1 = args.tensor("x1");
  const at::Tensor x2 = args.tensor("x2");
  TORCH_CHECK(x1.dim() >= 2 && x2.dim() >= 2 && x1.size(-1) == x2.size(-1), args.operator_name(),
              ": expected rows of the same number of columns, but got ", x1.sizes(), " and ", x2.sizes());
  std::vector<int64_t> sizes = at::infer_size(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2));
  sizes.push_back(x1.size(-2));
  sizes.push_back(x2.size(-2));
  check_sizes(args, "grad_output", sizes);
  check_sizes(args, "cdist", sizes);
}

void check_pdist_backward(const Arguments& args) {
  check_dim(args, "self", 2);
  const int64_t rows = args.tensor("self").size(0);
  TORCH_CHECK(rows > 0, args.operator_name(), ": expected self to have rows");
  const int64_t pairs = rows * (rows - 1) / 2;
  check_sizes(args, "grad_output", {pairs});
  check_sizes(args, "pdist", {pairs});
}

// ---- linear algebra ----

// LAPACK's search for eigenvalues does not end well; torch.linalg.eig says the same.
void check_eigenvalues(const Arguments& args) {
  const at::Tensor self = args.tensor("self");
  TORCH_CHECK(at::isfinite(self).all().item<bool>(), "torch.linalg.eigvals: input tensor should not contain infs or NaNs.");
}

void check_cholesky_solve(const Arguments& args) {
  const at::Tensor self = args.tensor("self");
  const at::Tensor factor = args.tensor("A");
  TORCH_CHECK(factor.dim() >= 2 && factor.size(-1) == factor.size(-2), args.operator_name(),
              ": A must be batches of square matrices, but they are of size ", factor.sizes());
  check_dim(args, "self", factor.dim());
  TORCH_CHECK(self.sizes().slice(0, self.dim() - 1) == factor.sizes().slice(0, factor.dim() - 1), args.operator_name(),
              ": self of size ", self.sizes(), " does not fit A of size ", factor.sizes());
}

// Pivots are rows, counted from 1. Those of blocks of two rows are negative and come in pairs.
void check_pivots(const Arguments& args) {
  if (!args.has_values()) {
    return;
  }
  const at::Tensor pivots = args.tensor("pivots").to(at::kLong).contiguous();
  if (pivots.numel() == 0) {
    return;
  }
  const int64_t rows = pivots.size(-1);
  const auto* const data = pivots.const_data_ptr<int64_t>();
  for (int64_t place = 0; place < pivots.numel(); ++place) {
    TORCH_CHECK(data[place] != 0 && data[place] >= -rows && data[place] <= rows, args.operator_name(),
                ": expected pivots between 1 and ", rows, ", but got ", data[place]);
    if (data[place] < 0) {
      ++place;
      TORCH_CHECK(place % rows != 0 && data[place] < 0, args.operator_name(), ": a negative pivot is not one of a pair");
      TORCH_CHECK(data[place] >= -rows, args.operator_name(), ": expected pivots between 1 and ", rows, ", but got ", data[place]);
    }
  }
}

// One of LAPACK's drivers needs a column.
void check_least_squares(const Arguments& args) {
  const at::Tensor rhs = args.tensor("b");
  TORCH_CHECK(args.word("driver") != "gelss" || rhs.numel() != 0 || args.tensor("self").numel() == 0, args.operator_name(),
              ": the driver gelss takes no b without elements");
}

void check_combination(const Arguments& args) {
  check_dim(args, "coefficients", 2);
  check_same_dtype(args, "coefficients", "input");
  const at::Tensor input = args.tensor("input");
  TORCH_CHECK(input.dim() >= 1 && input.size(0) == args.tensor("coefficients").size(1), args.operator_name(), ": input of size ",
              input.sizes(), " does not fit coefficients of size ", args.tensor("coefficients").sizes());
}

// ---- indices of sparse matrices ----

void check_rows(const Arguments& args) {
  const int64_t size = args.integer("size").value_or(0);
  TORCH_CHECK(size >= 0, args.operator_name(), ": expected size to be at least 0, but got ", size);
  check_dim(args, "self", 1);
  check_range(args, "self", args.tensor("self"), 0, size);
  args.make_contiguous("self");
}

void check_compressed_rows(const Arguments& args) {
  const at::Tensor rows = args.tensor("crow_indices");
  const at::Tensor columns = args.tensor("col_indices");
  TORCH_CHECK(rows.dim() >= 1 && rows.dim() == columns.dim() && rows.size(-1) >= 1 &&
                  rows.sizes().slice(0, rows.dim() - 1) == columns.sizes().slice(0, columns.dim() - 1),
              args.operator_name(), ": crow_indices of size ", rows.sizes(), " does not fit col_indices of size ", columns.sizes());
  const int64_t count = columns.size(-1);
  check_range(args, "crow_indices", rows, 0, count + 1);
  check_range(args, "the first of crow_indices", rows.select(-1, 0), 0, 1);
  check_range(args, "the last of crow_indices", rows.select(-1, rows.size(-1) - 1), count, count + 1);
  check_range(args, "a step of crow_indices", at::diff(rows), 0, count + 1);
  args.make_contiguous("crow_indices");
  args.make_contiguous("col_indices");
}

void check_plain_indices(const Arguments& args) {
  args.make_contiguous("compressed_idx");
  args.make_contiguous("plain_idx");
}

void check_diagonals(const Arguments& args) {
  for (const int64_t size : args.integers("shape")) {
    TORCH_CHECK(size >= 0, args.operator_name(), ": expected a shape of sizes of at least 0, but got ", size);
  }
}

}  // namespace

void add_math_guards(Guards& guards) {
  guards["aten::_fft_r2c"] = &check_transform;
  guards["aten::_fft_c2c"] = &check_transform;
  guards["aten::_fft_c2r"] = &check_inverse_transform;
  guards["aten::_cdist_backward"] = &check_cdist_backward;
  guards["aten::_pdist_backward"] = &check_pdist_backward;
  guards["aten::_linalg_eigvals"] = &check_eigenvalues;
  guards["aten::linalg_eigvals"] = &check_eigenvalues;
  guards["aten::_cholesky_solve_helper"] = &check_cholesky_solve;
  guards["aten::linalg_ldl_solve"] = &check_pivots;
  guards["aten::linalg_lstsq"] = &check_least_squares;
  guards["aten::_compute_linear_combination"] = &check_combination;
  guards["aten::_convert_indices_from_coo_to_csr"] = &check_rows;
  guards["aten::_convert_indices_from_csr_to_coo"] = &check_compressed_rows;
  guards["aten::_validate_compressed_sparse_indices"] = &check_plain_indices;
  guards["aten::_spdiags"] = &check_diagonals;
}

}  // namespace rustdev
