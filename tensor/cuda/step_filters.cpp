#include "tensor/cuda/step_filters.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/check.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/handles.hpp"
#include "tensor/late_values.hpp"
#include "tensor/out_of_memory.hpp"

namespace tasuki {
namespace {

thread_local RecordedFilters* recorded_by_this_thread = nullptr;

// A filter that some step has used. Its copy stays where it is as long as w is there.
struct KnownFilter {
  std::weak_ptr<Storage> storage;
  const Storage* place;  // of `storage`, which may be gone
  Tensor copy;
  const void* from;
  DType type;
  kernels::FilterSize size;
  std::uint64_t used;       // the last step that used it
  std::uint64_t converted;  // in this step, if w has not changed since
};

class DeviceFilters {
 public:
  Tensor take(const Tensor& w, const kernels::FilterSize& size, const Shape& shape) {
    const std::uint64_t step = StepScope::number();
    const bool is_part = w.storage()->bytes() > w.bytes();
    if (step == 0 || !is_part) return {};
    const std::lock_guard lock(mutex_);
    const CudaContext& context = CudaContext::of(w.device());
    if (step != step_) begin_step(context, step);
    const auto found = std::ranges::find_if(known_, [&](const KnownFilter& each) {
      return each.from == w.raw() && each.type == w.dtype() && each.size == size &&
             each.storage.lock() == w.storage();
    });
    if (found != known_.end()) {
      found->used = step;
      const bool is_ready = found->converted == step && stream_ == context.stream();
      return is_ready ? found->copy : Tensor();
    }
    // Memory that is allocated for a recording belongs to the recording.
    if (!is_recorded(context.stream())) remember(w, size, shape, step);
    return {};
  }

  void change(const Tensor& written) {
    const std::lock_guard lock(mutex_);
    for (KnownFilter& each : known_)
      if (each.place == written.storage().get()) each.converted = 0;
  }
  void change_all() {
    const std::lock_guard lock(mutex_);
    forget_dead();
    for (KnownFilter& each : known_) each.converted = 0;
  }

 private:
  void remember(const Tensor& w, const kernels::FilterSize& size, const Shape& shape,
                std::uint64_t step) {
    try {
      known_.push_back({w.storage(), w.storage().get(),
                        cuda_empty(shape, w.dtype(), w.device(), channels_last()), w.raw(),
                        w.dtype(), size, step, 0});
    } catch (const OutOfMemory&) {
      // The caller converts this filter alone.
    }
  }
  void forget_dead() {
    std::erase_if(known_, [](const KnownFilter& each) { return each.storage.expired(); });
  }

  void begin_step(const CudaContext& context, std::uint64_t step) {
    forget_dead();
    for (const DType type : {DType::float16, DType::bfloat16}) {
      std::vector<kernels::FilterCopy> copies;
      for (KnownFilter& each : known_) {
        if (each.type != type || each.used != step_) continue;
        copies.push_back({each.copy.raw(), each.from, each.size});
        each.converted = step;
        if (recorded_by_this_thread == nullptr) continue;
        recorded_by_this_thread->keep(each.storage.lock());
        recorded_by_this_thread->keep(each.copy.storage());
      }
      if (copies.empty()) continue;
      kernels::convert_filters(context.launch(), type, type, copies);
      check_launch("convert_filters");
    }
    step_ = step;
    stream_ = context.stream();
  }

  std::mutex mutex_;
  std::vector<KnownFilter> known_;
  std::uint64_t step_ = 0;  // the last one in which filters were asked for
  cudaStream_t stream_ = nullptr;
};

DeviceFilters& filters_of(Device device) {
  constexpr std::size_t max_devices = 64;
  static std::array<DeviceFilters, max_devices> all;
  return all.at(static_cast<std::size_t>(device.index));
}

}  // namespace

Tensor filter_of_step(const Tensor& w, const kernels::FilterSize& size, const Shape& shape) {
  return filters_of(w.device()).take(w, size, shape);
}

void filters_change(const Tensor& written) {
  filters_of(written.device()).change(written);
}

void all_filters_change(Device device) {
  filters_of(device).change_all();
}

RecordedFilters::RecordedFilters(Device device) : device_(device) {
  recorded_by_this_thread = this;
}

RecordedFilters::~RecordedFilters() {
  recorded_by_this_thread = nullptr;
  all_filters_change(device_);
}

}  // namespace tasuki
