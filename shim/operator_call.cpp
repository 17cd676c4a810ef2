// Calls of operators that are bound in Rust: see operator_call.h.
#include "operator_call.h"

#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/ForeachUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TypeProperties.h>

#include "boxed_values.h"
#include "runtime/runtime.h"
#include "runtime/sync_debug.h"

namespace rustdev {

c10::OperatorName operator_name(const char* name) {
  const std::string given = name, full = given.find("::") == std::string::npos ? "aten::" + given : given;
  const size_t dot = full.find('.');
  return {full.substr(0, dot), dot == std::string::npos ? "" : full.substr(dot + 1)};
}

c10::OperatorHandle find_operator(const char* name) {
  const c10::OperatorName full = operator_name(name);
  return c10::Dispatcher::singleton().findSchemaOrThrow(full.name.c_str(), full.overload_name.c_str());
}

// True if a result aliases the written argument.
static bool is_result(const c10::FunctionSchema& schema, const c10::AliasInfo& written) {
  const auto& results = schema.returns();
  return std::any_of(results.begin(), results.end(), [&](const c10::Argument& result) {
    return result.alias_info() != nullptr && result.alias_info()->beforeSets() == written.beforeSets();
  });
}

Overload::Overload(const rd_operator* bound, const char* name, const char* functional, const char* meta, const rd_task* task)
    : bound(bound),
      op(find_operator(name)),
      functional(find_operator(functional)),
      meta(meta == nullptr ? nullptr : find_meta(meta)),
      aten(task == nullptr ? nullptr : find_aten(name, *task)),
      divided(find_divided_task(name)),
      arguments(op.schema().arguments().size()),
      is_void(op.schema().returns().empty()),
      returns_list(!is_void && op.schema().returns()[0].type()->kind() == c10::TypeKind::ListType),
      results(is_void ? 0 : this->functional.schema().returns().size()) {
  for (size_t index = 0; index < arguments; ++index) {
    const c10::Argument& argument = op.schema().arguments()[index];
    const c10::AliasInfo* const alias = argument.alias_info();
    if (alias != nullptr && alias->isWrite() && is_result(op.schema(), *alias)) {
      written.push_back(index);
      inplace = !argument.kwarg_only() && !argument.is_out();
    }
  }
}

// Runs the composite kernel of an operator.
static void run_composite(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  constexpr std::array keys{c10::DispatchKey::CompositeImplicitAutograd, c10::DispatchKey::CompositeExplicitAutograd,
                            c10::DispatchKey::CompositeExplicitAutogradNonFunctional};
  const auto has_kernel = [&](c10::DispatchKey key) { return op.hasKernelForDispatchKey(key); };
  op.callBoxedForDispatchKey(*std::find_if(keys.begin(), keys.end() - 1, has_kernel), *stack);
}

bool OperatorCall::run(const rd_value* values, size_t count) {
  for (size_t index = 0; index < count && !device_.has_index(); ++index) {
    const int32_t kind = values[index].kind;
    if (kind == RD_VALUE_DEVICE) {
      device_.set_index(static_cast<c10::DeviceIndex>(values[index].scalar.integer));
    } else if (kind == RD_VALUE_TENSOR || (kind == RD_VALUE_TENSORS && values[index].count > 0)) {
      device_.set_index(static_cast<c10::DeviceIndex>(static_cast<const rd_tensor*>(values[index].data)->device));
    }
  }
  c10::SmallVector<rd_tensor, 3> given(given_.size());
  for (size_t index = 0; index < given_.size(); ++index) {
    if (given_[index]->defined()) {
      describe(*given_[index], given[index]);
      if (!device_.has_index() && given_[index]->is_privateuseone()) {
        device_ = given_[index]->device();
      }
    }
  }
  const rd_call call{this,
                     &caller,
                     values,
                     count,
                     given.data(),
                     given.size(),
                     overload_.is_void,
                     overload_.aten != nullptr ? overload_.aten->guard : nullptr};
  status_ = rd_operator_call(overload_.bound, &call);
  if (C10_UNLIKELY(failure != nullptr)) {
    std::rethrow_exception(failure);
  }
  if (C10_UNLIKELY(status_ == RD_FALLBACK || status_ == RD_COMPOSITE || status_ == RD_CPU_ERROR)) {
    return false;
  }
  RD_CHECK(status_);
  if (!overload_.returns_list) {
    outputs_.resize(overload_.results);
  }
  return true;
}

c10::BoxedKernel OperatorCall::other() const {
  return status_ == RD_COMPOSITE   ? c10::BoxedKernel::makeFromFunction<&run_composite>()
         : status_ == RD_CPU_ERROR ? c10::BoxedKernel::makeFromFunction<&cpu_fallback<true>>()
                                   : c10::BoxedKernel::makeFromFunction<&cpu_fallback<false>>();
}

void OperatorCall::finish() {
  for (size_t index = 0; index < std::min(given_.size(), outputs_.size()); ++index) {
    // An undefined output means that the caller's tensor was written in place.
    if (outputs_[index].defined() && !given_[index]->is_same(outputs_[index])) {
      given_[index]->copy_(outputs_[index]);
    }
  }
}

// True if a new tensor has the wanted sizes, strides and dtype.
static bool is_as(const at::Tensor& tensor, const rd_tensor& shape) {
  const bool has_strides = shape.strides == nullptr ? tensor.is_contiguous() : tensor.strides() == strides_of(shape);
  return has_strides && tensor.sizes() == sizes_of(shape) && tensor.scalar_type() == static_cast<at::ScalarType>(shape.dtype);
}

// Fills the descriptor of a tensor with the wanted shape; ndim -1 means that Rust keeps its own.
static void place(const at::Tensor& tensor, rd_tensor& made) {
  made.handle = tensor.unsafeGetTensorImpl();
  made.data = data_of(tensor);
  made.ndim = -1;
  made.device = tensor.device().index();
}

// The dtype that operands of these dtypes and ranks (rd_caller.result_type) are promoted to.
static at::ScalarType promoted(const int32_t* dtypes, const int32_t* ranks, size_t count) {
  at::native::ResultTypeState state{};
  const std::array<at::ScalarType*, 3> of_rank{&state.wrappedResult, &state.zeroResult, &state.dimResult};
  for (size_t index = 0; index < count; ++index) {
    auto found = static_cast<at::ScalarType>(dtypes[index]);
    // A number contributes its category alone.
    if (ranks[index] == 0 && !c10::isIntegralType(found, /*includeBool=*/true)) {
      const at::ScalarType real = c10::get_default_dtype_as_scalartype();
      found = c10::isComplexType(found) ? c10::toComplexType(real) : real;
    }
    at::ScalarType& before = *of_rank.at(ranks[index]);
    before = before == at::ScalarType::Undefined ? found : c10::promoteTypes(before, found);
  }
  return at::native::result_type(state);
}

template <auto body, class... Args>
rd_status on_call(void* context, Args... args) {
  return serve<OperatorCall, body, rd_status>(context, args...);
}

const rd_caller OperatorCall::caller{
    .meta = &on_call<[](OperatorCall& call, rd_tensor* shapes, size_t capacity, size_t* count) {
      // Resized first: metas keep references to outputs while they set others.
      call.outputs_.resize(call.overload_.results);
      for (size_t index = 0; index < call.given_.size(); ++index) {
        call.outputs_[index] = *call.given_[index];
      }
      call.overload_.meta(call.boxed_().data(), call);
      *count = std::min(call.shapes_.size(), capacity);
      std::transform(call.shapes_.begin(), call.shapes_.begin() + *count, shapes, &described);
    }>,
    .output = &on_call<[](OperatorCall& call, size_t index, const rd_tensor* shape, int32_t strides, rd_tensor* made) {
      const at::Tensor& output = call.make_output(index, *shape, strides);
      index < call.given_.size() ? describe(output, *made) : place(output, *made);
    }>,
    .give = &on_call<[](OperatorCall& call, size_t index, const rd_tensor* tensor) {
      const at::Tensor made = tensor_of(*tensor);
      if (index < call.given_.size()) {
        call.make_output(index, *tensor, RD_STRIDES_ANY).copy_(made);
        return;
      }
      call.outputs_.resize(std::max(call.outputs_.size(), index + 1));
      call.outputs_[index] = made;
    }>,
    .empty =
        &on_call<[](OperatorCall& call, const rd_tensor* shape, rd_tensor* made) { place(call.keep(call.make(*shape)), *made); }>,
    .dense = &on_call<[](OperatorCall& call, const rd_tensor* tensor, int32_t format, rd_tensor* made) {
      describe(call.keep(tensor_of(*tensor).contiguous(static_cast<at::MemoryFormat>(format))), *made);
    }>,
    .call = &on_call<[](OperatorCall& call, const void* op, const rd_value* arguments, size_t count, rd_tensor* results,
                        size_t capacity) {
      torch::jit::Stack stack;
      stack.reserve(count);
      std::transform(arguments, arguments + count, std::back_inserter(stack), &boxed);
      (op != nullptr ? *static_cast<const c10::OperatorHandle*>(op) : call.overload_.functional).callBoxed(stack);
      for (size_t index = 0; index < std::min(capacity, stack.size()); ++index) {
        describe(call.keep(stack[index].toTensor()), results[index]);
      }
    }>,
    .read = &on_call<[](OperatorCall&, const rd_tensor* tensor, const char* reason, rd_scalar* value) {
      const at::Tensor element = tensor_of(*tensor);
      *value = to_scalar(reason != nullptr ? awaited(element, reason) : element.item());
    }>,
    .numbers = &on_call<[](OperatorCall&, const rd_tensor* tensor, rd_scalar* values, size_t count) {
      const auto found = at::native::convert_tensor_to_scalar_list(tensor_of(*tensor), static_cast<int64_t>(count));
      std::transform(found.begin(), found.end(), values, &to_scalar);
    }>,
    .bump_versions = &on_call<[](OperatorCall&, void* const* tensors, size_t count) {
      std::for_each_n(tensors, count, [](void* tensor) { static_cast<c10::TensorImpl*>(tensor)->bump_version(); });
    }>,
    .check_number = &on_call<[](OperatorCall&, const rd_scalar* number, int32_t dtype) {
      check_number(number_of(*number).toScalar(), static_cast<at::ScalarType>(dtype));
    }>,
    .result_type = &on_call<[](OperatorCall&, const int32_t* dtypes, const int32_t* ranks, size_t count, int32_t* dtype) {
      *dtype = static_cast<int32_t>(promoted(dtypes, ranks, count));
    }>,
    .draw = &on_call<[](OperatorCall& call, void* generator, uint64_t count, rd_scalar* state) {
      const at::Device device = call.device();
      const rd_generator* const drawn = generator_state(generator_at(generator), device);
      RD_CHECK(rd_generator_draw(drawn, device.index(), count, &state[0], &state[1]));
    }>,
    .warn = &on_call<[](OperatorCall&, const char* text) { TORCH_WARN(text); }>,
    .leave_to_task = &on_call<[](OperatorCall& call, const rd_cut* cut) {
      TORCH_INTERNAL_ASSERT(call.overload_.aten != nullptr);
      call.outputs_.resize(call.overload_.results);
      submit_boxed(*call.overload_.aten, call.boxed_().vec(), call.outputs_, *cut);
    }>,
    .divide = &on_call<[](OperatorCall& call, const rd_value* arguments, const rd_division* division) {
      TORCH_INTERNAL_ASSERT(call.overload_.divided != nullptr);
      call.outputs_.resize(call.overload_.results);
      call.overload_.divided(arguments, call.outputs_, *division);
    }>,
};

const at::Tensor& OperatorCall::get(int64_t index) const {
  static const at::Tensor none;
  return static_cast<size_t>(index) < outputs_.size() ? outputs_[index] : none;
}

void OperatorCall::set(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  shapes_.resize(std::max(shapes_.size(), static_cast<size_t>(index) + 1));
  shapes_[index] = {at::DimVector(sizes), at::DimVector(strides), dtype};
  make_output(index, described(shapes_[index]), RD_STRIDES_SHARED);
}

rd_tensor OperatorCall::described(const Shape& shape) {
  const auto ndim = static_cast<int32_t>(shape.sizes.size());
  return {nullptr, nullptr, shape.sizes.data(), shape.strides.data(), ndim, static_cast<int32_t>(shape.dtype), -1, 0};
}

at::Device OperatorCall::device() const {
  return {device_type, device_.has_index() ? device_.index() : static_cast<c10::DeviceIndex>(rd_device_current())};
}

at::Tensor OperatorCall::make(const rd_tensor& shape) const {
  const auto dtype = static_cast<at::ScalarType>(shape.dtype);
  return shape.strides == nullptr ? new_empty(sizes_of(shape), dtype, device())
                                  : new_empty_strided(sizes_of(shape), strides_of(shape), dtype, device());
}

// The texts of this function and the next are PyTorch's.
static void resize_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ", out.dtype(),
              " instead");
  TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(), ", but got ", out.device(),
              " instead");
  if (at::native::resize_output(out, sizes) && !strides.empty()) {
    out.as_strided_(sizes, strides);
  }
}

static void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == self.dtype(), "Bad in-place call: input tensor dtype ", self.dtype(), " and output tensor dtype ",
              options.dtype(), " should match");
  TORCH_CHECK(options.device() == self.device(), "Bad in-place call: input tensor device ", self.device(),
              " and output tensor device ", options.device(), " should match");
  TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: input tensor size ", self.sizes(), " and output tensor size ", sizes,
              " should match");
}

const at::Tensor& OperatorCall::make_output(size_t index, const rd_tensor& shape, int32_t strides) {
  outputs_.resize(std::max(outputs_.size(), index + 1));
  at::Tensor& result = outputs_[index];
  if (C10_LIKELY(index >= given_.size())) {
    if (!result.defined() || !is_as(result, shape)) {
      result = make(shape);
    }
    return result;
  }
  result = *given_[index];
  const at::IntArrayRef sizes = sizes_of(shape);
  const at::DimVector dense = shape.strides == nullptr ? c10::contiguous_strides(sizes) : at::DimVector();
  const at::IntArrayRef wanted = shape.strides == nullptr ? at::IntArrayRef(dense) : strides_of(shape);
  const auto options = at::TensorOptions(device()).dtype(static_cast<at::ScalarType>(shape.dtype));
  if (overload_.inplace) {
    check_inplace(result, sizes, options);
  } else {
    resize_out(result, sizes, wanted, options);
    if (strides != RD_STRIDES_SHARED) {
      at::assert_no_internal_overlap(result);
    }
  }
  if (result.strides() != wanted) {
    if (strides == RD_STRIDES_COPIED) {
      result = make(shape);
    } else if (strides == RD_STRIDES_GIVEN) {
      result.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, wanted);
    }
  }
  return result;
}

}  // namespace rustdev
