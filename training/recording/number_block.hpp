// NumberBlock: the numbers that a step's device work reads and that differ from step to step. They
// are in one piece of device memory and are sent with one asynchronous copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/recorder.hpp"

namespace tasuki {

// Holds the number of the step's journal row, the rows from which sources make a batch
// (Batch::rows), and the late values that the step was found to use. Recorded work reads them at
// fixed places.
class NumberBlock {
 public:
  // `rows`: number of rows of the batch; 0 if no field has a source.
  NumberBlock(Device device, std::int64_t rows);

  // Before a step: writes the numbers that are known, and computes all late values that have a
  // place.
  void fill(std::int64_t journal_row, std::span<const std::int64_t> batch_rows);
  void send() const;

  Tensor journal_row() const { return view(row_); }
  // Undefined if there are none.
  Tensor batch_rows() const { return rows_.count > 0 ? view(rows_) : Tensor(); }
  // The place of late values on the device. `is_new`: they were computed after the last send(), so
  // they are not there yet.
  struct Found {
    Tensor values;
    bool is_new = false;
  };
  // Values are undefined if there is no room for them.
  Found place(const std::shared_ptr<detail::LateState>& values, std::int64_t count);
  // Sends the values that were placed last.
  void send_newest() const;

  // A larger block with the same numbers.
  std::shared_ptr<NumberBlock> grown(std::int64_t bytes) const;
  // Whether all owners of late values still exist.
  bool is_valid() const;

 private:
  struct Place {
    std::int64_t offset = 0;  // bytes
    std::int64_t count = 0;
    DType dtype = DType::int64;
    std::int64_t end() const { return offset + count * static_cast<std::int64_t>(size_of(dtype)); }
  };
  struct Late {
    std::shared_ptr<detail::LateState> state;
    Place place;
    std::int64_t room;  // values for which there is room at the place
  };
  Place next_place(std::int64_t count, DType dtype) const;
  void write(const Late& late) const;
  Tensor view(const Place& place) const;
  Tensor host_view(const Place& place) const;

  Place row_, rows_;
  std::vector<Late> late_;
  std::int64_t used_ = 0;  // bytes
  Tensor host_, on_device_;
};

}  // namespace tasuki
