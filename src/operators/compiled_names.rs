//! Names of operators for which C++ is compiled. The build script includes this file too, and writes their lists for the shim.

/// The operators whose metas calls ask for, with one name behind the other.
pub const METAS: &str = "
    _linalg_det _linalg_slogdet _linalg_solve_ex _log_softmax _log_softmax_backward_data _softmax _softmax_backward_data
    _upsample_bicubic2d_aa _upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward
    _upsample_nearest_exact1d _upsample_nearest_exact1d_backward _upsample_nearest_exact2d _upsample_nearest_exact2d_backward
    _upsample_nearest_exact3d _upsample_nearest_exact3d_backward adaptive_max_pool2d adaptive_max_pool2d_backward
    adaptive_max_pool3d adaptive_max_pool3d_backward addmm addmv all all.dim all.dims amax amin aminmax any any.dim any.dims argmax
    argmin avg_pool2d avg_pool2d_backward avg_pool3d avg_pool3d_backward baddbmm bmm cat cumprod cumsum fractional_max_pool2d
    fractional_max_pool2d_backward fractional_max_pool3d gather index_add index_copy index_reduce isin.Scalar_Tensor
    isin.Tensor_Tensor linalg_cholesky_ex linalg_cross linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve linalg_lu
    linalg_lu_factor_ex linalg_lu_solve linalg_qr linalg_vector_norm lu_unpack max.dim max_pool2d_with_indices
    max_pool2d_with_indices_backward mean.dim min.dim mm nll_loss_backward nll_loss_forward prod.dim_int reflection_pad1d
    reflection_pad1d_backward reflection_pad3d reflection_pad3d_backward renorm replication_pad1d replication_pad1d_backward
    replication_pad2d replication_pad3d scatter.reduce scatter.src scatter.value scatter.value_reduce scatter_add scatter_reduce.two
    sum.dim_IntList triangular_solve tril triu upsample_bicubic2d upsample_bicubic2d_backward upsample_bilinear2d
    upsample_bilinear2d_backward upsample_linear1d upsample_linear1d_backward upsample_nearest1d upsample_nearest1d_backward
    upsample_nearest2d upsample_nearest2d_backward upsample_nearest3d upsample_nearest3d_backward upsample_trilinear3d
    upsample_trilinear3d_backward
";

/// The overloads that have a kernel for the types of their schemas: those that models call at every step.
const TYPED: &str = "
    _amp_foreach_non_finite_check_and_unscale_ _batch_norm_no_update _batch_norm_with_update _foreach_copy_ _foreach_max
    _foreach_norm.Scalar _foreach_zero_ _fused_adam_ _fused_adamw_ _fused_sgd_ _index_put_impl_ _log_softmax
    _log_softmax_backward_data _native_batch_norm_legit _native_batch_norm_legit.no_stats _prelu_kernel _softmax
    _softmax_backward_data _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl addmm addmv addr all all.dim amax amin angle
    any any.dim arange arange.start arange.start_step argmax argmin baddbmm batch_norm_backward bernoulli_.Tensor bernoulli_.float
    binary_cross_entropy binary_cross_entropy_backward bmm bucketize.Tensor cat cauchy_ complex convolution_backward_overrideable
    convolution_overrideable cumsum embedding_dense_backward exponential_ flip floor_divide gather geometric_ glu glu_backward
    hardtanh hardtanh_ histc huber_loss huber_loss_backward im2col index.Tensor index_add index_add_ index_copy_
    index_fill_.int_Scalar index_put_ index_select kthvalue.values linalg_vector_norm linspace log_normal_
    log_sigmoid_backward log_sigmoid_forward logit logspace.out masked_fill_.Scalar masked_fill_.Tensor masked_select max max.dim
    max_pool2d_with_indices max_pool2d_with_indices_backward mean mean.dim median min min.dim mm mode mse_loss mse_loss_backward
    multinomial nan_to_num native_batch_norm native_batch_norm_backward native_dropout native_dropout_backward native_group_norm
    native_group_norm_backward native_layer_norm native_layer_norm_backward nll_loss2d_backward nll_loss2d_forward nll_loss_backward
    nll_loss_forward nonzero normal_ polar pow.Scalar prod prod.dim_int rand rand.generator rand_like randint randint.low randn
    randn.generator randn_like random_ random_.from random_.to reflection_pad1d reflection_pad2d reflection_pad2d_backward
    reflection_pad3d remainder.Scalar_Tensor replication_pad1d replication_pad2d replication_pad2d_backward replication_pad3d roll
    rsub.Tensor scatter.src scatter.value scatter_.src scatter_.value scatter_add scatter_add_ scatter_reduce.two
    searchsorted.Tensor smooth_l1_loss smooth_l1_loss_backward sort sort.stable std.correction sum sum.dim_IntList take topk tril
    triu uniform_ var.correction var_mean.correction
";

/// The same of operators `_foreach_*`, without that, which have a functional variant and one in place.
const FOREACH: &str = "
    abs acos add.List add.Scalar add.ScalarList add.Tensor addcdiv.Scalar addcdiv.ScalarList addcdiv.Tensor addcmul.Scalar
    addcmul.ScalarList addcmul.Tensor asin atan ceil clamp_max.List clamp_max.Scalar clamp_max.ScalarList clamp_min.List
    clamp_min.Scalar clamp_min.ScalarList cos cosh div.List div.Scalar div.ScalarList div.Tensor erf erfc exp expm1 floor frac
    lerp.List lerp.Scalar lerp.ScalarList lgamma log log10 log1p log2 maximum.List maximum.Scalar maximum.ScalarList minimum.List
    minimum.Scalar minimum.ScalarList mul.List mul.Scalar mul.ScalarList mul.Tensor neg pow.List pow.Scalar pow.ScalarList
    reciprocal round rsqrt sigmoid sign sin sinh sqrt sub.List sub.Scalar sub.ScalarList tan tanh trunc
";

/// Operators of sparse COO tensors, each with the function of PyTorch's that serves it on any device.
const SPARSE: &str = "
    _coalesced_=_coalesced_sparse_ _indices=_indices_sparse _nnz=_nnz_sparse _sparse_coo_tensor_with_dims=new_with_dims_sparse
    _sparse_coo_tensor_with_dims_and_tensors=new_with_dims_and_tensor_sparse_symint _to_dense=sparse_to_dense _values=_values_sparse
    add.Tensor=add_sparse add_.Tensor=add_sparse_ clone=clone_sparse copy_sparse_to_sparse_=copy_sparse_ dense_dim=dense_dim_sparse
    empty.memory_format=empty_sparse_symint indices=indices_sparse is_coalesced=is_coalesced_sparse mul.Tensor=mul_sparse
    mul_.Tensor=mul_sparse_ neg=neg_sparse neg.out=neg_out_sparse neg_=neg_sparse_ norm.ScalarOpt_dim=sparse_norm
    norm.ScalarOpt_dim_dtype=sparse_dtype_norm sparse_dim=sparse_dim_sparse sparse_resize_=sparse_resize_
    sparse_resize_and_clear_=sparse_resize_and_clear_ values=values_sparse zero_=zero_sparse_
";

/// These operators and functions.
pub fn sparse() -> impl Iterator<Item = (&'static str, &'static str)> {
    SPARSE.split_whitespace().filter_map(|pair| pair.split_once('='))
}

/// All overloads with a kernel for the types of their schemas.
pub fn typed() -> impl Iterator<Item = String> {
    let variants = |name: &str| {
        let (name, overload) = name.split_at(name.find('.').unwrap_or(name.len()));
        ["", "_"].map(|in_place| format!("_foreach_{name}{in_place}{overload}"))
    };
    TYPED.split_whitespace().map(str::to_owned).chain(FOREACH.split_whitespace().flat_map(variants))
}
