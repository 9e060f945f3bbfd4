#include "training/recording/journal.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/polite_wait.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace detail {
namespace {

// A row begins with its number plus 1, which the device writes last.
double* row_of(const Tensor& table, std::int64_t row) {
  return table.data<double>() + row % table.shape()[0] * table.shape()[1];
}

bool is_posted(const Tensor& table, std::int64_t row) {
  return std::atomic_ref(*row_of(table, row)).load(std::memory_order_acquire) ==
         static_cast<double>(row + 1);
}

}  // namespace

JournalPage::JournalPage(Device device, Tensor table, std::int64_t first_row, std::int64_t rows)
    : device_(device), table_(std::move(table)), first_row_(first_row), rows_(rows) {}

double JournalPage::at(std::int64_t row, std::int64_t column) {
  while (first_row_ + taken_ <= row) take_row();
  const std::int64_t columns = table_.shape()[1] - 1;
  return values_[static_cast<std::size_t>((row - first_row_) * columns + column)];
}

void JournalPage::take_row() {
  const WaitScope waiting_for_gpu(Waiting::gpu);
  const std::int64_t row = first_row_ + taken_;
  for (PoliteWait waiting; !is_posted(table_, row); waiting.pause()) {
    // Also throws what the device failed with.
    if (backend(device_).is_idle(device_) && !is_posted(table_, row))
      fail(ErrorKind::internal, "{} has finished its work without reporting step {}",
           device_.text(), row);
  }
  const double* const values = row_of(table_, row);
  values_.reserve(static_cast<std::size_t>(rows_ * (table_.shape()[1] - 1)));
  values_.insert(values_.end(), values + 1, values + table_.shape()[1]);
  ++taken_;
}

}  // namespace detail

void JournalSum::add_to(ExactSum& sum) const {
  for (std::int64_t row = begin_; row < end_; ++row) sum.add(page_->at(row, column_) * factor_);
}

bool JournalSum::append(const JournalSum& next) {
  if (next.page_ != page_ || next.begin_ != end_ || next.column_ != column_ ||
      next.factor_ != factor_)
    return false;
  end_ = next.end_;
  return true;
}

Journal::Journal(Device device, std::int64_t columns) : device_(device), columns_(columns) {
  const Shape shape{2 * page_rows, columns + 1};
  const auto bytes = static_cast<std::size_t>(shape.count()) * sizeof(double);
  table_ = {backend(device).allocate_mailbox(bytes, device), 0, shape, DType::float64};
  table_.fill(0);
}

Journal Journal::widened(std::int64_t columns) const {
  Journal wider(device_, columns);
  wider.next_row_ = next_row_;
  return wider;
}

std::int64_t Journal::open_row() {
  const std::int64_t place = next_row_ % page_rows;
  if (place == 0 || page_ == nullptr) {
    previous_page_ = std::move(page_);
    page_ = std::make_shared<detail::JournalPage>(device_, table_, next_row_, page_rows - place);
  }
  const std::int64_t opened = next_row_++;
  // The work of the next step, which is queued before its row is opened, writes over the first row
  // of the previous page: rows of it that are still needed are copied now. The device finished it
  // long ago.
  if (place == page_rows - 1 && previous_page_.use_count() > 1)
    previous_page_->at(opened - page_rows, 0);
  return opened;
}

void Journal::post(const Tensor& row, std::span<const Tensor> scalars, const Tensor& clock) const {
  TASUKI_CHECK(std::ssize(scalars) <= columns_,
               "a step reports {} numbers, a journal has room for {}", scalars.size(), columns_);
  backend(device_).post(table_, row, scalars, clock);
}

}  // namespace tasuki
