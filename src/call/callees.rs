//! The kernels and the PyTorch operators that calls refer to by name. Operators are looked up when the library is loaded, which
//! fails if one is missing; a kernel that is missing does not compile.

use std::ffi::CStr;
use std::sync::OnceLock;

/// An operator, by its name without `aten::` for PyTorch's own library.
pub struct Callee {
    name: &'static CStr,
    handle: OnceLock<usize>,
}

impl Callee {
    const fn new(name: &'static CStr) -> Self {
        Self { name, handle: OnceLock::new() }
    }

    pub fn name(&self) -> &'static CStr {
        self.name
    }

    /// Sets the shim's handle of the operator.
    pub fn bind(&self, handle: usize) {
        let _ = self.handle.set(handle);
    }

    /// The shim's handle, or 0 before the operator is bound.
    pub fn handle(&self) -> usize {
        self.handle.get().copied().unwrap_or(0)
    }
}

/// The kernel with this name in the operator table.
macro_rules! kernel {
    ($name:literal) => {{
        // A constant could not read the table, which is a static.
        static KERNEL: &$crate::tensor::op::Op = $crate::tensor::op::Op::named($name);
        KERNEL
    }};
}
pub(crate) use kernel;

macro_rules! callees {
    ($($item:ident = $name:literal;)*) => {
        $(pub static $item: Callee = Callee::new($name);)*
        /// All of the names above.
        pub static CALLEES: [&Callee; [$($name),*].len()] = [$(&$item),*];
    };
}

callees! {
    ADD = c"add.Tensor";
    ADDMM_IN_PLACE = c"addmm_";
    ADD_IN_PLACE = c"add_.Tensor";
    ADD_NUMBER = c"add.Scalar";
    ADD_OUT = c"add.out";
    ALL = c"all";
    AMINMAX = c"aminmax";
    ARGMAX_OUT = c"argmax.out";
    ASSERT = c"_assert_async.msg";
    BERNOULLI_NUMBER = c"bernoulli_.float";
    BITWISE_AND = c"bitwise_and.Tensor";
    CAT = c"cat";
    CLAMP_MIN_IN_PLACE = c"clamp_min_";
    CLONE = c"clone";
    COPY = c"copy_";
    CUMSUM = c"cumsum";
    DIFF = c"diff";
    DIV = c"div.Tensor";
    DIV_IN_PLACE = c"div_.Tensor";
    DIV_NUMBER_IN_PLACE = c"div_.Scalar";
    DIV_OUT = c"div.out";
    DIV_ROUNDED_IN_PLACE = c"div_.Tensor_mode";
    DROPOUT = c"dropout";
    EQ = c"eq.Scalar";
    EXPONENTIAL = c"exponential_";
    FILL = c"fill_.Scalar";
    GE = c"ge.Scalar";
    GRU_LAYER = c"rustdev::gru_layer";
    IMAG = c"imag";
    INDEX_SELECT = c"index_select";
    LINEAR = c"linear";
    LINSPACE_OUT = c"linspace.out";
    LSTM_LAYER = c"rustdev::lstm_layer";
    LT = c"lt.Scalar";
    MASKED_FILL = c"masked_fill_.Tensor";
    MASKED_SELECT = c"masked_select";
    MEAN = c"mean";
    MEAN_OUT = c"mean.out";
    MIN = c"min";
    MM = c"mm";
    MUL = c"mul.Tensor";
    MUL_IN_PLACE = c"mul_.Tensor";
    MUL_NUMBER = c"mul.Scalar";
    MUL_NUMBER_IN_PLACE = c"mul_.Scalar";
    NE = c"ne.Scalar";
    NEG = c"neg";
    NONZERO = c"nonzero";
    NORMAL = c"normal_";
    REAL = c"real";
    RECIPROCAL = c"reciprocal_";
    RESIZE = c"resize_";
    RESOLVE_NEG = c"resolve_neg";
    RNN_RELU_LAYER = c"rustdev::rnn_relu_layer";
    RNN_TANH_LAYER = c"rustdev::rnn_tanh_layer";
    SELECT = c"select.int";
    SIGMOID_IN_PLACE = c"sigmoid_";
    SIGMOID_OUT = c"sigmoid.out";
    SORT = c"sort.stable";
    SQRT_IN_PLACE = c"sqrt_";
    STACK = c"stack";
    SUB = c"sub.Tensor";
    SUM = c"sum.dim_IntList";
    SUM_OF_ALL = c"sum";
    SUM_OUT = c"sum.IntList_out";
    TANH_IN_PLACE = c"tanh_";
    TO_DTYPE = c"to.dtype";
    TOPK_OUT = c"topk.values";
    TRANSPOSE = c"transpose.int";
    VAR = c"var.correction";
    VECTOR_NORM = c"linalg_vector_norm";
    VIEW_AS_REAL = c"view_as_real";
    VIEW_DTYPE = c"view.dtype";
    ZERO = c"zero_";
}
