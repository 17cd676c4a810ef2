// PyTorch's CPU kernels over boxed arguments: see aten_operator.h.
#include "ops/aten_operator.h"

#include <ATen/Parallel.h>

#include "binding.h"
#include "ops/aten_task.h"
#include "ops/fallback.h"
#include "ops/fallback_guard.h"

namespace rustdev {
namespace {

using torch::jit::Stack;

// The argument for one part: the part of a tensor that is cut, or sizes whose first dimension, the batch, is that of the part.
c10::IValue part_of(const c10::IValue& value, const rd_cut& cut, int64_t dims, int64_t part) {
  if (value.isTensor() && value.toTensor().defined()) {
    const at::Tensor& tensor = value.toTensor();
    const bool is_cut = tensor.dim() >= cut.least_ndim && tensor.size(cut.dim) == cut.size;
    return is_cut ? rustdev::part_of(tensor, cut.dim, part, cut.parts) : tensor;
  }
  if (value.isIntList() && value.toIntList().size() == static_cast<size_t>(dims)) {
    std::vector<int64_t> sizes = value.toIntVector();
    sizes[0] = sizes[0] * (part + 1) / cut.parts - sizes[0] * part / cut.parts;
    return sizes;
  }
  return value;
}

// Runs the variant with out=, or the functional variant and copies its results.
void run(const AtenOperator& op, Stack arguments, const Stack& results) {
  if (op.out) {
    arguments.insert(arguments.end(), results.begin(), results.end());
  }
  op.out.value_or(op.functional).redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &arguments);
  for (size_t index = 0; index < results.size(); ++index) {
    const at::Tensor& result = results[index].toTensor();
    const at::Tensor& found = arguments[index].toTensor();
    if (!op.out && result.defined()) {
      result.copy_(found);
    }
    TORCH_INTERNAL_ASSERT(!op.out || (!found.is_conj() && !found.is_neg()), "a result with a bit set");
  }
}

}  // namespace

const AtenOperator* find_aten(const char* name, const rd_task& task) {
  const c10::OperatorHandle functional = find_operator(name);
  const auto out = task.out != nullptr ? std::optional<c10::OperatorHandle>(find_operator(task.out)) : std::nullopt;
  return new AtenOperator{name, functional, out, rd_fallback_guard(fallback_operator(functional)), task.guarded};
}

void submit_boxed(const AtenOperator& op, Stack stack, at::ArrayRef<at::Tensor> outputs, const rd_cut& cut) {
  c10::SmallVector<at::Tensor, 4> inputs;
  for (c10::IValue& value : stack) {
    if (value.isTensor() && value.toTensor().defined()) {
      inputs.push_back(value.toTensor());
      value = borrow(value.toTensor());
    }
  }
  const int64_t dims = inputs[0].dim();
  const int threads = cut.takes_threads ? at::get_num_threads() : 1;
  Stack results;
  for (const at::Tensor& output : outputs) {
    results.emplace_back(borrow(output));
  }
  auto work = [&op, stack = std::move(stack), results = std::move(results), cut, dims, threads] {
    const SerialAten libraries(threads);
    Stack arguments = stack;
    if (op.guarded && op.guard != nullptr) {
      check_arguments(op.guard, op.functional.schema(), arguments);
    }
    parallel_aten(cut.parts, cut.cost, [&](int64_t part) {
      const auto parts_of = [&](Stack values) {
        for (c10::IValue& value : values) {
          value = cut.parts == 1 ? value : part_of(value, cut, dims, part);
        }
        return values;
      };
      run(op, parts_of(arguments), parts_of(results));
    });
  };
  submit_aten(op.name, outputs, inputs, cut.cost, std::move(work));
}

}  // namespace rustdev
