// Sparse COO tensors, as in gradients of embeddings and their optimizers: PyTorch's own functions for indices, values and sizes
// (compiled_names.txt). python/rustdev/_ops/sparse_coo.py has the operators that compute; the rest goes to the fallback.

#include "generated_sparse.h"

namespace rustdev {

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
#define SPARSE(name, function) m.impl(name, TORCH_FN(at::native::function));
  RUSTDEV_SPARSE_LIST(SPARSE)
#undef SPARSE
}

}  // namespace rustdev
