// Random numbers that models draw at every step: PyTorch's own checks (native/DistributionTemplates.h), and kernels that draw from
// the device's generator. The others are bound in Rust.
#include <ATen/MemoryOverlap.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/multinomial_native.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand_like_native.h>
#include <ATen/ops/randint_like_native.h>
#include <ATen/ops/randn_like_native.h>

#include <limits>

#include "ops/factory.h"
#include "runtime/generator.h"
#include "structured.h"

namespace rustdev {
namespace {

namespace templates = at::native::templates;
using OptionalGenerator = std::optional<at::Generator>;

// What every launch takes from the generator, whatever its size: one Philox block of each subsequence (src/kernels/random.rs).
// Empty tensors take nothing.
constexpr uint64_t numbers_per_launch = 4;

// Whether the kernels compute with a dtype as a floating-point one.
bool is_real(at::ScalarType dtype) { return at::isFloatingType(dtype) && !at::isFloat8Type(dtype); }

void add_state(Launch& launch, const OptionalGenerator& given, at::Device device) {
  for (const rd_scalar& number : draw_state(given, device, numbers_per_launch)) {
    launch.scalar(number);
  }
}

// Launches over the operands added so far; the scalars follow the generator's state.
void draw(const rd_op* op, Launch& launch, at::ScalarType dtype, at::Device device, const OptionalGenerator& given,
          std::initializer_list<at::Scalar> scalars) {
  add_state(launch, given, device);
  launch.scalars(scalars);
  launch.run_or_throw(op, static_cast<int32_t>(dtype), device.index());
}

void draw(const rd_op* op, const at::TensorIteratorBase& iter, const OptionalGenerator& given,
          std::initializer_list<at::Scalar> scalars) {
  if (iter.numel() != 0) {
    Launch launch;
    launch.iterator(iter);
    draw(op, launch, iter.dtype(0), iter.device(0), given, scalars);
  }
}

void draw(const rd_op* op, const at::TensorBase& self, const OptionalGenerator& given, std::initializer_list<at::Scalar> scalars) {
  at::assert_no_internal_overlap(self);
  if (self.numel() != 0) {
    Launch launch;
    launch.alone(self);
    draw(op, launch, self.scalar_type(), self.device(), given, scalars);
  }
}

template <typename>
struct UniformKernel {
  void operator()(at::TensorIteratorBase& iter, double from, double to, const OptionalGenerator& given) {
    draw(kernel_of<"uniform_">, iter, given, {from, to});
  }
};

template <typename>
struct NormalKernel {
  void operator()(const at::TensorBase& self, double mean, double std, const OptionalGenerator& given) {
    draw(kernel_of<"normal_">, self, given, {mean, std});
  }
};

template <typename>
struct ExponentialKernel {
  void operator()(at::TensorIteratorBase& iter, double lambda, const OptionalGenerator& given) {
    TORCH_CHECK(at::isFloatingType(iter.dtype()), "exponential_ draws floating-point numbers, but the tensor has dtype ",
                iter.dtype());
    draw(kernel_of<"exponential_">, iter, given, {lambda});
  }
};

template <typename>
struct BernoulliScalarKernel {
  void operator()(const at::TensorBase& self, double p, const OptionalGenerator& given) {
    draw(kernel_of<"bernoulli_.float">, self, given, {p});
  }
};

template <typename>
struct RandomFromToKernel {
  void operator()(at::TensorIteratorBase& iter, uint64_t range, int64_t from, const OptionalGenerator& given) {
    draw(kernel_of<"random_">, iter, given, {from, static_cast<int64_t>(range)});
  }
  // Everything that 64 bits can be.
  void operator()(at::TensorIteratorBase& iter, const OptionalGenerator& given) {
    draw(kernel_of<"random_">, iter, given, {std::numeric_limits<int64_t>::min(), int64_t{0}});
  }
};

// The common calls of uniform_, exponential_ and random_, in which PyTorch's checks find nothing, need no iterator.
at::Tensor& uniform_(at::Tensor& self, double from, double to, OptionalGenerator given) {
  // Half of what float16 holds: the width of the range fits too.
  constexpr double limit = 32752.0;
  if (C10_LIKELY(is_real(self.scalar_type()) && from <= to && from >= -limit && to <= limit)) {
    draw(kernel_of<"uniform_">, self, given, {from, to});
    return self;
  }
  return templates::uniform_impl_<UniformKernel, Generator>(self, from, to, std::move(given));
}

at::Tensor& normal_(at::Tensor& self, double mean, double std, OptionalGenerator given) {
  return templates::normal_impl_<NormalKernel, Generator>(self, mean, std, std::move(given));
}

at::Tensor& exponential_(at::Tensor& self, double lambda, OptionalGenerator given) {
  if (C10_LIKELY(is_real(self.scalar_type()) && lambda > 0.0)) {
    draw(kernel_of<"exponential_">, self, given, {lambda});
    return self;
  }
  return templates::exponential_impl_<ExponentialKernel, Generator>(self, lambda, std::move(given));
}

at::Tensor& bernoulli_scalar_(at::Tensor& self, double p, OptionalGenerator given) {
  return templates::bernoulli_impl_<BernoulliScalarKernel, Generator>(self, p, std::move(given));
}

// Whether a dtype holds a whole number and every one between it and zero. It says no of dtypes that random_ treats in their own
// way.
bool surely_holds_exactly(at::ScalarType dtype, int64_t number) {
  if (dtype == at::kBool || c10::isBarebonesUnsignedType(dtype)) {
    return false;
  }
  if (at::isIntegralType(dtype, /*includeBool=*/false)) {
    const IntegerRange range = integer_range(dtype);
    return number >= range.least && number <= range.greatest;
  }
  // 2 to the power of the significand's bits; of float64 no more than of float32.
  const int64_t greatest = dtype == at::kBFloat16 ? 256 : dtype == at::kHalf ? 2048 : 16'777'216;
  return is_real(dtype) && number >= -greatest && number <= greatest;
}

at::Tensor& random_from_to_(at::Tensor& self, int64_t from, std::optional<int64_t> to, OptionalGenerator given) {
  const at::ScalarType dtype = self.scalar_type();
  if (C10_LIKELY(to.has_value() && from < *to && takes(kernel_of<"random_">, dtype) && surely_holds_exactly(dtype, from) &&
                 surely_holds_exactly(dtype, *to))) {
    const uint64_t range = static_cast<uint64_t>(*to) - static_cast<uint64_t>(from);
    draw(kernel_of<"random_">, self, given, {from, static_cast<int64_t>(range)});
    return self;
  }
  return templates::random_from_to_impl<RandomFromToKernel, Generator>(self, from, to, std::move(given));
}

at::Tensor& random_to_(at::Tensor& self, int64_t to, OptionalGenerator given) {
  return random_from_to_(self, 0, to, std::move(given));
}

void fill_uniform(at::Tensor& self, const OptionalGenerator& given) { uniform_(self, 0.0, 1.0, given); }
void fill_normal(at::Tensor& self, const OptionalGenerator& given) { normal_(self, 0.0, 1.0, given); }
void fill_random(at::Tensor& self, int64_t low, int64_t high, const OptionalGenerator& given) {
  random_from_to_(self, low, high, given);
}

at::Tensor rand(at::IntArrayRef size, OptionalGenerator given, RD_OPTIONS) {
  return filled<fill_uniform>(size, c10::get_default_dtype_as_scalartype(), dtype, layout, device, pin_memory, given);
}

at::Tensor randn(at::IntArrayRef size, OptionalGenerator given, RD_OPTIONS) {
  return filled<fill_normal>(size, c10::get_default_dtype_as_scalartype(), dtype, layout, device, pin_memory, given);
}

at::Tensor randint_low(int64_t low, int64_t high, at::IntArrayRef size, OptionalGenerator given, RD_OPTIONS) {
  return filled<fill_random>(size, c10::get_default_dtype_as_scalartype(), dtype, layout, device, pin_memory, low, high, given);
}

at::Tensor randint(int64_t high, at::IntArrayRef size, OptionalGenerator given, RD_OPTIONS) {
  return randint_low(0, high, size, std::move(given), dtype, layout, device, pin_memory);
}

// The overload of a factory without a generator: it draws from the device's.
template <auto factory, class... Args>
at::Tensor undirected(Args... args, at::IntArrayRef size, RD_OPTIONS) {
  return factory(args..., size, std::nullopt, dtype, layout, device, pin_memory);
}

void like_uniform(at::Tensor& self) { fill_uniform(self, std::nullopt); }
void like_normal(at::Tensor& self) { fill_normal(self, std::nullopt); }
void like_random_low(at::Tensor& self, int64_t low, int64_t high) { fill_random(self, low, high, std::nullopt); }
void like_random(at::Tensor& self, int64_t high) { like_random_low(self, 0, high); }

// Several samples with replacement; PyTorch's own code makes the others of exponential_, div and argmax or topk.
void draw_indices(at::Tensor& result, const at::Tensor& weights, int64_t samples, OptionalGenerator given) {
  const rd_op* const op = kernel_of<"multinomial">;
  at::assert_no_internal_overlap(result);
  if (result.numel() == 0) {
    return;
  }
  const at::Tensor rows = weights.contiguous().view({-1, weights.size(-1)});
  const at::Tensor indices = result.is_contiguous() ? result : at::empty_like(result, at::MemoryFormat::Contiguous);
  Launch launch;
  launch.output(indices.view({-1, samples}));
  launch.input(rows);
  add_state(launch, given, weights.device());
  launch.run_or_throw(op, static_cast<int32_t>(weights.scalar_type()), weights.device().index());
  if (!indices.is_same(result)) {
    result.copy_(indices);
  }
}

using Pair = std::tuple<at::Tensor, at::Tensor>;

Pair native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  const rd_op* const op = kernel_of<"native_dropout">;
  if (input.numel() == 0) {
    return {input, at::empty_like(input)};
  }
  const auto mask_options = input.options().dtype(at::kBool);
  if (train.has_value() && !*train) {
    return {input.clone(), at::ones_like(input, mask_options)};
  }
  const double kept = 1 - p;
  const double scale = kept == 0 ? 0.0 : 1.0 / kept;
  at::Tensor mask = at::empty_like(input, mask_options);
  // Complex numbers, and what these operators refuse.
  if (!is_real(input.scalar_type())) {
    return {input.mul(mask.bernoulli_(kept)).mul_(scale), mask};
  }
  TORCH_CHECK(kept >= 0 && kept <= 1, "dropout expects a probability in [0, 1], but got p=", p);
  at::Tensor output = at::empty_like(input);
  Launch launch;
  launch.input(output);
  launch.input(mask);
  launch.finish_outputs();
  launch.input(input);
  add_state(launch, std::nullopt, input.device());
  launch.scalar(kept);
  launch.scalar(scale);
  launch.run_or_throw(op, static_cast<int32_t>(input.scalar_type()), input.device().index());
  return {output, mask};
}

at::Tensor native_dropout_backward(const at::Tensor& grad, const at::Tensor& mask, double scale) {
  const rd_op* const op = kernel_of<"native_dropout_backward">;
  if (!is_real(grad.scalar_type())) {
    return grad.mul(mask.type_as(grad).mul(scale));
  }
  const at::Tensor undefined;
  auto config = at::TensorIteratorConfig();
  config.check_all_same_dtype(false).declare_static_dtype(grad.scalar_type()).add_output(undefined).add_const_input(grad);
  config.add_const_input(mask);
  auto iter = config.build();
  if (iter.numel() != 0) {
    Launch launch;
    launch.iterator(iter);
    launch.scalar(scale);
    launch.run_or_throw(op, static_cast<int32_t>(grad.scalar_type()), grad.device().index());
  }
  return iter.output();
}

}  // namespace
}  // namespace rustdev

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(multinomial_with_replacement_stub, &rustdev::draw_indices)

}  // namespace at::native

namespace rustdev {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("uniform_", TORCH_FN(uniform_));
  m.impl("normal_", TORCH_FN(normal_));
  m.impl("exponential_", TORCH_FN(exponential_));
  m.impl("bernoulli_.float", TORCH_FN(bernoulli_scalar_));
  m.impl("random_.from", TORCH_FN(random_from_to_));
  m.impl("random_.to", TORCH_FN(random_to_));
  m.impl("rand", TORCH_FN(undirected<rand>));
  m.impl("rand.generator", TORCH_FN(rand));
  m.impl("rand_like", TORCH_FN(Like<like_uniform>::call<at::native::rand_like>));
  m.impl("randn", TORCH_FN(undirected<randn>));
  m.impl("randn.generator", TORCH_FN(randn));
  m.impl("randn_like", TORCH_FN(Like<like_normal>::call<at::native::randn_like>));
  m.impl("randint", TORCH_FN((undirected<randint, int64_t>)));
  m.impl("randint.generator", TORCH_FN(randint));
  m.impl("randint.low", TORCH_FN((undirected<randint_low, int64_t, int64_t>)));
  m.impl("randint.low_generator", TORCH_FN(randint_low));
  m.impl("randint_like", TORCH_FN((Like<like_random, int64_t>::call<at::native::randint_like>)));
  m.impl("randint_like.low_dtype", TORCH_FN((Like<like_random_low, int64_t, int64_t>::call<at::native::randint_like>)));
  m.impl("multinomial", TORCH_FN(at::native::multinomial));
  m.impl("multinomial.out", TORCH_FN(at::native::multinomial_out));
  m.impl("native_dropout", TORCH_FN(native_dropout));
  m.impl("native_dropout_backward", TORCH_FN(native_dropout_backward));
}

}  // namespace rustdev
