// PyTorch's CPU kernels over boxed arguments: see aten_operator.h.
#include "ops/aten_operator.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "binding.h"
#include "ops/aten_task.h"
#include "ops/fallback_guard.h"

namespace rustdev {
namespace {

using torch::jit::Stack;

constexpr uint64_t large = 1'000'000;  // ns: one matrix of that cost takes the libraries' threads

// Nanoseconds of one thread: some for each element, or for each element a row of products.
uint64_t cost_of(int32_t batch, at::ArrayRef<at::Tensor> operands) {
  double cost = 1000;
  for (const at::Tensor& operand : operands) {
    if (!operand.defined()) {
      continue;
    }
    const bool has_rows = batch == RD_BATCH_MATRICES && operand.dim() >= 2;
    cost += static_cast<double>(operand.numel()) * (has_rows ? 0.2 * static_cast<double>(operand.size(-1)) : 1.0);
  }
  return static_cast<uint64_t>(cost);
}

// The size of the first dimension, where it is the same batch in all operands; else 1.
int64_t batch_of(int32_t batch, at::ArrayRef<at::Tensor> inputs, at::ArrayRef<at::Tensor> outputs) {
  const at::Tensor& first = inputs[0];
  const int64_t inner = batch == RD_BATCH_MATRICES ? 2 : 1;
  if (batch == RD_BATCH_NONE || first.dim() <= inner) {
    return 1;
  }
  const int64_t size = first.size(0);
  // A matrix that is the same for the whole batch has fewer dimensions; so have pivots, which are not.
  const auto is_batched = [&](const at::Tensor& input) {
    const bool is_pivots = batch == RD_BATCH_MATRICES && input.scalar_type() == at::kInt;
    return input.dim() == first.dim() - (is_pivots ? 1 : 0) && input.size(0) == size;
  };
  const auto has_batch = [&](const at::Tensor& output) {
    return !output.defined() || (output.dim() >= first.dim() - inner && output.size(0) == size);
  };
  return std::all_of(inputs.begin(), inputs.end(), is_batched) && std::all_of(outputs.begin(), outputs.end(), has_batch) ? size : 1;
}

rd_cut cut_of(int32_t batch, at::ArrayRef<at::Tensor> inputs, at::ArrayRef<at::Tensor> outputs) {
  return {0, batch_of(batch, inputs, outputs), 1, cost_of(batch, inputs) + cost_of(batch, outputs)};
}

// The argument for a part: of tensors that are cut, and of the sizes of a whole tensor, which begin with the batch.
c10::IValue part_of(const c10::IValue& value, const rd_cut& cut, int64_t dims, int64_t part, int64_t parts) {
  if (value.isTensor() && value.toTensor().defined()) {
    const at::Tensor& tensor = value.toTensor();
    const bool is_cut = tensor.dim() >= cut.least_ndim && tensor.size(cut.dim) == cut.size;
    return is_cut ? rustdev::part_of(tensor, cut.dim, part, parts) : tensor;
  }
  if (value.isIntList() && value.toIntList().size() == static_cast<size_t>(dims)) {
    std::vector<int64_t> sizes = value.toIntVector();
    sizes[0] = sizes[0] * (part + 1) / parts - sizes[0] * part / parts;
    return sizes;
  }
  return value;
}

// Runs the variant with out=, or the functional one and copies what it returns.
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

bool is_16bit_float(c10::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

}  // namespace

const AtenOperator* find_aten(const char* name, const rd_task& task) {
  const c10::OperatorHandle functional = find_operator(name);
  const auto out = task.out != nullptr ? std::optional<c10::OperatorHandle>(find_operator(task.out)) : std::nullopt;
  return new AtenOperator{name, task, functional, out, find_guard(functional.schema())};
}

std::optional<c10::ScalarType> widen(const AtenOperator& op, Stack& stack) {
  if (!op.task.widens) {
    return std::nullopt;
  }
  const size_t arguments = op.functional.schema().arguments().size();
  const c10::ScalarType dtype = torch::jit::peek(stack, 0, arguments).toTensor().scalar_type();
  if (!is_16bit_float(dtype) || is_among(op.task.dtypes, dtype)) {
    return std::nullopt;
  }
  for (auto value = stack.end() - static_cast<std::ptrdiff_t>(arguments); value != stack.end(); ++value) {
    if (value->isTensor() && value->toTensor().defined() && is_16bit_float(value->toTensor().scalar_type())) {
      *value = value->toTensor().to(at::kFloat);
    }
  }
  return dtype;
}

void narrow(const AtenOperator& op, Stack& stack, c10::ScalarType dtype) {
  const size_t results = op.functional.schema().returns().size();
  for (auto value = stack.end() - static_cast<std::ptrdiff_t>(results); value != stack.end(); ++value) {
    if (value->toTensor().defined() && value->toTensor().is_floating_point()) {
      *value = value->toTensor().to(dtype);
    }
  }
}

void check_arguments(const AtenOperator& op, Stack& stack) {
  check_arguments(op.guard, op.functional.schema(), stack, /*has_values=*/false);
}

void submit_boxed(const AtenOperator& op, Stack stack, at::ArrayRef<at::Tensor> outputs, const std::optional<rd_cut>& given) {
  c10::SmallVector<at::Tensor, 4> inputs;
  for (c10::IValue& value : stack) {
    if (value.isTensor() && value.toTensor().defined()) {
      inputs.push_back(value.toTensor());
      value = borrow(value.toTensor());
    }
  }
  const int32_t batch = op.task.batch;
  const rd_cut cut = given ? *given : cut_of(batch, inputs, outputs);
  const uint64_t cost = cut.cost;
  const int64_t parts = std::min(rd_parts_worth(cost), std::max<int64_t>(cut.size, 1));
  const int64_t dims = inputs[0].dim();
  // Rounding errors of Fourier transforms follow from the threads.
  const int threads = !given && parts == 1 && (cost >= large || batch == RD_BATCH_NONE) ? at::get_num_threads() : 1;
  Stack results;
  for (const at::Tensor& output : outputs) {
    results.emplace_back(borrow(output));
  }
  auto work = [&op, stack = std::move(stack), results = std::move(results), parts, cut, dims, threads] {
    const SerialAten libraries(threads);
    Stack arguments = stack;
    if (op.task.guarded) {
      check_arguments(op.guard, op.functional.schema(), arguments, /*has_values=*/true);
    }
    parallel_aten(parts, cut.cost, [&](int64_t part) {
      const auto parts_of = [&](Stack values) {
        for (c10::IValue& value : values) {
          value = parts == 1 ? value : part_of(value, cut, dims, part, parts);
        }
        return values;
      };
      run(op, parts_of(arguments), parts_of(results));
    });
  };
  submit_aten(op.name, outputs, inputs, cost, std::move(work));
}

}  // namespace rustdev
