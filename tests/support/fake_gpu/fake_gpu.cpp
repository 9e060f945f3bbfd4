#include "fake_gpu.hpp"

#include <deque>
#include <functional>
#include <mutex>
#include <utility>

#include "communicator/gpu/gpu_transport.hpp"
#include "fake_group.hpp"
#include "tensor/backend.hpp"
#include "tensor/cpu/cpu_backend.hpp"

namespace tasuki::testing {
namespace {

std::string next_id_failure;
int groups_connected = 0;

// Host memory that claims to be a GPU's, full of numbers that must not be read.
std::shared_ptr<Storage> host_memory(std::size_t bytes, Device device) {
  auto memory = allocate_host(bytes);
  std::fill_n(static_cast<unsigned char*>(memory->data()), bytes, 0xff);
  void* const data = memory->data();
  return std::make_shared<Storage>(data, bytes, device, [memory](void*, std::size_t) {});
}

class FakeBackend : public CpuBackend {
 public:
  std::string describe() const override { return "fake GPUs"; }
  std::shared_ptr<Storage> allocate(std::size_t bytes, Device device) override {
    return host_memory(bytes, device);
  }
};

// Work in the order in which it was asked for, done when something waits, in any thread.
class Queue {
 public:
  void add(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
    ++asked_;
  }
  std::int64_t asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  void run_up_to(std::int64_t number) {
    const std::lock_guard lock(mutex_);
    for (; done_ < number; ++done_) {
      const auto work = std::move(waiting_.front());
      waiting_.pop_front();
      work();
    }
  }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> waiting_;
  std::int64_t asked_ = 0, done_ = 0;
};

// The backend computes at once, so that all of its moments are over.
struct FakeEvent : GpuEvent {
  explicit FakeEvent(std::int64_t number) : number(number) {}
  std::int64_t number;
};

class FakeChannel : public GpuChannel {
 public:
  explicit FakeChannel(Device device) : device_(device) {}
  ~FakeChannel() override { queue_.run_up_to(queue_.asked()); }

  std::unique_ptr<GpuGroup> connect(const Bytes& id, int rank, int ranks) override {
    ++groups_connected;
    return connect_fake_group(id, rank, ranks,
                              [this](std::function<void()> work) { queue_.add(std::move(work)); });
  }
  std::shared_ptr<Storage> allocate(std::size_t bytes) override {
    return host_memory(bytes, device_);
  }
  std::shared_ptr<Storage> allocate_pinned(std::size_t bytes) override {
    return host_memory(bytes, Device::cpu());
  }
  void copy(void* destination, const void* source, std::size_t bytes) override {
    queue_.add([=] {
      std::copy_n(static_cast<const std::byte*>(source), bytes,
                  static_cast<std::byte*>(destination));
    });
  }
  GpuEventPtr event() override { return std::make_shared<FakeEvent>(queue_.asked()); }
  GpuEventPtr backend_event() override { return std::make_shared<FakeEvent>(0); }
  void follow(const GpuEvent& /*event*/) override {}
  void let_backend_follow(const GpuEvent& event) override { wait(event); }
  void wait(const GpuEvent& event) override {
    queue_.run_up_to(dynamic_cast<const FakeEvent&>(event).number);
  }

 private:
  Device device_;
  Queue queue_;
};

class FakeTransport : public GpuTransport {
 public:
  std::string describe() const override { return "fake NCCL"; }
  Bytes new_id() override {
    if (!next_id_failure.empty()) fail(ErrorKind::io, "{}", std::exchange(next_id_failure, ""));
    return new_fake_id();
  }
  std::unique_ptr<GpuChannel> open(Device device) override {
    return std::make_unique<FakeChannel>(device);
  }
};

}  // namespace

void register_fake_gpus() {
  register_backend(DeviceKind::cuda, std::make_unique<FakeBackend>());
  register_gpu_transport(std::make_unique<FakeTransport>());
}

int fake_groups_connected() {
  return groups_connected;
}

void fail_next_id(const std::string& message) {
  next_id_failure = message;
}

}  // namespace tasuki::testing
