// Filters of 16 bits in channels-last order, all of a step converted by one launch.
//
// An optimizer keeps weights rounded to 16 bits in the order of its arrays, and cuDNN wants filters
// of images with channels last in theirs. The first convolution of a step (StepScope) converts the
// filters of all convolutions that the step before had. A recorded step does so in each replay, so
// nothing that writes weights between steps need know of the copies.
#pragma once

#include <memory>
#include <vector>

#include "tensor/cuda/filter_kernels.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// The filter w in channels-last order, `shape` with added inputs, valid until w changes or the next
// step begins. Undefined if the caller has to convert it: outside of steps, for arrays of their own
// (which may be made in each step) and after weights have changed in the step.
Tensor filter_of_step(const Tensor& w, const kernels::FilterSize& size, const Shape& shape);

// Filters in this array change, or, with an update, any filters: other ranks' slices follow.
void filters_change(const Tensor& written);
void all_filters_change(Device device);

// While it lives, the calling thread records work on the device. The recording converts filters
// that it need not use itself, so it has to keep them, and none is converted before it runs.
class RecordedFilters {
 public:
  explicit RecordedFilters(Device device);
  ~RecordedFilters();
  RecordedFilters(const RecordedFilters&) = delete;
  RecordedFilters& operator=(const RecordedFilters&) = delete;

  void keep(std::shared_ptr<Storage> memory) { kept_.push_back(std::move(memory)); }
  // For as long as the recording may run.
  std::vector<std::shared_ptr<Storage>> take() { return std::move(kept_); }

 private:
  Device device_;
  std::vector<std::shared_ptr<Storage>> kept_;
};

}  // namespace tasuki
