// Calls of operators that are bound in Rust: outputs, copies, metas and other operators, as Rust asks for them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/FunctionRef.h>

#include <exception>
#include <optional>

#include "binding.h"
#include "elementwise_launch.h"
#include "metas.h"
#include "ops/convolution.h"
#include "rustdev_operators.h"
#include "tensor.h"

namespace rustdev {

struct AtenOperator;

// One overload, and which of its arguments are results.
struct Overload {
  const rd_operator* bound;
  c10::OperatorHandle op, functional;
  // Null where calls ask for none.
  Meta meta;
  // PyTorch's kernel, where that computes; else null.
  const AtenOperator* aten;
  // The task that calls divide, where that computes; else null.
  DividedTask divided;
  // Of pointwise operators.
  std::optional<Pointwise> pointwise;
  size_t arguments = 0;
  // The positions of those that are written to and returned. Where they are inputs too, the variant is in place; those of `out=`
  // are behind all others. What is written to and not returned, as the running statistics of batch normalisation, is an input.
  c10::SmallVector<size_t, 3> written;
  bool inplace = false;

  Overload(const rd_operator* bound, const char* name, const char* functional, const char* meta, const rd_task* task);

  // Whether nothing is returned, and whether the results are one list of tensors, as many as a call makes.
  bool is_void = false, returns_list = false;
  // How many tensors are returned.
  size_t results = 0;

  size_t inputs() const { return inplace ? arguments : arguments - written.size(); }
};

// All arguments of a call in boxes, for which few calls ask.
using BoxedArguments = c10::function_ref<at::ArrayRef<c10::IValue>()>;

class OperatorCall final : MetaOutputs {
 public:
  // Of tensors to write to, none in the functional variant.
  OperatorCall(const Overload& overload, BoxedArguments boxed, at::ArrayRef<const at::Tensor*> given)
      : overload_(overload), boxed_(boxed), given_(given) {}

  // Has Rust do the call with these inputs. False where it leaves the call to another kernel: nothing was done.
  bool run(const rd_value* values, size_t count);

  // The kernel that a call is left to.
  c10::BoxedKernel other() const;

  // The results: new ones, or what was written for the caller's, to which `finish` copies.
  c10::SmallVector<at::Tensor, 2>& results() { return outputs_; }
  void finish();

 private:
  // What a meta says of an output.
  struct Shape {
    at::DimVector sizes, strides;
    at::ScalarType dtype = at::kFloat;
  };

  template <class Body>
  static rd_status guarded(void* context, const Body& body);

  static rd_status meta(void* context, rd_tensor* shapes, size_t capacity, size_t* count);
  static rd_status output(void* context, size_t index, const rd_tensor* shape, int32_t strides, rd_tensor* made);
  static rd_status give(void* context, size_t index, const rd_tensor* tensor);
  static rd_status empty(void* context, const rd_tensor* shape, rd_tensor* made);
  static rd_status dense(void* context, const rd_tensor* tensor, int32_t format, rd_tensor* made);
  static rd_status call(void* context, const void* op, const rd_value* arguments, size_t count, rd_tensor* results,
                        size_t capacity);
  static rd_status read(void* context, const rd_tensor* tensor, const char* reason, int64_t* value);
  static rd_status numbers(void* context, const rd_tensor* tensor, rd_scalar* values, size_t count);
  static rd_status bump_versions(void* context, void* const* tensors, size_t count);
  static rd_status item(void* context, const rd_tensor* tensor, rd_scalar* value);
  static rd_status draw(void* context, void* generator, uint64_t count, rd_scalar* state);
  static rd_status warn(void* context, const char* text);
  static rd_status leave_to_task(void* context, const rd_cut* cut, const rd_change* changes, size_t count);
  static rd_status divide(void* context, const rd_value* arguments, const rd_division* division);
  static const rd_caller caller;

  const at::Tensor& get(int64_t index) const override;
  void set(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) override;

  static rd_tensor described(const Shape& shape);
  at::Device device() const;
  at::Tensor make(const rd_tensor& shape) const;
  at::Tensor& keep(at::Tensor tensor) { return kept_.emplace_back(std::move(tensor)); }
  const at::Tensor& make_output(size_t index, const rd_tensor& shape, int32_t strides);

  const Overload& overload_;
  BoxedArguments boxed_;
  at::ArrayRef<const at::Tensor*> given_;
  at::Device device_ = device_type;
  c10::SmallVector<Shape, 2> shapes_;
  c10::SmallVector<at::Tensor, 2> outputs_;
  // Tensors of the call alone. Memory that they free is reused in the stream's order.
  c10::SmallVector<at::Tensor, 4> kept_;
  std::exception_ptr failure_;
  rd_status status_ = RD_OK;
};

}  // namespace rustdev
