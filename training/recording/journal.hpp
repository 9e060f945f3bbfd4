// Journal: scalar results of each step, in memory that the device writes and the host reads without
// making the device wait.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/exact_sum.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

namespace detail {

// Consecutive rows of a journal. Rows are copied from the shared memory when they are read, at the
// latest before the device overwrites them.
class JournalPage {
 public:
  JournalPage(Device device, Tensor table, std::int64_t first_row, std::int64_t rows);
  // Waits for the device if it has not written the row yet.
  double at(std::int64_t row, std::int64_t column);

 private:
  void take_row();

  Device device_;
  Tensor table_;
  std::int64_t first_row_, rows_, taken_ = 0;
  std::vector<double> values_;
};

}  // namespace detail

// The sum of one column over consecutive steps, each value times a factor.
class JournalSum {
 public:
  JournalSum(std::shared_ptr<detail::JournalPage> page, std::int64_t row, std::int64_t column,
             double factor)
      : page_(std::move(page)), begin_(row), end_(row + 1), column_(column), factor_(factor) {}

  // Adds the values to `sum` one after another, and waits for values that have not arrived.
  void add_to(ExactSum& sum) const;
  // Appends `next` if its steps follow directly; returns whether they did.
  bool append(const JournalSum& next);

 private:
  std::shared_ptr<detail::JournalPage> page_;
  std::int64_t begin_, end_, column_;
  double factor_;
};

class Journal {
 public:
  Journal(Device device, std::int64_t columns);

  // A journal with more columns for later steps. The results of earlier steps can still be read.
  Journal widened(std::int64_t columns) const;

  std::int64_t columns() const { return columns_; }
  // The number of the next step, to be passed to the device as the `row` of post().
  std::int64_t next_row() const { return next_row_; }
  // Called when all work of that step is queued: its row is expected from now on. Returns the row's
  // number.
  std::int64_t open_row();
  // Device work: writes the scalars (of any type) into the first columns of a row, and notes the
  // end of the step on `clock`, if defined.
  void post(const Tensor& row, std::span<const Tensor> scalars, const Tensor& clock = {}) const;
  // The present or future value of a column of the row that was opened last.
  JournalSum cell(std::int64_t column, double factor) const {
    return {page_, next_row_ - 1, column, factor};
  }

 private:
  static constexpr std::int64_t page_rows = 512;

  Device device_;
  std::int64_t columns_;
  Tensor table_;  // a ring of two pages
  std::int64_t next_row_ = 0;
  std::shared_ptr<detail::JournalPage> page_, previous_page_;
};

}  // namespace tasuki
