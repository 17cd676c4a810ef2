"""Where rustdev is expected to differ from PyTorch's CPU device on PyTorch's own samples, and why.

Keys are (kind of test, operator, dtype); without a dtype they mean all dtypes. Kinds are the names of the tests in ``conformance``.
Behind a kind stands what the difference is one of, if it is of a part of the test: a layout (conformance/layouts.py), a layout and
dtype of sparse tensors (sparse_calls.py) or a family of values (extremes.py). Operators in dtypes that the database does not list
have one test for all of these dtypes (``extremes_unlisted``).
An entry without a difference fails and should be removed, except those of ``SOME_PROCESSORS``.
"""

import itertools

import torch

DTYPES = {"floats": "bfloat16 float16 float32 float64", "complex": "complex64 complex128"}

#: Below a reason, rows of kinds, parts, dtypes and operators: each stands for all combinations.
LASTING = """
indices given as a tensor stay on the CPU, on every accelerator
    forward noncontiguous backward forward_ad layout empty compiled_forward |  |  | tensor_split
    compiled_backward extremes extremes_backward extremes_unlisted |  |  | tensor_split
the database cannot make sparse tensors that are not contiguous
    noncontiguous |  |  | sparse_mm_reduce sparse_sampled_addmm
PyTorch cannot make such numbers that are not contiguous
    noncontiguous |  | bcomplex32 | to
what overflows is infinite; the CPU's is NaN
    noncontiguous |  | float16 | matrix_exp
compiled, the statistics are in float32, as on every accelerator
    compiled_forward |  | bfloat16 | _batch_norm_with_update _native_batch_norm_legit native_batch_norm native_layer_norm
next to 1 the derivative multiplies the last bit, on the CPU too
    compiled_backward |  | float32 | erfinv
compiled, an ill-defined loss is not refused, on the CPU neither
    compiled_backward |  | float32 | linalg_eig
memory in common is refused where the CPU device writes over it, or writes zeros for a sum of no terms
    layout | expanded |  | _batch_norm_with_update _native_batch_norm_legit native_batch_norm nn_functional_batch_norm
    layout | expanded, overlapping |  | nn_functional_embedding nn_functional_embedding_bag
    layout_out | out expanded |  | baddbmm linalg_multi_dot matmul mm multinomial
    layout_out | out shifted |  | addmm addmm_decomposed baddbmm nn_functional_linear nn_functional_logsigmoid
    overload | default expanded |  | _batch_norm_with_update _native_batch_norm_legit
    overload | out shifted |  | baddbmm
    overload | out expanded |  | tril triu
    overload | out overlapping |  | linalg_lu lu_unpack
the CPU device's oneDNN refuses the layout, or writes elsewhere
    layout_out | out overlapping, out transposed, out stepped |  | nn_functional_gelu
    overload | grad_input overlapping |  | gelu_backward
the buffer, which only the CPU device reads, may share memory with the result
    overload | grad_input shifted |  | log_sigmoid_backward
the CPU device puts the losses of the elements into the result's memory first
    overload | out contiguous, out misaligned, out far |  | huber_loss mse_loss smooth_l1_loss
the CPU device copies the exponents first, and the result has the copy's strides
    layout | transposed, permuted |  | ldexp
the strides are those of the composition, as on every accelerator
    layout | transposed |  | nn_functional_max_pool1d
    layout | channels_last |  | nn_functional_pixel_shuffle nn_functional_pixel_unshuffle
    empty | all with size 0 in dimension 0, all with size 0 in dimension 1 |  | nn_functional_scaled_dot_product_attention
the result has the input's memory format, in three dimensions as in two
    layout | channels_last |  | nn_functional_conv_transpose3d
of equal elements either may be named
    layout | expanded |  | median nanmedian
what an index finds missing is found by the task, as on every accelerator
    layout | expanded |  | repeat_interleave
    empty | all with size 0 in dimension 1 |  | nn_functional_cross_entropy nn_functional_nll_loss
    empty | all with size 0 in dimension 0 |  | nn_functional_nll_loss
an index into nothing is refused, by another exception
    empty | first with size 0 in dimension 0 |  | index_add index_reduce_amax index_reduce_amin index_reduce_mean index_reduce_prod
    empty | all with size 0 in dimension 1 |  | index_reduce_amax index_reduce_amin index_reduce_mean index_reduce_prod
    empty | all with size 0 in dimension 0 |  | index_reduce_prod
the CPU device returns an empty input in its own shape, or refuses it
    empty | all with size 0 in dimension 0 |  | nn_functional_pixel_shuffle nn_functional_pixel_unshuffle
    empty | all with size 0 in dimension 1 |  | nn_functional_pixel_shuffle nn_functional_pixel_unshuffle
    empty | all with size 0 in dimension 2, all with size 0 in dimension 3 |  | nn_functional_pixel_shuffle
    empty | all with size 0 in dimension 2, all with size 0 in dimension 3 |  | nn_functional_pixel_unshuffle
sparse matrices of 16 bit floats are multiplied, as on CUDA; the CPU refuses them
    sparse | coo float16, coo bfloat16, twice float16, twice bfloat16 |  | _sparse_sparse_matmul mm
sparse tensors of float16 and of bool are added, as on CUDA; the CPU refuses them
    sparse | coo float16, coo bool, twice float16, twice bool, rows float16, rows bool |  | add
the CPU's product of CSC matrices counts elements and has none of them; such a result is refused
    sparse | csc float32, csc float64, csc complex64 |  | mm
what an index finds missing is found by the task, behind the call that is compared
    empty |  |  | nn_functional_embedding_bag take_along_dim
a dimension out of range is an IndexError, as on every accelerator
    errors |  |  | narrow_copy
i0 of an infinity is one; the CPU's is NaN
    extremes | every value, single | floats | i0
of a matrix without columns the CPU's result has the input's shape alone
    extremes extremes_backward | no columns |  | addmv
the CPU returns an empty input in its own shape
    extremes extremes_backward | no rows, no columns |  | nn_functional_pixel_unshuffle
    extremes_backward | no rows, no columns | bfloat16 complex128 complex64 float16 float32 float64 | nn_functional_pixel_shuffle
products of infinities: the CPU's are infinite or NaN by the matrices' sizes
    extremes | with inf and -inf | complex | baddbmm bmm einsum tensordot mm prod
    extremes | with inf | complex | bmm mm
what the tests move to the device is a view, which may not be detached in place
    overload |  |  | detach_
its second result, for the gradient alone, has elements where the CPU's has none
    overload |  |  | _embedding_bag
takes the device's own second result of _embedding_bag
    overload |  |  | _embedding_bag_per_sample_weights_backward
its buffer, which the device does not need, is left as it was
    overload |  |  | log_sigmoid_forward
1 / x^2 is subnormal where the CPU's square overflows
    extremes_backward | numbers | float64 | __rpow__ float_power pow
8 bit floats are refused with another exception
    extremes_unlisted | usual, large, tiny, unit, zeros, with inf, with inf and -inf |  | nn_functional_dropout
    extremes_unlisted | with nan, one element, all |  | nn_functional_dropout
NaN of 8 bits is the least integer, as NaN of 32 bits is; the CPU's is 0
    extremes_unlisted | every value, single, all, with inf and -inf |  | long
PyTorch's formula adds 1 to what is next to -1
    extremes_backward | every value, with inf and -inf | complex128 | expm1
PyTorch's formula is a difference of rounded results
    extremes | every value | float32 float16 float64 | nn_functional_tanhshrink
    extremes | every value | float32 int16 int8 | special_ndtr
    extremes | single, usual, with inf and -inf | float32 | nn_functional_tanhshrink
    extremes_backward | with inf, with nan | float32 | nn_functional_cosine_similarity
    extremes_backward | unit | complex128 | nn_functional_normalize
    extremes_backward | large, one element | bfloat16 | nn_functional_normalize
    extremes_backward | usual, with inf and -inf | complex64 | nn_functional_normalize
PyTorch's formula is a difference of rounded results, or a multiple of one
    extremes_backward | every value | float32 | nn_functional_tanhshrink special_i0e special_log_ndtr special_ndtri sinc
    extremes_backward | every value | float32 | special_erfcx special_i1e tanh
    extremes_backward | every value | float64 | sinc special_erfcx special_i0e special_i1e
    extremes_backward | every value | float16 | tanh
    extremes_backward | single | float32 | special_erfcx special_i1e
    extremes_backward | single | float64 | special_i0e special_i1e
    extremes_backward | large, with inf, with nan, limits, all | float32 | special_erfcx
a number beyond 8 bits is not rounded before it is multiplied
    extremes_unlisted | numbers |  | mul
a product that overflows beside an infinity: the CPU's sum is fused for single numbers
    extremes | single | bfloat16 float32 float64 | addcmul
    extremes | pairs | bfloat16 float32 | addcmul
before the start, of an infinite end; the CPU's is NaN
    extremes | pairs | floats | lerp
beside an infinite part the other one has the rounding errors of the whole
    extremes | pairs | complex64 | addcdiv true_divide div_no_rounding_mode
    extremes | pairs | complex128 | div_no_rounding_mode
exact where both are equal; the CPU's has a logarithm's rounding
    extremes | pairs | float16 float64 | logaddexp2
imaginary parts are by whole turns apart, and NaN beside infinities or not, by the order of the sum
    extremes | with inf and -inf | complex | logcumsumexp
    extremes | usual, large | complex128 | logcumsumexp
    extremes_backward | large | complex128 | logcumsumexp
    extremes_backward | with inf, with inf and -inf | complex | logcumsumexp
next to 0 the CPU's sigmoid is 1/2
    extremes_backward | pairs | float64 | nn_functional_binary_cross_entropy_with_logits
next to the greatest number one of two overflows
    extremes_backward | tiny | complex64 | linalg_tensorinv
next to the pole at -1 the CPU's reflection loses its digits
    extremes | every value, single | float64 | digamma
    extremes_backward | every value, single | float64 | lgamma mvlgamma_mvlgamma_p_1 mvlgamma_mvlgamma_p_3 mvlgamma_mvlgamma_p_5
    extremes_backward | unit | float64 | mvlgamma_mvlgamma_p_1 mvlgamma_mvlgamma_p_3 mvlgamma_mvlgamma_p_5
of numbers with equal real parts another one is the greater: whole turns apart, and NaN beside infinities
    extremes | pairs, single | complex | logaddexp
    extremes | large, with inf, with nan, limits | complex128 | logaddexp
    extremes_backward | pairs | complex | logaddexp
on the cut the CPU's subtraction of 1 loses the sign of zero
    extremes_backward | every value, single, zeros | complex | acosh
    extremes_backward | tiny | complex64 | acosh
powers of numbers with an infinite or extreme part: steps on the way overflow, or are NaN
    extremes_backward | numbers | complex | __rpow__ float_power pow
infinite weights do not meet the padding; the CPU multiplies its zeros by them
    extremes | with inf and -inf | complex128 | nn_functional_conv1d
products overflow on their way by the order of their factors
    extremes | all | complex128 float32 float64 | prod
    extremes_backward | all | complex128 | prod
squares overflow: the CPU's are NaN
    extremes extremes_backward | large | float64 | native_group_norm nn_functional_group_norm nn_functional_layer_norm
    extremes_backward | limits | float64 | masked_std masked_var std
    extremes_backward | limits | complex128 | masked_var std var
keys that a causal query takes no part with are left out, and scores that overflow are NaN; the CPU multiplies by 0
    extremes extremes_backward | large | float64 | nn_functional_scaled_dot_product_attention
    extremes extremes_backward | with inf, with inf and -inf | float32 float64 | nn_functional_scaled_dot_product_attention
    extremes extremes_backward | with nan | float32 float64 | nn_functional_scaled_dot_product_attention
statistics of infinities are infinite or NaN by the order of steps
    extremes extremes_backward | with inf and -inf | floats | nn_functional_instance_norm
sums overflow on their way by the order of their terms
    extremes_backward | large | float32 float64 | _softmax_backward_data
    extremes_backward | limits | bfloat16 complex64 float32 | lerp
tails that cancel on the CPU, in float64 as well
    extremes | every value, single | bfloat16 float32 float64 | nn_functional_gelu
    extremes | usual, with inf, with inf and -inf, with nan, all | bfloat16 float32 | nn_functional_gelu
    extremes_backward | every value | floats | nn_functional_gelu
    extremes_backward | usual, with inf, with inf and -inf, with nan | bfloat16 float32 | nn_functional_gelu
    extremes_backward | all | bfloat16 float32 float64 | nn_functional_gelu
    extremes_backward | single, large, limits | float64 | nn_functional_gelu
the Bessel functions of an infinity are infinite; the CPU's are NaN
    extremes | every value, single | floats | special_i1
    extremes_backward | every value, single | floats | i0
the CPU multiplies by 6 first, which overflows
    extremes | every value, single | float64 | nn_functional_hardswish
the CPU's arithmetic of subnormal and of the greatest numbers loses their digits
    extremes | every value, tiny, unit, all | complex128 | sgn
    extremes_backward | every value, tiny, unit, all | complex128 | abs
    extremes_backward | tiny | complex128 | linalg_norm_subgradients_at_zero linalg_vector_norm norm_inf
    extremes_backward | pairs, single, unit | complex128 | nn_functional_l1_loss
    extremes_backward | tiny, unit | complex128 | norm renorm
    extremes_backward | pairs | complex64 | ldexp
    extremes_backward | tiny, limits | float64 | masked_norm
    extremes_backward | pairs, single, tiny | float64 | polar
    extremes_backward | pairs | float32 | polar
the CPU's divisor of the smallest integer, which has no magnitude, is below 0
    extremes | pairs, all, large | int8 int16 | gcd
    extremes | single | int16 | gcd
the CPU's is NaN where a step on the way overflows, or a part is subnormal
    extremes | every value | complex | log1p
    extremes | tiny, unit, all | complex128 | log1p
    extremes | every value, large, limits, all | complex | nn_functional_silu_complex
    extremes extremes_backward | every value, large, with inf and -inf, limits, all | complex | sigmoid
    extremes_backward | every value, single, large, limits, all | complex128 | atanh
the CPU's loses the lesser part
    extremes | every value | complex128 | acos
the CPU's sine of pi x has the rounding of pi
    extremes | every value | complex128 float64 bfloat16 float32 int64 | sinc
    extremes | single | complex128 float64 bfloat16 | sinc
    extremes | tiny, unit | complex128 | sinc
    extremes | limits, all | float64 | sinc
    extremes_unlisted | every value, single |  | sinc
the mean of values of which one is infinite is infinite; the CPU's is NaN
    extremes | with inf | floats | native_group_norm std_mean var_mean
    extremes | with inf and -inf | floats | native_group_norm
the size of a number with an infinite part is infinite, by C99; the CPU's is NaN where the other is
    extremes | pairs | complex | nn_functional_l1_loss
    extremes_unlisted | pairs |  | nn_functional_l1_loss
"""
#: Those that come and go, with the processor, its libraries or what memory held: they may be gone.
CHANGING = """
of one sample the divisor, a difference of sums of float32, is 0 but for roundings
    forward |  | complex128 | cov
    noncontiguous |  | complex64 | cov
two terms cancel but for their roundings
    backward |  | float32 | torch_ops_aten__scaled_dot_product_flash_attention_for_cpu
    extremes | single | float32 | special_ndtr
    extremes_backward | unit | float32 | nn_functional_scaled_dot_product_attention native_layer_norm
    extremes_backward | large | float32 | nn_functional_local_response_norm
    extremes_backward | usual, tiny, zeros, with inf, with inf and -inf, with nan | float32 | native_layer_norm
the loss of an empty batch is memory that was not written
    empty | all with size 0 in dimension 0 |  | nn_functional_multilabel_margin_loss
what a tensor grows by is memory that was not written
    empty | all with size 0 in dimension 0, all with size 0 in dimension 1 |  | resize_ resize_as_
    empty | all with size 0 in dimension 2, all with size 0 in dimension 3 |  | resize_ resize_as_
    empty | first with size 0 in dimension 0, first with size 0 in dimension 1 |  | resize_ resize_as_
    empty | first with size 0 in dimension 2, first with size 0 in dimension 3 |  | resize_ resize_as_
the CPU's kernel takes the last dimension to be contiguous, and reads other elements
    layout | overlapping, transposed, permuted |  | torch_ops_aten__scaled_dot_product_flash_attention_for_cpu
    layout | channels_last, stepped |  | torch_ops_aten__scaled_dot_product_flash_attention_for_cpu
sums have another order than the CPU device's
    layout_out | out transposed, out permuted, out channels_last, out stepped, out misaligned, out far |  | matmul
its second result is partly left as it was
    overload |  |  | _ctc_loss
keys that a causal query takes no part with are left out, and scores that overflow are NaN; the CPU multiplies by 0
    extremes extremes_backward | large, with inf | float32 float64 | torch_ops_aten__scaled_dot_product_flash_attention_for_cpu
    extremes extremes_backward | with inf and -inf | float32 float64 | torch_ops_aten__scaled_dot_product_flash_attention_for_cpu
    extremes extremes_backward | with nan | float32 float64 | torch_ops_aten__scaled_dot_product_flash_attention_for_cpu
oneDNN has empty results of 16 bit floats, and float16 on some processors; the CPU refuses them on the others
    extremes extremes_backward | one element | float16 | nn_functional_conv_transpose1d nn_functional_conv_transpose2d
    extremes extremes_backward | one element | float16 | nn_functional_conv_transpose3d
    extremes_unlisted | one element |  | nn_functional_conv_transpose1d nn_functional_conv_transpose2d
    extremes_unlisted | one element |  | nn_functional_conv_transpose3d
infinite complex numbers are multiplied part by part; the CPU's BLAS makes infinities of NaN on some processors
    extremes | with inf | complex | matmul __rmatmul__
    extremes | with inf and -inf | complex | dot inner vdot
keys that a causal query takes no part with are left out, scores that overflow are NaN; so are the CPU's on some processors
    extremes | large | bfloat16 float32 | nn_functional_scaled_dot_product_attention
    extremes extremes_backward | with inf, with inf and -inf | bfloat16 float16 | nn_functional_scaled_dot_product_attention
    extremes extremes_backward | with nan | bfloat16 float16 | nn_functional_scaled_dot_product_attention
    extremes extremes_backward | with inf, with inf and -inf | float16 | torch_ops_aten__scaled_dot_product_flash_attention_for_cpu
    extremes extremes_backward | with nan | float16 | torch_ops_aten__scaled_dot_product_flash_attention_for_cpu
exact in each part, and by C99 beside infinities; the CPU's are not on each processor
    extremes | every value, with inf and -inf | complex | expm1
    extremes_backward | every value, with inf and -inf | complex64 | expm1
the arithmetic of subnormal numbers loses their digits
    extremes_backward | tiny | complex128 | linalg_norm
squares overflow: the CPU's are NaN, by the order of the steps
    extremes_backward | large | float64 | native_layer_norm
beside an infinite part, or of a subnormal divisor, a part has the rounding errors of the whole
    extremes | pairs | complex128 | true_divide
NaN of 8 bits is the least integer, as NaN of 32 bits is; the CPU's is 0 on some processors
    extremes_unlisted | every value, single, all, with inf and -inf |  | int
"""


def entries(table: str) -> dict[tuple[str, str, torch.dtype | None], str]:
    """Return the keys of differences with their reasons."""
    found, reason = {}, ""
    for line in table.strip().splitlines():
        if not line.startswith(" "):
            reason = line
            continue
        kinds, parts, dtypes, names = (column.strip() for column in line.split("|"))
        for kind, part, dtype, name in itertools.product(
            kinds.split(), parts.split(", "), DTYPES.get(dtypes, dtypes).split() or [""], names.split()
        ):
            found[f"{kind}: {part}" if part else kind, name, getattr(torch, dtype) if dtype else None] = reason
    return found


EXPECTED = entries(LASTING) | entries(CHANGING)
SOME_PROCESSORS = set(entries(CHANGING))

#: Relative and absolute tolerance of operators that get more than their dtype's, even where the CPU is nearer to the exact values.
TOLERANCE: dict[tuple[str, torch.dtype], tuple[float, float]] = {
    # Sums that cancel, by matrix products: over hundreds of random inputs either device is the nearer in about half of them, but
    # the inputs' own roundings, by which the tests judge, move the results by less than those of the steps between.
    ("cov", torch.float32): (1.3e-6, 2e-4),  # of complex input, the gradients of two observations' weights, which are 0
    ("linalg.multi_dot", torch.float32): (1.3e-6, 5e-3),
    ("linalg.householder_product", torch.float32): (2e-4, 1e-3),  # tangents, of which both devices are off by 0.2 % in the median
    ("linalg.householder_product", torch.complex64): (5e-3, 1e-3),
    ("linalg.lstsq", torch.float32): (1.3e-6, 5e-5),
    ("linalg.pinv", torch.float32): (1.3e-6, 5e-4),  # gradients of hermitian ones, by eigenvectors
}
