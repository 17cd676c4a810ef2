// Registers the operators of src/ops/: each overload gets a kernel for the types of its schema if there is one
// (typed_kernels.cpp), else a boxed one. Both pass the arguments to Rust. A call that Rust does not take goes to the CPU fallback
// or to PyTorch's composition.
#include <c10/util/StringUtil.h>

#include "boxed_values.h"
#include "operator_call.h"
#include "ops/tier.h"

namespace rustdev {
namespace {

using torch::jit::Stack;

class BoxedKernel final : public c10::OperatorKernel {
 public:
  explicit BoxedKernel(const Overload& overload) : overload_(overload) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    const at::ArrayRef<c10::IValue> all = torch::jit::last(*stack, overload_.arguments);
    c10::SmallVector<const at::Tensor*, 3> given;
    for (const size_t index : overload_.written) {
      given.push_back(&all[index].toTensor());
    }
    const auto boxed = [&] { return all; };
    OperatorCall call(overload_, boxed, given);
    const BoxedValues values(all.slice(0, overload_.inputs()));
    if (C10_UNLIKELY(!call.run(values.data(), values.size()))) {
      call.other().callBoxed(op, c10::DispatchKeySet(), stack);
      return;
    }
    call.finish();
    c10::SmallVector<c10::IValue, 4> results;
    if (overload_.returns_list) {
      results.emplace_back(at::ArrayRef<at::Tensor>(call.results()));
    }
    for (size_t index = 0; index < call.results().size() && !overload_.returns_list; ++index) {
      results.emplace_back(index < given.size() ? *given[index] : std::move(call.results()[index]));
    }
    torch::jit::drop(*stack, overload_.arguments);
    stack->insert(stack->end(), std::make_move_iterator(results.begin()), std::make_move_iterator(results.end()));
  }

 private:
  Overload overload_;
};

// True if the operator is CompositeImplicitAutograd in this version of PyTorch, without a CPU kernel: autograd differentiates its
// parts.
bool is_composed(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

// Throws if the scalars in the kernel's signature differ from those that the schema's arguments become.
void check_scalars(const rd_op* op, const c10::FunctionSchema& schema) {
  std::vector<std::string> names;
  for (const c10::Argument& argument : schema.arguments()) {
    const auto* const optional = argument.type()->castRaw<c10::OptionalType>();
    const c10::TypeKind kind = (optional != nullptr ? *optional->getElementType() : *argument.type()).kind();
    if (optional != nullptr && kind != c10::TypeKind::StringType) {
      names.push_back("has_" + argument.name());
    }
    if (kind != c10::TypeKind::TensorType) {
      names.push_back(argument.name());
    }
  }
  RD_CHECK(rd_op_check_scalars(op, c10::Join(", ", names).c_str()));
}

// The context of Rust's callbacks: the libraries to register in, and the first exception.
struct Binder {
  torch::Library &aten, &own;
  std::exception_ptr failure;

  // Nothing is bound after a failure.
  void bind(const rd_operator* bound, const char* name, const char* functional, const char* meta, const rd_task* task,
            const char* tier, const rd_pointwise* pointwise) {
    if (failure != nullptr) {
      return;
    }
    Overload overload(bound, name, functional, meta, task);
    if (tier == nullptr && is_composed(overload.op)) {
      return;
    }
    if (pointwise != nullptr) {
      overload.pointwise = Pointwise{pointwise->kernel, rd_op_dtypes(pointwise->kernel), pointwise->dense};
      if (pointwise->dense != RD_DENSE_NUMBER && pointwise->dense != RD_DENSE_QUOTIENT) {
        check_scalars(pointwise->kernel, overload.functional.schema());
      }
    }
    const TypedKernel typed = find_typed(name, overload);
    torch::CppFunction function =
        typed != nullptr ? typed(overload) : torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(overload));
    if (overload.op.operator_name().getNamespace() == "rustdev") {
      own.impl(name, torch::dispatch(c10::DispatchKey::PrivateUse1, std::move(function)));
    } else {
      impl(aten, tier, name, std::move(function));
    }
  }
};

// True if the kernel of a name in the operator table supports a dtype.
bool takes_dtype(const std::string& name, at::ScalarType dtype) {
  const rd_op* const op = rd_op_find(name.c_str());
  TORCH_CHECK_VALUE(op != nullptr, "the operator table has no kernel ", name);
  return is_among(rd_op_dtypes(op), dtype);
}

TORCH_LIBRARY_FRAGMENT(rustdev, m) { m.def("_takes_dtype(str kernel, ScalarType dtype) -> bool", &takes_dtype); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  static torch::Library own(torch::Library::FRAGMENT, "rustdev", std::nullopt, __FILE__, __LINE__);
  Binder context{m, own, nullptr};
  const rd_binder binder{
      .context = &context,
      .find = [](void*, const char* name) -> const void* {
        const auto op = c10::Dispatcher::singleton().findSchema(operator_name(name));
        return op ? new c10::OperatorHandle(*op) : nullptr;
      },
      .define = &serve<Binder,
                       [](Binder& binder, const char* name, const char* signature) {
                         binder.own.def((std::string(name) + signature).c_str());
                       },
                       void>,
      .bind = &serve<Binder, [](Binder& binder, auto... arguments) { binder.bind(arguments...); }, void>,
  };
  const rd_status status = rd_operators_bind(&binder);
  if (context.failure != nullptr) {
    std::rethrow_exception(context.failure);
  }
  RD_CHECK(status);
}

}  // namespace
}  // namespace rustdev
