// NcclCollectives: a GpuGroup that calls NCCL for its operations.
#pragma once

#include <memory>

#include "communicator/cuda/nccl_comm.hpp"
#include "communicator/cuda/nccl_memory.hpp"
#include "communicator/gpu/gpu_transport.hpp"
#include "tensor/cuda/launch.hpp"

namespace tasuki {

class NcclCollectives : public GpuGroup {
 public:
  // Operations are queued on launch.stream.
  NcclCollectives(const Bytes& id, int rank, int ranks, Device device, const Launch& launch,
                  std::shared_ptr<NcclMemory> memory);
  ~NcclCollectives() override;
  NcclCollectives(const NcclCollectives&) = delete;
  NcclCollectives& operator=(const NcclCollectives&) = delete;

  void allreduce(const Tensor& values, ReduceOp op, const WireFormat& wire) override;
  void reduce(const Tensor& values, ReduceOp op, int root) override;
  void broadcast(const Tensor& values, int root) override;
  void give_parts(const Tensor& values, std::span<const Range> parts) override;
  void reduce_scatter(const Tensor& values, ReduceOp op) override;
  void allgather(const Tensor& values) override;

  NcclComm& comm() { return comm_; }

 private:
  void allreduce_as_they_are(void* values, std::int64_t count, DType type, ReduceOp op);
  // Memory for `bytes` in the wire's type; grows, and is reused.
  void* wire_buffer(std::size_t bytes);

  int rank_, ranks_;
  Device device_;
  Launch launch_;
  std::shared_ptr<NcclMemory> memory_;
  std::shared_ptr<Storage> wire_;
  NcclComm comm_;
};

}  // namespace tasuki
