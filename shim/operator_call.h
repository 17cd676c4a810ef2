// Calls of operators that are bound in Rust: the callbacks by which Rust makes outputs and copies, and runs metas and other
// operators.
#pragma once

#include <c10/util/FunctionRef.h>

#include "ops/cpu_kernels.h"
#include "tensor.h"

namespace rustdev {

// A pointwise operator: its kernel, the dtypes of the kernel, and which calls are launched here (RD_DENSE_*).
struct Pointwise {
  const rd_op* kernel;
  uint64_t dtypes;
  int32_t dense;
};

// The number that stands for a string argument: rounding modes and approximations.
int64_t string_number(std::string_view text);

// The scalars of a launch, from the arguments of a call; its tensors are left out.
class LaunchScalars {
 public:
  void add(const at::Tensor&) {}
  void add(const at::Scalar& value) { values_[count_++] = to_scalar(value); }
  template <class T>
    requires std::is_arithmetic_v<T>
  void add(T value) {
    add(at::Scalar(value));
  }
  void add(std::string_view text) { add(string_number(text)); }
  void add(const std::optional<std::string_view>& text) { add(text ? string_number(*text) : int64_t{0}); }
  void add(const std::optional<at::Scalar>& value) {
    add(int64_t{value.has_value()});
    add(value ? *value : at::Scalar(0));
  }

  const rd_scalar* begin() const { return values_; }
  const rd_scalar* end() const { return values_ + count_; }

 private:
  rd_scalar values_[8];
  size_t count_ = 0;
};

// Launches a call over dense operands without a call of src/ops/, and returns its result; returns an undefined tensor if Rust
// has to do the call. `others`: the operands after self. `number`: a last operand that is a number, or null. `inplace`: the result
// is written to self.
at::Tensor launch_plain(const Pointwise& pointwise, const at::Tensor& self, at::ArrayRef<const at::Tensor*> others,
                        const rd_scalar* number, bool inplace, const LaunchScalars& scalars);

// The outputs of a call, as its meta sees and sets them.
class MetaOutputs {
 public:
  virtual const at::Tensor& get(int64_t index) const = 0;
  // Makes an output, or takes the caller's. `strides`: those of the memory format if the meta gives none.
  virtual void set(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) = 0;

 protected:
  ~MetaOutputs() = default;
};

// Runs one of PyTorch's structured metas for boxed arguments: the checks of an operator, and the sizes, strides and dtypes of its
// outputs.
using Meta = void (*)(const c10::IValue* arguments, MetaOutputs& outputs);

// The meta of an operator that compiled_names.txt lists under [metas] (metas.cpp).
Meta find_meta(std::string_view name);

// Enqueues a convolution, forward or backward, as a task that is divided into parts. Some arguments and outputs may be undefined.
using DividedTask = void (*)(const rd_value* arguments, at::ArrayRef<at::Tensor> outputs, const rd_division& division);

// The divided task of an operator (ops/convolution.cpp), or null.
DividedTask find_divided_task(std::string_view name);

// The qualified name of an operator; `name` may omit "aten::" but not another library's name.
c10::OperatorName operator_name(const char* name);

// The operator of that name; throws if there is none.
c10::OperatorHandle find_operator(const char* name);

// One overload, and which of its arguments are results.
struct Overload {
  const rd_operator* bound;
  c10::OperatorHandle op, functional;
  // Null if calls use no meta.
  Meta meta;
  // PyTorch's kernel, if the operator runs it as a task; else null.
  const AtenOperator* aten;
  // The task that calls divide into parts (convolutions); else null.
  DividedTask divided;
  // Only for pointwise operators.
  std::optional<Pointwise> pointwise;
  size_t arguments = 0;
  // Positions of the arguments that are written to and returned. In an in-place variant they are inputs too; those of `out=` come
  // last. An argument that is written but not returned, such as running statistics of batch normalisation, counts as an input.
  c10::SmallVector<size_t, 3> written;
  bool inplace = false;

  Overload(const rd_operator* bound, const char* name, const char* functional, const char* meta, const rd_task* task);

  // True if the operator returns nothing; true if it returns one list, of as many tensors as the call makes.
  bool is_void = false, returns_list = false;
  // The number of returned tensors.
  size_t results = 0;

  size_t inputs() const { return inplace ? arguments : arguments - written.size(); }
};

// Makes the kernel of an overload for the types of its schema (typed_kernels.cpp).
using TypedKernel = torch::CppFunction (*)(const Overload& overload);

// The maker of an overload's kernel, by type for pointwise operators, else by name without `aten::`; null if it is not listed.
TypedKernel find_typed(std::string_view name, const Overload& overload);

// The arguments as IValues, boxed on first use (metas, tasks and other kernels only).
using BoxedArguments = c10::function_ref<at::ArrayRef<c10::IValue>()>;

class OperatorCall final : MetaOutputs {
 public:
  // `given`: the caller's tensors to write to, none in the functional variant.
  OperatorCall(const Overload& overload, BoxedArguments boxed, at::ArrayRef<const at::Tensor*> given)
      : overload_(overload), boxed_(boxed), given_(given) {}

  // Runs the call in Rust. Returns false, with nothing done, if Rust leaves it to `other()`.
  bool run(const rd_value* values, size_t count);

  // The kernel for a call that Rust does not take: PyTorch's composition of other operators, the CPU fallback, or the CPU kernel
  // that raises the error.
  c10::BoxedKernel other() const;

  // The results: new tensors, or the caller's. `finish` copies those that could not be written in place.
  c10::SmallVector<at::Tensor, 2>& results() { return outputs_; }
  void finish();

  // The exception of a callback, rethrown after the call.
  std::exception_ptr failure;

 private:
  // An output as a meta describes it.
  struct Shape {
    at::DimVector sizes, strides;
    at::ScalarType dtype = at::kFloat;
  };

  // The callbacks of Rust.
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
  // Temporary tensors of the call. Their memory is reused in stream order.
  c10::SmallVector<at::Tensor, 4> kept_;
  rd_status status_ = RD_OK;
};

}  // namespace rustdev
