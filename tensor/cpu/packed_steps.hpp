// Padded sequences packed step by step: examples by falling length, so that those that have not
// ended are the first rows of each step and padding is neither stored nor computed.
#pragma once

#include <vector>

#include "tensor/tensor.hpp"

namespace tasuki {

class PackedSteps {
 public:
  // Lengths: int64, from 0 to `steps`; others are an error. Reversed: step t is an example's
  // element length - 1 - t.
  PackedSteps(const Tensor& lengths, std::int64_t steps, bool is_reversed);

  std::int64_t items() const { return static_cast<std::int64_t>(order_.size()); }
  std::int64_t steps() const {
    return static_cast<std::int64_t>(active_.size());
  }                                               // of the longest
  std::int64_t rows() const { return rows_; }     // of all steps
  std::int64_t active(std::int64_t step) const {  // rows of a step
    return step < steps() ? active_[static_cast<std::size_t>(step)] : 0;
  }
  std::int64_t first_row(std::int64_t step) const { return first_[static_cast<std::size_t>(step)]; }
  // Of row j in every step: the example, its length, and its element in this step.
  std::int64_t example(std::int64_t j) const { return order_[static_cast<std::size_t>(j)]; }
  std::int64_t length(std::int64_t j) const { return lengths_[static_cast<std::size_t>(j)]; }
  std::int64_t element(std::int64_t j, std::int64_t step) const {
    return is_reversed_ ? length(j) - 1 - step : step;
  }

  // x (N x T x D, of any type) as rows() x D, and back (N x T x D with zeros for padding).
  Tensor pack(const Tensor& x) const;
  Tensor unpack(const Tensor& rows, std::int64_t steps) const;

 private:
  // copy(row, example, element) for every row, on several threads.
  template <class Copy>
  void for_rows(std::int64_t columns, const Copy& copy) const;

  bool is_reversed_;
  std::int64_t rows_ = 0;
  std::vector<std::int64_t> order_, lengths_;  // by row
  std::vector<std::int64_t> active_, first_;   // by step
};

}  // namespace tasuki
