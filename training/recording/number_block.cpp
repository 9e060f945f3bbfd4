#include "training/recording/number_block.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t alignment = 16;  // bytes
// Room for late values that are found later: seeds of some random functions, factors of an update.
constexpr std::int64_t spare_bytes = 2048;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

NumberBlock::NumberBlock(Device device, std::int64_t rows) {
  row_ = next_place(1, DType::int64);
  used_ = row_.end();
  rows_ = next_place(rows, DType::int64);
  used_ = rows_.end();
  const Shape bytes{aligned(used_) + spare_bytes};
  host_ = Tensor::zeros(bytes, DType::uint8);
  on_device_ = Tensor::empty(bytes, DType::uint8, device);
}

NumberBlock::Place NumberBlock::next_place(std::int64_t count, DType dtype) const {
  return {aligned(used_), count, dtype};
}

Tensor NumberBlock::view(const Place& place) const {
  return {on_device_.storage(), static_cast<std::size_t>(place.offset), {place.count}, place.dtype};
}

Tensor NumberBlock::host_view(const Place& place) const {
  return {host_.storage(), static_cast<std::size_t>(place.offset), {place.count}, place.dtype};
}

void NumberBlock::write(const Late& late) const {
  host_view(late.place).copy_from(late.state->draw(late.place.count));
}

void NumberBlock::fill(std::int64_t journal_row, std::span<const std::int64_t> batch_rows) {
  TASUKI_CHECK(std::ssize(batch_rows) == rows_.count, "{} numbers of a batch where there were {}",
               batch_rows.size(), rows_.count);
  host_view(row_).span<std::int64_t>()[0] = journal_row;
  std::ranges::copy(batch_rows, host_view(rows_).span<std::int64_t>().begin());
  for (const Late& late : late_)
    if (late.state->is_alive()) write(late);
}

void NumberBlock::send() const {
  on_device_.slice(0, used_).copy_from(host_.slice(0, used_));
}

void NumberBlock::send_newest() const {
  const Place& place = late_.back().place;
  view(place).copy_from(host_view(place));
}

NumberBlock::Found NumberBlock::place(const std::shared_ptr<detail::LateState>& values,
                                      std::int64_t count) {
  const auto known = std::ranges::find(late_, values, &Late::state);
  if (known != late_.end() && known->place.count == count) {
    values->check();
    return {view(known->place)};
  }
  Late found{values, next_place(count, values->dtype()), count};
  if (known != late_.end() && count <= known->room) {
    found.place.offset = known->place.offset;
    found.room = known->room;
  }
  if (found.place.end() > host_.count()) return {};
  if (known != late_.end()) late_.erase(known);  // of another count than in the steps before
  late_.push_back(found);
  write(found);
  used_ = std::max(used_, found.place.end());
  return {view(found.place), true};
}

std::shared_ptr<NumberBlock> NumberBlock::grown(std::int64_t bytes) const {
  auto larger = std::make_shared<NumberBlock>(*this);
  const Shape size{host_.count() + aligned(bytes) + spare_bytes};
  larger->host_ = Tensor::zeros(size, DType::uint8);
  larger->host_.slice(0, used_).copy_from(host_.slice(0, used_));
  larger->on_device_ = Tensor::empty(size, DType::uint8, on_device_.device());
  return larger;
}

bool NumberBlock::is_valid() const {
  return std::ranges::all_of(late_, [](const Late& late) { return late.state->is_alive(); });
}

}  // namespace tasuki
