// Guards of what works over sequences of given lengths (CTC, segments, nested tensors, recurrent layers): see fallback_guard.h.
#include <ATen/ops/sum.h>
#include <c10/core/WrapDimMinimal.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <cstdint>

#include "ops/fallback_guard.h"

namespace rustdev {
namespace {

// ---- CTC ----

// Lengths, one for each sequence of the batch, of which each is within its bounds.
std::vector<int64_t> check_lengths(const Arguments& args, const char* name, int64_t batch, int64_t most) {
  std::vector<int64_t> lengths = args.lengths(name);
  TORCH_CHECK(static_cast<int64_t>(lengths.size()) == batch, args.operator_name(), ": expected ", batch, " lengths in ", name,
              ", but got ", lengths.size());
  for (const int64_t length : lengths) {
    TORCH_CHECK(length >= 0 && length <= most, args.operator_name(), ": expected ", name, " between 0 and ", most, ", but got ",
                length);
  }
  return lengths;
}

// The targets of each sequence are classes, as far as its length goes; what pads them may be anything.
void check_targets(const Arguments& args, const at::Tensor& targets, const std::vector<int64_t>& lengths, int64_t classes) {
  const at::Tensor values = targets.to(at::kLong).contiguous();
  const auto* const data = values.const_data_ptr<int64_t>();
  const bool padded = targets.dim() == 2;
  int64_t place = 0;
  for (const auto sequence : c10::irange(lengths.size())) {
    const int64_t start = padded ? static_cast<int64_t>(sequence) * targets.size(1) : place;
    for (const auto index : c10::irange(start, start + lengths[sequence])) {
      TORCH_CHECK_INDEX(data[index] >= 0 && data[index] < classes, args.operator_name(), ": targets has the value ", data[index],
                        ", which is out of bounds: expected at least 0 and less than ", classes);
    }
    place += lengths[sequence];
  }
}

void check_ctc(const Arguments& args) {
  check_dim(args, "log_probs", 3);
  const at::Tensor log_probs = args.tensor("log_probs");
  const int64_t batch = log_probs.size(1);
  const int64_t classes = log_probs.size(2);
  args.make_contiguous("targets");
  const at::Tensor targets = args.tensor("targets");
  TORCH_CHECK(targets.dim() == 1 || (targets.dim() == 2 && targets.size(0) == batch), args.operator_name(),
              ": expected targets to have 1 dimension, or 2 of which the first is the batch, but got ", targets.sizes());
  check_lengths(args, "input_lengths", batch, log_probs.size(0));
  const std::vector<int64_t> lengths = check_lengths(args, "target_lengths", batch, targets.size(targets.dim() - 1));
  int64_t sum = 0;
  for (const int64_t length : lengths) {
    sum += length;
  }
  TORCH_CHECK(targets.dim() == 2 || sum <= targets.size(0), args.operator_name(), ": expected ", sum, " targets, but got ",
              targets.size(0));
  const int64_t blank = args.integer("blank").value_or(0);
  TORCH_CHECK(blank >= 0 && blank < classes, args.operator_name(), ": blank must be in label range");
  if (args.has_values()) {
    check_targets(args, targets, lengths, classes);
  }
}

void check_ctc_backward(const Arguments& args) {
  check_ctc(args);
  const at::Tensor log_probs = args.tensor("log_probs");
  const int64_t batch = log_probs.size(1);
  check_sizes(args, "grad", {batch});
  check_sizes(args, "neg_log_likelihood", {batch});
  check_same_dtype(args, "grad", "log_probs");
  check_same_dtype(args, "neg_log_likelihood", "log_probs");
  check_same_dtype(args, "log_alpha", "log_probs");
  check_dim(args, "log_alpha", 3);
  const at::Tensor log_alpha = args.tensor("log_alpha");
  const std::vector<int64_t> lengths = args.lengths("target_lengths");
  const int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  TORCH_CHECK(log_alpha.size(0) == batch && log_alpha.size(1) == log_probs.size(0) && log_alpha.size(2) >= 2 * longest + 1,
              args.operator_name(), ": log_alpha of size ", log_alpha.sizes(), " does not fit log_probs of size ",
              log_probs.sizes(), " and targets of length ", longest);
}

// ---- segments ----

// Lengths or offsets of the segments along `axis`: as many rows as the data, within its bounds. Returns how many segments there
// are.
int64_t check_segments(const Arguments& args, const char* name, const at::Tensor& data, int64_t axis) {
  const at::Tensor given = args.tensor(name);
  check_dim(args, name, axis + 1);
  TORCH_CHECK(given.sizes().slice(0, axis) == data.sizes().slice(0, axis), args.operator_name(), ": expected ", name,
              " and data to have the same size before dimension ", axis, ", but got ", given.sizes(), " and ", data.sizes());
  args.make_contiguous(name);
  if (std::string(name) == "offsets") {
    TORCH_CHECK(given.size(axis) > 0, args.operator_name(), ": offsets is empty");
    check_range(args, name, given, 0, data.size(axis) + 1);
    return given.size(axis) - 1;
  }
  check_range(args, name, given, 0, data.size(axis) + 1);
  // Of the lengths that are not said to be safe the kernel asks that they fill the data.
  if (args.has_values()) {
    check_range(args, "a sum of lengths", at::sum(given, at::IntArrayRef(axis)), 0, data.size(axis) + 1);
  }
  return given.size(axis);
}

int64_t check_segments(const Arguments& args) {
  const at::Tensor data = args.tensor("data");
  TORCH_CHECK(data.dim() > 0, args.operator_name(), ": expected data to have dimensions");
  const int64_t axis = c10::maybe_wrap_dim(args.integer("axis").value_or(0), data.dim());
  int64_t count = 0;
  for (const char* const name : {"lengths", "offsets"}) {
    if (args.tensor(name).defined()) {
      count = check_segments(args, name, data, axis);
    }
  }
  return count;
}

void check_segment_reduce(const Arguments& args) { check_segments(args); }

void check_segment_reduce_backward(const Arguments& args) {
  const int64_t count = check_segments(args);
  const at::Tensor data = args.tensor("data");
  std::vector<int64_t> sizes = data.sizes().vec();
  sizes[c10::maybe_wrap_dim(args.integer("axis").value_or(0), data.dim())] = count;
  for (const char* const name : {"grad", "output"}) {
    check_sizes(args, name, sizes);
    check_same_dtype(args, name, "data");
  }
}

// ---- nested tensors ----

void check_nested_sizes(const Arguments& args) {
  check_dim(args, "nested_size", 2);
  args.make_contiguous("nested_size");
  TORCH_CHECK(args.tensor("nested_size").size(0) > 0, args.operator_name(), ": nested_size has no rows");
}

void check_nested_view(const Arguments& args) {
  check_nested_sizes(args);
  const at::Tensor sizes = args.tensor("nested_size");
  args.make_contiguous("nested_strides");
  args.make_contiguous("offsets");
  check_sizes(args, "nested_strides", sizes.sizes());
  check_sizes(args, "offsets", {sizes.size(0)});
}

void check_nested_from_padded(const Arguments& args) { args.make_contiguous("cpu_nested_shape_example"); }

// ---- recurrent layers ----

// PyTorch's numbers of the layers with a kernel of oneDNN.
constexpr int64_t lstm = 2;
constexpr int64_t gru = 3;

void check_recurrent_layer(const Arguments& args) {
  const int64_t mode = args.integer("mode").value_or(-1);
  const int64_t hidden = args.integer("hidden_size").value_or(0);
  TORCH_CHECK(mode >= 0 && mode <= gru && hidden > 0 && hidden <= INT32_MAX, args.operator_name(), ": there is no layer of mode ",
              mode, " with ", hidden, " features");
  const int64_t gates = mode == lstm ? 4 : mode == gru ? 3 : 1;
  check_dim(args, "input", 3);
  const at::Tensor input = args.tensor("input");
  check_sizes(args, "weight0", {gates * hidden, input.size(2)});
  check_sizes(args, "weight1", {gates * hidden, hidden});
  if (args.flag("has_biases")) {
    check_numel(args, "weight2", gates * hidden);
    check_numel(args, "weight3", gates * hidden);
  }
  check_numel(args, "hx_", input.size(1) * hidden);
  if (mode == lstm) {
    check_numel(args, "cx_", input.size(1) * hidden);
  }
  for (const char* const name : {"weight0", "weight1", "weight2", "weight3", "hx_", "cx_"}) {
    check_same_dtype(args, name, "input");
  }
}

}  // namespace

void add_sequence_guards(Guards& guards) {
  guards["aten::_ctc_loss"] = &check_ctc;
  guards["aten::_ctc_loss_backward"] = &check_ctc_backward;
  guards["aten::segment_reduce"] = &check_segment_reduce;
  guards["aten::_segment_reduce_backward"] = &check_segment_reduce_backward;
  guards["aten::_nested_compute_contiguous_strides_offsets"] = &check_nested_sizes;
  guards["aten::_nested_view_from_buffer"] = &check_nested_view;
  guards["aten::_nested_from_padded"] = &check_nested_from_padded;
  guards["aten::mkldnn_rnn_layer"] = &check_recurrent_layer;
}

}  // namespace rustdev
