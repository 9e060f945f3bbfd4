#include "communicator/cuda/nccl_collectives.hpp"

#include <vector>

#include "communicator/cuda/wire_kernels.hpp"
#include "tensor/cuda/check.hpp"
#include "tensor/cuda/context.hpp"

namespace tasuki {
namespace {

ncclDataType_t nccl_type(DType type) {
  switch (type) {
    case DType::float32:
      return ncclFloat32;
    case DType::float64:
      return ncclFloat64;
    case DType::float16:
      return ncclFloat16;
    case DType::bfloat16:
      return ncclBfloat16;
    case DType::int32:
      return ncclInt32;
    case DType::int64:
      return ncclInt64;
    case DType::uint8:
      return ncclUint8;
  }
  fail(ErrorKind::internal, "unknown element type {}", static_cast<int>(type));
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::prod:
      return ncclProd;
  }
  fail(ErrorKind::internal, "unknown reduction {}", static_cast<int>(op));
}

// Operations that NCCL does in one launch. Nothing in between may throw.
class Together {
 public:
  Together() : first_error_(ncclGroupStart()) {}
  void add(ncclResult_t result) {
    const bool is_error = result != ncclSuccess && result != ncclInProgress;
    if (is_error && first_error_ == ncclSuccess) first_error_ = result;
  }
  // The first error, or what the whole returns.
  ncclResult_t end() const {
    const ncclResult_t result = ncclGroupEnd();
    return first_error_ != ncclSuccess ? first_error_ : result;
  }

 private:
  ncclResult_t first_error_;
};

// The equal parts of reduce_scatter and allgather, and the remainder, which belongs to the last
// rank.
struct Parts {
  Parts(const Tensor& values, int rank, int ranks)
      : begin(static_cast<std::byte*>(values.raw())), last(ranks - 1) {
    const auto element = static_cast<std::int64_t>(size_of(values.dtype()));
    count = gpu_part(values.count(), values.dtype(), 0, ranks).size();
    if (ranks == 1) count = values.count();
    own = begin + rank * count * element;
    rest = begin + ranks * count * element;
    rest_count = values.count() - ranks * count;
  }
  std::byte* begin;
  std::byte* own = nullptr;
  std::byte* rest = nullptr;
  std::int64_t count = 0, rest_count = 0;
  int last;
};

}  // namespace

NcclCollectives::NcclCollectives(const Bytes& id, int rank, int ranks, Device device,
                                 const Launch& launch, std::shared_ptr<NcclMemory> memory)
    : rank_(rank),
      ranks_(ranks),
      device_(device),
      launch_(launch),
      memory_(std::move(memory)),
      comm_(id, rank, ranks, device) {
  memory_->add(comm_);
}

NcclCollectives::~NcclCollectives() {
  memory_->remove(comm_);
}

void NcclCollectives::allreduce(const Tensor& values, ReduceOp op, const WireFormat& wire) {
  CudaContext::of(device_);  // makes it the current one
  const bool is_converted =
      values.dtype() == DType::float32 && wire.dtype != DType::float32 && values.count() > 0;
  if (!is_converted) return allreduce_as_they_are(values.raw(), values.count(), values.dtype(), op);
  auto* const own = static_cast<float*>(values.raw());
  void* const buffer = wire_buffer(static_cast<std::size_t>(values.count()) * size_of(wire.dtype));
  kernels::narrow(launch_, buffer, wire.dtype, own, values.count(), wire.factor);
  check_launch("narrow");
  allreduce_as_they_are(buffer, values.count(), wire.dtype, op);
  kernels::widen(launch_, own, buffer, wire.dtype, values.count(), 1 / wire.factor);
  check_launch("widen");
}

void NcclCollectives::allreduce_as_they_are(void* values, std::int64_t count, DType type,
                                            ReduceOp op) {
  memory_->use(comm_, values);
  comm_.call("ncclAllReduce", [&](ncclComm_t comm) {
    return ncclAllReduce(values, values, static_cast<std::size_t>(count), nccl_type(type),
                         nccl_op(op), comm, launch_.stream);
  });
}

void* NcclCollectives::wire_buffer(std::size_t bytes) {
  if (!wire_ || wire_->bytes() < bytes) {
    // If it came from the backend's pool, the next work of the device may use it at once.
    if (wire_) order_streams(launch_.stream, CudaContext::of(device_).stream());
    wire_ = memory_->allocate(bytes, device_);
  }
  return wire_->data();
}

void NcclCollectives::reduce(const Tensor& values, ReduceOp op, int root) {
  CudaContext::of(device_);
  memory_->use(comm_, values.raw());
  comm_.call("ncclReduce", [&](ncclComm_t comm) {
    return ncclReduce(values.raw(), values.raw(), static_cast<std::size_t>(values.count()),
                      nccl_type(values.dtype()), nccl_op(op), root, comm, launch_.stream);
  });
}

void NcclCollectives::broadcast(const Tensor& values, int root) {
  CudaContext::of(device_);
  memory_->use(comm_, values.raw());
  comm_.call("ncclBroadcast", [&](ncclComm_t comm) {
    return ncclBroadcast(values.raw(), values.raw(), static_cast<std::size_t>(values.count()),
                         nccl_type(values.dtype()), root, comm, launch_.stream);
  });
}

void NcclCollectives::give_parts(const Tensor& values, std::span<const Range> parts) {
  CudaContext::of(device_);
  memory_->use(comm_, values.raw());
  const ncclDataType_t type = nccl_type(values.dtype());
  std::vector<Tensor> own;  // undefined: a rank that gives nothing
  for (const Range& part : parts)
    own.push_back(part.size() == 0 ? Tensor() : values.slice(part.begin, part.end));
  comm_.call("ncclBroadcast", [&](ncclComm_t comm) {
    Together all;
    for (std::size_t root = 0; root < own.size(); ++root)
      if (const Tensor& part = own[root]; part)
        all.add(ncclBroadcast(part.raw(), part.raw(), static_cast<std::size_t>(part.count()), type,
                              static_cast<int>(root), comm, launch_.stream));
    return all.end();
  });
}

void NcclCollectives::reduce_scatter(const Tensor& values, ReduceOp op) {
  CudaContext::of(device_);
  memory_->use(comm_, values.raw());
  const Parts parts(values, rank_, ranks_);
  const ncclDataType_t type = nccl_type(values.dtype());
  const ncclRedOp_t reduction = nccl_op(op);
  comm_.call("ncclReduceScatter", [&](ncclComm_t comm) {
    Together both;
    both.add(ncclReduceScatter(parts.begin, parts.own, static_cast<std::size_t>(parts.count), type,
                               reduction, comm, launch_.stream));
    both.add(ncclReduce(parts.rest, parts.rest, static_cast<std::size_t>(parts.rest_count), type,
                        reduction, parts.last, comm, launch_.stream));
    return both.end();
  });
}

void NcclCollectives::allgather(const Tensor& values) {
  CudaContext::of(device_);
  memory_->use(comm_, values.raw());
  const Parts parts(values, rank_, ranks_);
  const ncclDataType_t type = nccl_type(values.dtype());
  comm_.call("ncclAllGather", [&](ncclComm_t comm) {
    Together both;
    both.add(ncclAllGather(parts.own, parts.begin, static_cast<std::size_t>(parts.count), type,
                           comm, launch_.stream));
    both.add(ncclBroadcast(parts.rest, parts.rest, static_cast<std::size_t>(parts.rest_count), type,
                           parts.last, comm, launch_.stream));
    return both.end();
  });
}

}  // namespace tasuki
