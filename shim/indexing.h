// Indexed launches, for gathers and scatters: the addressed operand has stride 0 in the indexed dimensions, and each index has two
// scalars, the number of slots that it chooses from and their distance in bytes.
#pragma once

#include <ATen/WrapDimUtils.h>

#include "structured.h"

namespace rustdev {

// What becomes of the elements that indices name; the numbers are the kernel's.
enum class Operation : int64_t { store, add, multiply, maximum, minimum };

struct Update {
  Operation operation = Operation::store;
  bool excludes_self = false;  // the old values do not take part
  at::Scalar factor = 1;       // of the source, in a sum
  int64_t skipped = -1;        // the index that is left out
};

// The source of an update: a tensor over the space of the launch, or a number.
struct Source {
  Source(const at::Tensor& tensor) : tensor(&tensor) {}            // NOLINT(google-explicit-constructor)
  Source(const at::Scalar& number) : number(to_scalar(number)) {}  // NOLINT(google-explicit-constructor)

  const at::Tensor* tensor = nullptr;
  rd_scalar number{};
};

// The space of a launch, the addressed operand in it, and its indices. All of them have the dimensions of the space.
struct Addressing {
  at::DimVector sizes;
  at::DimVector strides;  // of the addressed operand, in elements
  struct Index {
    const at::Tensor* tensor;
    at::DimVector strides;  // in elements
    int64_t slots;
    int64_t step;  // in bytes
  };
  c10::SmallVector<Index, 1> indices;

  // Whether the launch is within what kernels take.
  bool fits() const { return indices.size() + 2 <= Launch::max_loop_operands && sizes.size() <= Launch::max_dims; }
  bool empty() const { return c10::multiply_integers(sizes) == 0; }
};

// One index for each element of the space, which has the index's sizes: gather and scatter.
Addressing each_element(const at::Tensor& addressed, int64_t dim, const at::Tensor& index);

// One index for each slice across `dim`: index_select and its kin. The index has one dimension or none.
Addressing each_slice(const at::Tensor& addressed, int64_t dim, const at::Tensor& index);

// Indices into all elements of a contiguous tensor, counted in their order: take and put.
Addressing flat(const at::Tensor& addressed, const at::Tensor& index);

// out = self at the indices.
void launch_load(const Binding& binding, const Addressing& addressing, const at::Tensor& out, const at::Tensor& self);

// self at the indices = itself and the source.
void launch_update(const Binding& binding, const Addressing& addressing, const at::Tensor& self, const Source& source,
                   const Update& update);

inline bool takes_dtype_of(const Binding& binding, const at::Tensor& tensor) { return takes_dtype(binding, tensor.scalar_type()); }

}  // namespace rustdev
