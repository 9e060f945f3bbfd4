#include "communicator/cuda/cuda_channel.hpp"

#include <utility>

#include "communicator/cuda/nccl_collectives.hpp"
#include "core/activity.hpp"
#include "core/polite_wait.hpp"
#include "tensor/cuda/postponed_release.hpp"

namespace tasuki {
namespace {

// Exchanges have priority over computation on the device, because other ranks wait for them.
CudaStream make_urgent_stream() {
  int least = 0, greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
             "cudaDeviceGetStreamPriorityRange");
  cudaStream_t made = nullptr;
  check_cuda(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, greatest),
             "cudaStreamCreateWithPriority");
  return CudaStream(made);
}

}  // namespace

class CudaChannel::EventPool {
 public:
  CudaEvent take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return make_event();
    CudaEvent event = std::move(free_.back());
    free_.pop_back();
    return event;
  }
  void give_back(CudaEvent event) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(event));
  }

 private:
  std::mutex mutex_;
  std::vector<CudaEvent> free_;
};

class CudaChannel::Event : public GpuEvent {
 public:
  Event(CudaEvent event, std::shared_ptr<EventPool> pool)
      : event_(std::move(event)), pool_(std::move(pool)) {}
  ~Event() override { pool_->give_back(std::move(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  static cudaEvent_t of(const GpuEvent& event) {
    return dynamic_cast<const Event&>(event).event_.get();
  }

 private:
  CudaEvent event_;
  std::shared_ptr<EventPool> pool_;
};

class CudaChannel::Group : public NcclCollectives {
 public:
  Group(Comms& comms, const Bytes& id, int rank, int ranks, Device device, const Launch& launch,
        std::shared_ptr<NcclMemory> memory)
      : NcclCollectives(id, rank, ranks, device, launch, std::move(memory)), comms_(comms) {
    comms_.push_back(&comm());
  }
  ~Group() override { std::erase(comms_, &comm()); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

 private:
  Comms& comms_;
};

CudaChannel::CudaChannel(Device device) : device_(device), events_(std::make_shared<EventPool>()) {
  CudaContext::of(device_);  // makes it the current one
  stream_ = make_urgent_stream();
}

std::unique_ptr<GpuGroup> CudaChannel::connect(const Bytes& id, int rank, int ranks) {
  Launch launch = CudaContext::of(device_).launch();
  launch.stream = stream_.get();
  return std::make_unique<Group>(comms_, id, rank, ranks, device_, launch, memory_);
}

std::shared_ptr<Storage> CudaChannel::allocate(std::size_t bytes) {
  return memory_->allocate(bytes, device_);
}

std::shared_ptr<Storage> CudaChannel::allocate_pinned(std::size_t bytes) {
  CudaContext::of(device_);
  void* data = nullptr;
  check_cuda(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), "cudaHostAlloc");
  return std::make_shared<Storage>(
      data, bytes, Device::cpu(),
      [index = device_.index](void* begin, std::size_t /*size*/) { free_pinned(begin, index); });
}

void CudaChannel::copy(void* destination, const void* source, std::size_t bytes) {
  CudaContext::of(device_);
  check_cuda(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, stream_.get()),
             "cudaMemcpyAsync");
}

GpuEventPtr CudaChannel::record(cudaStream_t stream) {
  CudaEvent event = events_->take();
  check_cuda(cudaEventRecord(event.get(), stream), "cudaEventRecord");
  return std::make_shared<Event>(std::move(event), events_);
}

GpuEventPtr CudaChannel::event() {
  CudaContext::of(device_);
  return record(stream_.get());
}

GpuEventPtr CudaChannel::backend_event() {
  return record(CudaContext::of(device_).stream());
}

void CudaChannel::follow(const GpuEvent& event) {
  check_cuda(cudaStreamWaitEvent(stream_.get(), Event::of(event)), "cudaStreamWaitEvent");
}

void CudaChannel::let_backend_follow(const GpuEvent& event) {
  check_cuda(cudaStreamWaitEvent(CudaContext::of(device_).stream(), Event::of(event)),
             "cudaStreamWaitEvent");
}

void CudaChannel::wait(const GpuEvent& event) {
  CudaContext::of(device_);
  const WaitScope waiting_for_gpu(Waiting::gpu);
  PoliteWait waiting;
  for (;;) {
    const cudaError_t state = cudaEventQuery(Event::of(event));
    if (state != cudaErrorNotReady) return check_cuda(state, "cudaEventQuery");
    cudaGetLastError();  // else the next launch would report it
    for (NcclComm* const comm : comms_) comm->check_async();
    waiting.pause();
  }
}

}  // namespace tasuki
