"""The names of ``torch.cuda`` that ``torch.rustdev`` lacks. Accessing one raises AttributeError with the reason.

A name that could only be a stub is left out, so that a program that relies on it fails. docs/features.md is generated from this.
"""

from typing import NoReturn

from ._name import NAME

#: For each module: (space-separated absent names, reason).
_REASONS: dict[str, tuple[tuple[str, str], ...]] = {
    f"torch.{NAME}": (
        (
            "CUDAGraph graph_annotations export_dot export_graph_data",
            f"CUDA's own graphs; the class is torch.{NAME}.Graph, as torch.xpu has XPUGraph, and its debug_dump() writes DOT",
        ),
        (
            "CUDAPluggableAllocator change_current_allocator caching_allocator_disabled",
            "each device has one allocator, which always caches: streams rely on it to reuse memory in their order",
        ),
        (
            "temperature power_draw clock_rate utilization memory_usage",
            "the processor's are not the device's own",
        ),
        ("cudaStatus check_error cudart", "errors are raised as exceptions, and there is no library of the driver's"),
        ("DeferredCudaCallError", "the device is set up at import, so no call is deferred"),
        ("nccl comm", "torch.distributed communicates, by the backend rdccl"),
        ("tunable", "kernels are chosen by shape and processor, not by timing them in the program"),
        (
            "jiterator gds",
            "CUDA's compiler and file access; a kernel of one's own is a custom operator, as in examples/custom_kernel",
        ),
        ("GreenContext green_contexts", "all streams share one pool of threads; set_num_threads() says how many"),
        ("current_blas_handle current_solver_handle", "the libraries that products call have no handles"),
        ("has_half has_magma", "what PyTorch was built with for CUDA; is_bf16_supported() and op_calls() tell of this device"),
        ("sparse", "the legacy types of sparse tensors, which torch.sparse_coo_tensor makes"),
        (
            "DEVICE_REQUIREMENT DEVICE_REQUIREMENT_POST_JETSON_SBSA_UNIFICATION PYTORCH_RELEASES_CODE_CC",
            "tables of NVIDIA's devices",
        ),
    ),
    f"torch.{NAME}.amp": (
        (
            "autocast_mode common grad_scaler amp_definitely_not_available",
            "files of CUDA's package, with the names that amp has itself",
        ),
    ),
    f"torch.backends.{NAME}": (
        (
            "matmul allow_fp16_bf16_reduction_math_sdp fp16_bf16_reduction_math_sdp_allowed",
            "products keep what PyTorch's CPU device keeps, and there is no other precision to choose",
        ),
        (
            "enable_mem_efficient_sdp mem_efficient_sdp_enabled enable_cudnn_sdp cudnn_sdp_enabled can_use_flash_attention "
            "can_use_efficient_attention can_use_cudnn_attention is_flash_attention_available is_ck_sdpa_available SDPAParams "
            "preferred_rocm_fa_library",
            "attention has two ways here, flash and math, and flash is taken where it can be",
        ),
        (
            "preferred_linalg_library preferred_blas_library cublas_workspace_size cublaslt_workspace_size blas_workspace_size "
            "cuBLASModule",
            "there is one library of each kind",
        ),
        ("cufft_plan_cache cuFFTPlanCache cuFFTPlanCacheManager cuFFTPlanCacheAttrContextProp", "transforms keep no plans"),
        ("deterministic benchmark", "kernels sum in a fixed order, and none is chosen by timing"),
    ),
}

#: For each module: absent name to the full name of its equivalent.
OTHER_NAMES = {
    f"torch.{NAME}": {"CudaError": "torch.AcceleratorError", "get_gencode_flags": f"torch.{NAME}.get_arch_list"},
    f"torch.{NAME}.amp": {},
    f"torch.backends.{NAME}": {"sdp_kernel": "torch.nn.attention.sdpa_kernel"},
}

#: For each module: absent name to reason.
REASONS = {module: {name: reason for names, reason in groups for name in names.split()} for module, groups in _REASONS.items()}


def _refuse(module: str, name: str) -> NoReturn:
    """Raise AttributeError for a name that a module lacks.

    Raises:
        AttributeError: Always, with the reason or the equivalent name if known.
    """
    other = OTHER_NAMES[module].get(name)
    reason = f"it is {other} here" if other else REASONS[module].get(name)
    raise AttributeError(f"module '{module}' has no attribute '{name}'" + (f": {reason}" if reason else ""))
