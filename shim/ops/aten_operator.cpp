// Parts of aten_operator.h that do not depend on the operator.
#include "ops/aten_operator.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "ops/aten_task.h"

namespace rustdev {
namespace {

using torch::jit::Stack;

constexpr uint64_t large = 1'000'000;  // ns: one matrix of that cost takes the libraries' threads

// Nanoseconds of one thread: some for each element, or for each element a row of products.
uint64_t cost_of(Batch batch, at::ArrayRef<at::Tensor> operands) {
  double cost = 1000;
  for (const at::Tensor& operand : operands) {
    if (!operand.defined()) {
      continue;
    }
    const bool has_rows = batch == Batch::matrices && operand.dim() >= 2;
    cost += static_cast<double>(operand.numel()) * (has_rows ? 0.2 * static_cast<double>(operand.size(-1)) : 1.0);
  }
  return static_cast<uint64_t>(cost);
}

// The size of the first dimension, where it is the same batch in all operands; else 1.
int64_t batch_of(Batch batch, at::ArrayRef<at::Tensor> inputs, at::ArrayRef<at::Tensor> outputs) {
  const at::Tensor& first = inputs[0];
  const int64_t inner = batch == Batch::matrices ? 2 : 1;
  if (batch == Batch::none || first.dim() <= inner) {
    return 1;
  }
  const int64_t size = first.size(0);
  // A matrix that is the same for the whole batch has fewer dimensions; so have pivots, which are not.
  const auto is_batched = [&](const at::Tensor& input) {
    const bool is_pivots = batch == Batch::matrices && input.scalar_type() == at::kInt;
    return input.dim() == first.dim() - (is_pivots ? 1 : 0) && input.size(0) == size;
  };
  const auto has_batch = [&](const at::Tensor& output) {
    return !output.defined() || (output.dim() >= first.dim() - inner && output.size(0) == size);
  };
  return std::all_of(inputs.begin(), inputs.end(), is_batched) && std::all_of(outputs.begin(), outputs.end(), has_batch) ? size : 1;
}

// The argument for a part of the batch: tensors have it as their first dimension, and the sizes of a whole tensor begin with it.
c10::IValue part_of(const c10::IValue& value, int64_t dims, int64_t part, int64_t parts) {
  if (value.isTensor() && value.toTensor().defined()) {
    return rustdev::part_of(value.toTensor(), 0, part, parts);
  }
  if (value.isIntList() && value.toIntList().size() == static_cast<size_t>(dims)) {
    std::vector<int64_t> sizes = value.toIntVector();
    sizes[0] = sizes[0] * (part + 1) / parts - sizes[0] * part / parts;
    return sizes;
  }
  return value;
}

// Runs the variant with out=, or the functional one and copies what it returns.
void run(const AtenBinding& binding, Stack arguments, const Stack& results) {
  if (binding.out) {
    arguments.insert(arguments.end(), results.begin(), results.end());
  }
  (binding.out ? binding.out : binding.functional)->redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &arguments);
  for (size_t index = 0; index < results.size(); ++index) {
    const at::Tensor& result = results[index].toTensor();
    const at::Tensor& found = arguments[index].toTensor();
    if (!binding.out && result.defined()) {
      result.copy_(found);
    }
    TORCH_INTERNAL_ASSERT(!binding.out || (!found.is_conj() && !found.is_neg()), "a result with a bit set");
  }
}

}  // namespace

void find_operators(AtenBinding& binding, const AtenFacts& facts) {
  binding.facts = facts;
  binding.functional = find_operator(facts.name);
  if (facts.out != nullptr) {
    binding.out = find_operator(facts.out);
  }
  binding.guard = find_guard(binding.functional->schema().name());
  binding.check_errors = binding.functional->schema().argumentIndexWithName("check_errors").value_or(-1);
}

bool takes_operands(const AtenBinding& binding, at::ArrayRef<at::Tensor> operands) {
  const at::Device device = operands[0].device();
  return is_among(binding.facts.dtypes, operands[0].scalar_type()) &&
         std::all_of(operands.begin(), operands.end(),
                     [&](const at::Tensor& operand) { return on_device(operand) && operand.device() == device; });
}

bool takes_widened(const AtenBinding& binding, const Operands& operands) {
  return (binding.facts.dtypes & rounded) != 0 && is_among(floating & ~wide, operands[0].scalar_type()) &&
         !is_among(binding.facts.dtypes, operands[0].scalar_type());
}

at::Tensor widened(const at::Tensor& value) {
  return value.defined() && is_among(floating & ~wide, value.scalar_type()) ? value.to(at::kFloat) : value;
}

at::Tensor narrowed(const at::Tensor& value, c10::ScalarType dtype) {
  return value.defined() && value.is_floating_point() ? value.to(dtype) : value;
}

bool have_elements(at::ArrayRef<at::Tensor> operands) {
  return std::all_of(operands.begin(), operands.end(), [](const at::Tensor& operand) { return operand.numel() != 0; });
}

bool check_arguments(const AtenBinding& binding, Stack& stack) {
  if (binding.check_errors >= 0 && stack[binding.check_errors].toBool()) {
    return false;
  }
  if (binding.guard != nullptr) {
    binding.guard(Arguments(binding.functional->schema(), stack, /*has_values=*/false));
  }
  return true;
}

void submit_boxed(const AtenBinding& binding, Stack stack, at::ArrayRef<at::Tensor> outputs) {
  Operands inputs;
  for (c10::IValue& value : stack) {
    if (value.isTensor() && value.toTensor().defined()) {
      inputs.push_back(value.toTensor());
      value = borrow(value.toTensor());
    }
  }
  const Batch batch = binding.facts.batch;
  const uint64_t cost = cost_of(batch, inputs) + cost_of(batch, outputs);
  const int64_t parts = std::min(parts_worth(cost), std::max<int64_t>(batch_of(batch, inputs, outputs), 1));
  const int64_t dims = inputs[0].dim();
  // Rounding errors of Fourier transforms follow from the threads.
  const int threads = parts == 1 && (cost >= large || batch == Batch::none) ? at::get_num_threads() : 1;
  Stack results;
  for (const at::Tensor& output : outputs) {
    results.emplace_back(borrow(output));
  }
  auto work = [&binding, stack = std::move(stack), results = std::move(results), parts, cost, dims, threads] {
    const SerialAten libraries(threads);
    Stack arguments = stack;
    if (binding.guard != nullptr && binding.facts.guarded == Guarded::task) {
      binding.guard(Arguments(binding.functional->schema(), arguments));
    }
    parallel_aten(parts, cost, [&](int64_t part) {
      const auto parts_of = [&](Stack values) {
        for (c10::IValue& value : values) {
          value = parts == 1 ? value : part_of(value, dims, part, parts);
        }
        return values;
      };
      run(binding, parts_of(arguments), parts_of(results));
    });
  };
  submit_aten(binding.facts.name, outputs, inputs, cost, std::move(work));
}

}  // namespace rustdev
