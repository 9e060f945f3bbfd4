// CudaChannel: a GpuChannel on a CUDA stream.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "communicator/cuda/nccl_memory.hpp"
#include "communicator/gpu/gpu_transport.hpp"
#include "tensor/cuda/context.hpp"

namespace tasuki {

class CudaChannel : public GpuChannel {
 public:
  explicit CudaChannel(Device device);

  std::unique_ptr<GpuGroup> connect(const Bytes& id, int rank, int ranks) override;
  std::shared_ptr<Storage> allocate(std::size_t bytes) override;
  std::shared_ptr<Storage> allocate_pinned(std::size_t bytes) override;
  void copy(void* destination, const void* source, std::size_t bytes) override;
  GpuEventPtr event() override;
  GpuEventPtr backend_event() override;
  void follow(const GpuEvent& event) override;
  void let_backend_follow(const GpuEvent& event) override;
  void wait(const GpuEvent& event) override;

 private:
  class Event;      // returns its CUDA event to the pool
  class EventPool;  // because creating an event costs a microsecond or two
  class Group;      // removes its communicator from `comms_`
  using Comms = std::vector<NcclComm*>;

  GpuEventPtr record(cudaStream_t stream);

  Device device_;
  CudaStream stream_;
  std::shared_ptr<EventPool> events_;
  std::shared_ptr<NcclMemory> memory_ = std::make_shared<NcclMemory>();
  Comms comms_;  // of all existing groups
};

}  // namespace tasuki
