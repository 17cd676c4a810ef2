"""The backend ``rdccl``: implements the operations of ``torch.distributed`` by Gloo on views of device memory.

The signatures are those of ``c10d::Backend``. Some methods have two names, because PyTorch 2.15 renamed them.
"""

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch._C import _distributed_c10d as c10d
from torch._C._distributed_c10d import Backend, PrefixStore, ProcessGroupGloo, Store, Work

from .. import _rustdev
from .._name import NAME
from ..device import current_device
from .absent import AbsentRanks
from .checks import (
    are_equal_parts,
    byte_counts,
    check_message,
    check_multiple,
    check_pair,
    check_root,
    check_same_length,
    check_tag,
    check_tensors,
    common_device,
    only,
    only_list,
    same_sizes,
)
from .comparison import Comparison
from .ending import finish_at_exit
from .forwarding import install_work_methods
from .group import GroupState
from .loss import end_process
from .views import as_bytes, as_numbers, check_reduction, gloo_reduction, is_premultiplied
from .work import Post, RdcclWork

#: Tag of the backend's internal messages.
_ALL_TO_ALL_TAG = 2**31 - 1
#: Backends in use. C++ keeps only the C++ half of a backend alive, so the Python half, with its methods, is kept alive here.
_in_use: set["ProcessGroupRdccl"] = set()


def _refusing(method: Callable[..., Work | None]) -> Callable[..., Work | None]:
    """Wrap a method so that an error in it ends the current coalescing.

    The error leaves the program's ``with`` block. PyTorch does not notify the backend then, which would go on collecting.
    """

    @functools.wraps(method)
    def call(self: "ProcessGroupRdccl", *arguments: Any, **options: Any) -> Work | None:
        try:
            return method(self, *arguments, **options)
        except Exception:
            self._batch = None
            raise

    return call


class _Batch:
    """Operations between ``start_coalescing`` and ``end_coalescing``, which are issued as one."""

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.outputs: list[Tensor] = []
        self.inputs: list[Tensor] = []
        self.is_observable = True
        self.device = 0


def _own_part(group: Any) -> Store:
    """Return a part of a group's store that an earlier group of the same name, since destroyed, has not used.

    Gloo would read that group's addresses. All ranks have counted themselves before a group is connected.
    """
    return PrefixStore(str((group.store.add("rdccl", 1) - 1) // group.group_size), group.store)


class ProcessGroupRdccl(Backend):
    """Process group backend for collectives and point-to-point messages of device tensors.

    Args:
        gloo: Gloo process group that transfers the data.
        options: Timeout, name and ranks of the group.
    """

    # PyTorch's C++ code reads these attributes. The inherited properties would call it back and recurse without end.
    supports_splitting = False
    supports_coalescing = True
    supports_shrinking = False
    supports_reconfigure = False
    supports_window = False
    supports_abort_hooks = False
    supports_completion_hooks = False
    _supports_time_estimate = False

    def __init__(self, gloo: Any, options: Backend.Options) -> None:
        super().__init__(gloo.rank(), gloo.size())
        self._gloo = gloo
        self._options = options
        self._rank = gloo.rank()
        self._ranks = gloo.size()
        ranks = options.global_ranks_in_group
        self._global_rank = ranks[self._rank] if ranks else self._rank
        self._group = GroupState(
            f"rank {self._rank} of {self._ranks} in rdccl group {options.group_name!r}", ranks or range(self._ranks)
        )
        mode = _rustdev.nccl_mode()
        if mode is not None and not isinstance(gloo, AbsentRanks):
            self._group.comparison = Comparison(gloo, hangs=mode == "hang")
        self._batch: _Batch | None = None
        self._sequence = itertools.count(1)
        self._issued = 0
        # Renamed in torch 2.15.
        self._all_gather_flat = _either(gloo, "all_gather_single", "_allgather_base")
        self._reduce_scatter_flat = _either(gloo, "reduce_scatter_single", "_reduce_scatter_base")
        self._all_to_all_flat = _either(gloo, "all_to_all_single", "alltoall_base")

    @classmethod
    def connect(cls, group: Any, *, is_alone: bool = False) -> "ProcessGroupRdccl":
        """Connect the ranks of a new group and return its backend.

        Args:
            group: Store, rank, size, timeout and name of the group, from ``torch.distributed``.
            is_alone: Whether the other ranks do not exist, in a dry run.
        """
        install_work_methods()
        finish_at_exit(_leave_all)
        _take_sparse_tensors()
        gloo: Any = (
            AbsentRanks(group.group_rank, group.group_size)
            if is_alone
            else ProcessGroupGloo(_own_part(group), group.group_rank, group.group_size, timeout=group.timeout)
        )
        options = Backend.Options("rdccl", group.timeout)
        options.group_name = group.group_id
        options.global_ranks_in_group = group.global_ranks_in_group
        backend = cls(gloo, options)
        _in_use.add(backend)
        return backend

    # About the group

    def getBackendName(self) -> str:  # noqa: N802
        """Return "rdccl"."""
        return "rdccl"

    name = getBackendName

    @property
    def options(self) -> Backend.Options:
        """Timeout, name and ranks of the group."""
        return self._options

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the default timeout of future operations.

        Args:
            timeout: Timeout.
        """
        self._options._timeout = timeout
        self._gloo._set_default_timeout(timeout)

    _set_default_timeout = set_timeout

    def _get_sequence_number_for_group(self) -> int:
        return self._issued

    def _set_sequence_number_for_group(self) -> None:
        """Do nothing: the sequence numbers of all ranks start at 0."""

    def eager_connect_single_device(self, device: torch.device | None) -> None:
        """Do nothing: the ranks are connected when the group is created.

        Args:
            device: Device of the group.
        """

    def shutdown(self) -> None:
        """Release the group after its submitted operations are over, or the group's timeout has expired."""
        self._leave(self._options._timeout.total_seconds())

    def abort(self) -> None:
        """Release the group at once: submitted operations that are not posted to Gloo fail."""
        self._group.aborted = "the group was aborted"
        self._leave(0)

    def _leave(self, seconds: float) -> None:
        """Wait for the group's operations, at most ``seconds``, then release the group."""
        if self in _in_use and not self._group.finish(seconds):
            # Leaked on purpose: Gloo's destructor would wait for the operations, and abort the process if it exits meanwhile.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._gloo))
        _in_use.discard(self)

    # Issuing

    def _issue(
        self,
        name: str,
        posts: Sequence[Post],
        *,
        outputs: Sequence[Tensor] = (),
        inputs: Sequence[Tensor] = (),
        is_observable: bool = True,
    ) -> Work | None:
        """Issue an operation, or add it to the current coalescing."""
        device = common_device((*outputs, *inputs))
        batch = self._batch
        if batch is None:
            return self._start(
                RdcclWork(name, self._group, device, posts, outputs=outputs, inputs=inputs, is_observable=is_observable)
            )
        batch.device = device
        batch.posts.extend(posts)
        batch.outputs.extend(outputs)
        batch.inputs.extend(inputs)
        batch.is_observable &= is_observable
        return None

    def _start(self, work: RdcclWork) -> Work:
        self._group.check()
        loss = _rustdev.faults_loss(self._global_rank)
        if loss is not None:
            self._lose(work, *loss)
        work.issue(self._options._timeout)
        self._issued = next(self._sequence)
        return work

    def _lose(self, work: RdcclWork, ends: bool, text: str) -> None:
        """Apply an injected fault to this rank: end the process, or make the rank unresponsive from this operation on."""
        if ends:
            end_process(text)
        work.leave_unanswered(text, self._options._timeout)

    def start_coalescing(self) -> None:
        """Begin to collect operations."""
        self._batch = _Batch()

    def end_coalescing(self) -> Work | None:
        """Issue the collected operations as one."""
        batch, self._batch = self._batch, None
        if batch is None:
            raise RuntimeError("none of the operations that were coalesced is issued, since one was refused")
        if not batch.posts:
            return None
        return self._start(
            RdcclWork(
                "coalesced",
                self._group,
                batch.device,
                batch.posts,
                outputs=batch.outputs,
                inputs=batch.inputs,
                is_observable=batch.is_observable,
            )
        )

    # Checks. All checks of a call precede its effects. They are the same on all ranks and depend only on arguments that must agree
    # among the ranks. So a call is rejected on all ranks or on none, and later operations of the ranks still match.

    def _check(self, tensors: Sequence[Tensor], op: Any = None, root: int = 0) -> None:
        """Check the arguments of a call.

        Args:
            tensors: All tensors of this rank.
            op: Reduction, if any.
            root: Root rank.
        """
        self._group.check()
        check_root(root, self._ranks)
        device = check_tensors(tensors)
        if op is not None:
            check_reduction(op, tensors, device)
        batch = self._batch
        if batch is not None and batch.posts and batch.device != device:
            raise ValueError(
                f"operations that are coalesced must be of one device, but got {NAME}:{batch.device} and {NAME}:{device}"
            )

    def _list_of_root(self, name: str, lists: Sequence[list[Tensor]], own: Tensor, root: int) -> list[Tensor]:
        """Return the tensors that only the root passes, one for each rank; an empty list on the other ranks.

        The other ranks cannot know whether the root rejects the call. A rank that rejects it issues a dummy operation in its place.
        The operation of the others then does not match a later operation of this rank, but fails by its timeout.
        """
        try:
            if self._rank != root:
                if any(lists):
                    raise ValueError(f"{name} takes a list of tensors on its root alone, rank {root}, not on rank {self._rank}")
                return []
            tensors = only_list(name, lists)
            self._check([own, *tensors])
            if not same_sizes(name, own, tensors, self._ranks):
                raise ValueError(f"{name} needs tensors of one size on all ranks")
        except Exception:
            if self._batch is None:
                post = self._all_reduce(torch.empty(0, device="cpu"), c10d.AllreduceOptions(), c10d.ReduceOp(c10d.ReduceOp.SUM))
                self._start(RdcclWork(f"refused {name}", self._group, common_device([own]), [post]))
            raise
        return tensors

    # Collectives

    @_refusing
    def broadcast(self, tensors: list[Tensor], opts: c10d.BroadcastOptions) -> Work | None:
        """Broadcast the root's tensor to all ranks."""
        tensor = only(tensors)
        self._check([tensor], root=opts.rootRank)
        return self._issue("broadcast", [self._broadcast(as_bytes(tensor), opts)], outputs=[tensor])

    def _broadcast(self, view: Tensor, options: c10d.BroadcastOptions) -> Post:
        return lambda: self._gloo.broadcast([view], options)

    def allreduce(self, tensors: list[Tensor], opts: c10d.AllreduceOptions) -> Work | None:
        """Reduce the tensors of all ranks, in place."""
        return self.allreduce_coalesced([only(tensors)], opts, "all_reduce")

    @_refusing
    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any, name: str = "all_reduce_coalesced") -> Work | None:
        """Reduce several tensors of all ranks, each in place."""
        op = opts.reduceOp
        self._check(tensors, op)
        scaled = [_scaled(tensor, op, in_place=True) for tensor in tensors]
        posts = [self._all_reduce(as_numbers(tensor), opts, gloo_reduction(op, tensor.dtype)) for tensor in scaled]
        return self._issue(name, posts, outputs=tensors)

    def _all_reduce(self, view: Tensor, options: Any, reduction: c10d.ReduceOp) -> Post:
        gloo_options = c10d.AllreduceOptions()
        gloo_options.reduceOp = reduction
        gloo_options.timeout = options.timeout
        return lambda: self._gloo.allreduce([view], gloo_options)

    @_refusing
    def reduce(self, tensors: list[Tensor], opts: c10d.ReduceOptions) -> Work | None:
        """Reduce the tensors of all ranks into the root's. The tensors of the other ranks are unchanged."""
        tensor = only(tensors)
        self._check([tensor], opts.reduceOp, opts.rootRank)
        is_root = self._rank == opts.rootRank
        scratch = _scaled(tensor, opts.reduceOp, in_place=is_root)
        if scratch is tensor and not is_root:
            scratch = tensor.clone()  # Gloo writes partial sums to it
        return self._issue("reduce", [self._reduce(scratch, opts, opts.rootRank)], outputs=[tensor], inputs=[scratch])

    def _reduce(self, tensor: Tensor, options: Any, root: int) -> Post:
        view, gloo_options = as_numbers(tensor), c10d.ReduceOptions()
        gloo_options.reduceOp = gloo_reduction(options.reduceOp, tensor.dtype)
        gloo_options.rootRank = root
        gloo_options.timeout = options.timeout
        return lambda: self._gloo.reduce([view], gloo_options)

    @_refusing
    def allgather(
        self, output_tensors: list[list[Tensor]], input_tensors: list[Tensor], opts: c10d.AllgatherOptions
    ) -> Work | None:
        """Gather the tensors of all ranks on every rank."""
        outputs = only_list("all_gather", output_tensors)
        return self._all_gather("all_gather", [outputs], [only(input_tensors)], opts)

    @_refusing
    def allgather_coalesced(
        self, output_lists: list[list[Tensor]], input_list: list[Tensor], opts: c10d.AllgatherOptions
    ) -> Work | None:
        """Gather several tensors of all ranks: ``output_lists`` has a list for each rank."""
        if len(output_lists) != self._ranks or any(len(outputs) != len(input_list) for outputs in output_lists):
            sizes = [len(outputs) for outputs in output_lists]
            raise RuntimeError(
                f"all_gather_coalesced needs {self._ranks} lists, one for each rank, of {len(input_list)} tensors, "
                f"but got lists of the lengths {sizes}"
            )
        outputs = [list(of_all_ranks) for of_all_ranks in zip(*output_lists, strict=True)]
        return self._all_gather("all_gather_coalesced", outputs, input_list, opts)

    def _all_gather(
        self, name: str, lists: list[list[Tensor]], sources: list[Tensor], options: c10d.AllgatherOptions
    ) -> Work | None:
        """Gather each source into its list, which has a tensor for each rank."""
        outputs = [output for tensors in lists for output in tensors]
        self._check([*sources, *outputs])
        pairs = list(zip(sources, lists, strict=True))
        are_equal = [are_equal_parts(name, source, tensors, self._rank, self._ranks) for source, tensors in pairs]
        posts: list[Post] = []
        for (source, tensors), is_equal in zip(pairs, are_equal, strict=True):
            gather = self._all_gather_equal if is_equal else self._all_gather_each
            posts += gather(tensors, source, options)
        return self._issue(name, posts, outputs=outputs, inputs=sources)

    def _all_gather_equal(self, outputs: list[Tensor], source: Tensor, options: c10d.AllgatherOptions) -> list[Post]:
        views, view = [as_bytes(output) for output in outputs], as_bytes(source)
        return [lambda: self._gloo.allgather([views], [view], options)]

    def _all_gather_each(self, outputs: list[Tensor], source: Tensor, options: c10d.AllgatherOptions) -> list[Post]:
        """Gather tensors of different sizes by a broadcast from each rank: Gloo's gathers require equal sizes."""
        _copy_memory(outputs[self._rank], source)
        posts = []
        for root, output in enumerate(outputs):
            broadcast = c10d.BroadcastOptions()
            broadcast.rootRank, broadcast.timeout = root, options.timeout
            posts.append(self._broadcast(as_bytes(output), broadcast))
        return posts

    def all_gather_single(self, output: Tensor, source: Tensor, opts: c10d.AllgatherOptions) -> Work | None:
        """Gather the tensors of all ranks, concatenated in one tensor."""
        return self.all_gather_single_coalesced([output], [source], opts, "all_gather_into_tensor")

    _allgather_base = all_gather_single

    @_refusing
    def all_gather_single_coalesced(
        self,
        outputs: list[Tensor],
        inputs: list[Tensor],
        opts: c10d.AllgatherOptions,
        name: str = "all_gather_into_tensor_coalesced",
    ) -> Work | None:
        """Gather several tensors of all ranks, each concatenated in one tensor."""
        check_same_length(name, outputs, inputs)
        self._check([*outputs, *inputs])
        pairs = list(zip(outputs, inputs, strict=True))
        for output, source in pairs:
            check_multiple(name, output, source, self._ranks)
        posts = [self._all_gather_single(output, source, opts) for output, source in pairs]
        return self._issue(name, posts, outputs=outputs, inputs=inputs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _all_gather_single(self, output: Tensor, source: Tensor, options: c10d.AllgatherOptions) -> Post:
        into, view = as_bytes(output), as_bytes(source)
        return lambda: self._all_gather_flat(into, view, options)

    @_refusing
    def gather(self, output_tensors: list[list[Tensor]], input_tensors: list[Tensor], opts: c10d.GatherOptions) -> Work | None:
        """Gather the tensors of all ranks on the root."""
        source = only(input_tensors)
        self._check([source], root=opts.rootRank)
        outputs, view = self._list_of_root("gather", output_tensors, source, opts.rootRank), as_bytes(source)
        views = [[as_bytes(output) for output in outputs]] if outputs else []
        return self._issue("gather", [lambda: self._gloo.gather(views, [view], opts)], outputs=outputs, inputs=input_tensors)

    @_refusing
    def scatter(self, output_tensors: list[Tensor], input_tensors: list[list[Tensor]], opts: c10d.ScatterOptions) -> Work | None:
        """Scatter the root's list of tensors: one to each rank."""
        output = only(output_tensors)
        self._check([output], root=opts.rootRank)
        sources, into = self._list_of_root("scatter", input_tensors, output, opts.rootRank), as_bytes(output)
        views = [[as_bytes(source) for source in sources]] if sources else []
        return self._issue("scatter", [lambda: self._gloo.scatter([into], views, opts)], outputs=output_tensors, inputs=sources)

    @_refusing
    def reduce_scatter(
        self, output_tensors: list[Tensor], input_tensors: list[list[Tensor]], opts: c10d.ReduceScatterOptions
    ) -> Work | None:
        """Reduce the lists of tensors of all ranks, and scatter the results: one to each rank."""
        output, sources = only(output_tensors), only_list("reduce_scatter", input_tensors)
        self._check([output, *sources], opts.reduceOp)
        # Gloo's reduce_scatter requires equal parts of one tensor. Unequal parts are reduced one by one, with their ranks as roots.
        if are_equal_parts("reduce_scatter", output, sources, self._rank, self._ranks):
            flat = _scaled(torch.cat([_flat(source) for source in sources]), opts.reduceOp, in_place=True)
            post = self._reduce_scatter_single(output, flat, opts)
            return self._issue("reduce_scatter", [post], outputs=output_tensors, inputs=[flat])
        parts = [output if rank == self._rank else source.clone() for rank, source in enumerate(sources)]
        _copy_memory(output, sources[self._rank])
        parts = [_scaled(part, opts.reduceOp, in_place=True) for part in parts]
        posts = [self._reduce(part, opts, root) for root, part in enumerate(parts)]
        return self._issue("reduce_scatter", posts, outputs=output_tensors, inputs=parts)

    def reduce_scatter_single(self, output: Tensor, source: Tensor, opts: c10d.ReduceScatterOptions) -> Work | None:
        """Reduce the tensors of all ranks, and scatter the result in equal parts."""
        return self.reduce_scatter_single_coalesced([output], [source], opts, "reduce_scatter_tensor")

    _reduce_scatter_base = reduce_scatter_single

    @_refusing
    def reduce_scatter_single_coalesced(
        self,
        outputs: list[Tensor],
        inputs: list[Tensor],
        opts: c10d.ReduceScatterOptions,
        name: str = "reduce_scatter_tensor_coalesced",
    ) -> Work | None:
        """Reduce several tensors of all ranks, and scatter each result in equal parts."""
        check_same_length(name, outputs, inputs)
        self._check([*outputs, *inputs], opts.reduceOp)
        for output, source in zip(outputs, inputs, strict=True):
            check_multiple(name, source, output, self._ranks)
        scaled = [_scaled(source, opts.reduceOp, in_place=False) for source in inputs]
        posts = [self._reduce_scatter_single(output, source, opts) for output, source in zip(outputs, scaled, strict=True)]
        return self._issue(name, posts, outputs=outputs, inputs=scaled)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter_single(self, output: Tensor, source: Tensor, options: c10d.ReduceScatterOptions) -> Post:
        into, view = as_numbers(output), as_numbers(source)
        gloo_options = c10d.ReduceScatterOptions()
        gloo_options.reduceOp = gloo_reduction(options.reduceOp, output.dtype)
        gloo_options.timeout = options.timeout
        return lambda: self._reduce_scatter_flat(into, view, gloo_options)

    @_refusing
    def all_to_all_single(
        self, output: Tensor, source: Tensor, output_rows: list[int], input_rows: list[int], opts: c10d.AllToAllOptions
    ) -> Work | None:
        """Exchange rows of a tensor with all ranks; empty ``output_rows`` or ``input_rows`` mean equal parts."""
        self._check([output, source])
        if output.dtype != source.dtype:
            raise TypeError(f"all_to_all_single needs tensors of one dtype, but got {output.dtype} and {source.dtype}")
        if not (output.is_contiguous() and source.is_contiguous()):
            raise ValueError("Tensors must be contiguous: all_to_all_single divides them along their first dimension")
        received = byte_counts("all_to_all_single", output, output_rows, self._ranks)
        sent = byte_counts("all_to_all_single", source, input_rows, self._ranks)
        if received[self._rank] != sent[self._rank]:
            raise ValueError(
                f"all_to_all_single sends {sent[self._rank]} bytes to its own rank, but receives {received[self._rank]} of it"
            )
        into, view = as_bytes(output), as_bytes(source)
        post: Post = lambda: self._all_to_all_flat(into, view, received, sent, opts)  # noqa: E731
        return self._issue("all_to_all_single", [post], outputs=[output], inputs=[source])

    alltoall_base = all_to_all_single

    @_refusing
    def alltoall(self, output_tensors: list[Tensor], input_tensors: list[Tensor], opts: c10d.AllToAllOptions) -> Work | None:
        """Exchange lists of tensors with all ranks: one tensor for each rank."""
        if len(output_tensors) != self._ranks or len(input_tensors) != self._ranks:
            raise RuntimeError(f"all_to_all needs lists of {self._ranks} tensors, one for each rank")
        self._check([*output_tensors, *input_tensors])
        for output, source in zip(output_tensors, input_tensors, strict=True):
            check_pair("all_to_all", source, output)
        own, kept = input_tensors[self._rank], output_tensors[self._rank]
        if own.numel() != kept.numel():
            raise ValueError(f"all_to_all sends {own.numel()} elements to its own rank, but receives {kept.numel()} of it")
        _copy_memory(kept, own)
        # Gloo's alltoall requires equal sizes, and a rank does not know those of the others. So pairs of ranks exchange messages.
        others = [rank for rank in range(self._ranks) if rank != self._rank]
        posts = [self._send(as_bytes(input_tensors[rank]), rank, _ALL_TO_ALL_TAG) for rank in others]
        posts += [self._recv(as_bytes(output_tensors[rank]), rank, _ALL_TO_ALL_TAG) for rank in others]
        return self._issue("all_to_all", posts, outputs=output_tensors, inputs=input_tensors, is_observable=False)

    def barrier(self, opts: c10d.BarrierOptions) -> Work:
        """Synchronize all ranks, after the work that is on the current stream."""
        device = getattr(opts, "device", None)
        index = current_device() if device is None or device.type != NAME else device.index
        return self._start(RdcclWork("barrier", self._group, index, [lambda: self._gloo.barrier(opts)], is_barrier=True))

    # Messages

    @_refusing
    def send(self, tensors: list[Tensor], dst: int, tag: int) -> Work | None:
        """Send a tensor to another rank."""
        self._check([only(tensors)])
        check_message(dst, self._rank, self._ranks, tag)
        post = self._send(as_bytes(only(tensors)), dst, tag)
        return self._issue(f"send to {dst}", [post], inputs=tensors, is_observable=False)

    def _send(self, view: Tensor, rank: int, tag: int) -> Post:
        return lambda: self._gloo.send([view], rank, tag)

    @_refusing
    def recv(self, tensors: list[Tensor], src: int, tag: int) -> Work | None:
        """Receive a tensor from another rank."""
        self._check([only(tensors)])
        check_message(src, self._rank, self._ranks, tag)
        post = self._recv(as_bytes(only(tensors)), src, tag)
        return self._issue(f"recv from {src}", [post], outputs=tensors, is_observable=False)

    def _recv(self, view: Tensor, rank: int, tag: int) -> Post:
        return lambda: self._gloo.recv([view], rank, tag)

    @_refusing
    def recv_anysource(self, tensors: list[Tensor], tag: int) -> Work | None:
        """Receive a tensor from any rank."""
        self._check([only(tensors)])
        check_tag(tag)
        view = as_bytes(only(tensors))
        return self._issue("recv", [lambda: self._gloo.recv_anysource([view], tag)], outputs=tensors, is_observable=False)


def _leave_all(is_well: bool) -> None:
    """Release all groups at process exit, without waiting for operations after an error."""
    for backend in tuple(_in_use):
        if is_well:
            backend.shutdown()
        else:
            backend.abort()


@functools.cache
def _take_sparse_tensors() -> torch.library.Library:
    """Route collectives of sparse tensors to the backend, which rejects them. The CPU fallback would use a copy unsynchronized."""
    library = torch.library.Library("c10d", "IMPL")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"):
        namespace, _, operator = name.partition("::")
        if namespace == "c10d":
            kernel = functools.partial(getattr(torch.ops.c10d, operator).default.redispatch, keys)
            for key in ("SparsePrivateUse1", "SparseCsrPrivateUse1"):
                library.impl(operator, kernel, key)
    return library


def _either(gloo: Any, name: str, older: str) -> Callable[..., Work]:
    method: Callable[..., Work] = getattr(gloo, name, None) or getattr(gloo, older)
    return method


def _flat(tensor: Tensor) -> Tensor:
    """Return a dense tensor as one dimension, in memory order."""
    return tensor.as_strided((tensor.numel(),), (1,))


def _copy_memory(output: Tensor, source: Tensor) -> None:
    """Copy a dense tensor to another of as many elements in memory order; their shapes may differ."""
    if output.data_ptr() != source.data_ptr():
        _flat(output).copy_(_flat(source))


def _scaled(tensor: Tensor, op: Any, in_place: bool) -> Tensor:
    """Return the tensor times the factor of ``PREMUL_SUM``, computed on the current stream; unchanged for other reductions."""
    if not is_premultiplied(op):
        return tensor
    factor = op.factor.reshape(()) if isinstance(op.factor, Tensor) else op.factor
    return tensor.mul_(factor) if in_place else tensor * factor
