// Sparse COO tensors, as the gradients of embeddings are and their optimizers use them: the bookkeeping, which is PyTorch's own
// (compiled_names.txt). What computes is in python/rustdev/_ops/sparse_coo.py, and the rest goes to the fallback.
#include <torch/library.h>

#include "generated_sparse.h"

namespace rustdev {

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
#define SPARSE(name, function) m.impl(name, TORCH_FN(at::native::function));
  RUSTDEV_SPARSE_LIST(SPARSE)
#undef SPARSE
}

}  // namespace rustdev
