#include "optimizer/gradient_slots.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "core/error.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

std::array<std::int64_t, GradientSlots::slots> slot_sizes(const std::vector<Range>& ranges) {
  std::array<std::int64_t, GradientSlots::slots> sizes{};
  for (std::size_t i = 0; i < ranges.size(); ++i)
    sizes[i % sizes.size()] = std::max(sizes[i % sizes.size()], ranges[i].size());
  return sizes;
}

}  // namespace

std::int64_t GradientSlots::elements_for(const std::vector<Range>& ranges) {
  const auto sizes = slot_sizes(ranges);
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

GradientSlots::GradientSlots(const ParameterArena& arena, std::vector<Range> ranges,
                             Communicator& communicator,
                             std::function<void(std::size_t range)> wait)
    : arena_(arena),
      ranges_(std::move(ranges)),
      wait_(std::move(wait)),
      entries_(ranges_.size()),
      states_(ranges_.size()) {
  bytes_ = static_cast<std::size_t>(elements_for(ranges_)) * sizeof(float);
  const Tensor all(communicator.allocate(bytes_), 0, {elements_for(ranges_)}, DType::float32);
  std::int64_t begin = 0;
  for (const std::int64_t size : slot_sizes(ranges_)) {
    memory_.push_back(all.slice(begin, begin + size));
    begin += size;
  }
  std::size_t range = 0;
  for (const ParameterArena::Entry& entry : arena.entries()) {
    while (ranges_[range].end <= entry.offset) ++range;
    TASUKI_CHECK(entry.offset + entry.count <= ranges_[range].end,
                 "parameter {} lies in several ranges of gradients", entry.path);
    entries_[range].push_back(entry);
    range_of_.emplace(entry.parameter, range);
  }
}

Tensor GradientSlots::in_slot(std::size_t range) const {
  return memory_[range % slots].slice(0, ranges_[range].size());
}

void GradientSlots::point_at(std::size_t range, const Tensor& memory) const {
  for (const ParameterArena::Entry& entry : entries_[range]) {
    const std::int64_t begin = entry.offset - ranges_[range].begin;
    entry.parameter->move_grad(
        memory.slice(begin, begin + entry.count).reshape(entry.parameter->shape()));
  }
}

// Sums of padding are part of the arena's array, where padding is zero.
void GradientSlots::clear_padding(std::size_t range, const Tensor& memory) const {
  std::int64_t end = 0;
  for (const ParameterArena::Entry& entry : entries_[range]) {
    const std::int64_t begin = entry.offset - ranges_[range].begin;
    if (begin > end) memory.slice(end, begin).fill(0);
    end = begin + entry.count;
  }
  if (end < ranges_[range].size()) memory.slice(end, ranges_[range].size()).fill(0);
}

void GradientSlots::provide(std::span<Parameter* const> parameters) {
  in_use_.clear();
  for (const Parameter* parameter : parameters) in_use_.insert(range_of_.at(parameter));
  for (const std::size_t range : in_use_) settle(range);
}

// Gives the range memory if it has none.
void GradientSlots::settle(std::size_t range) {
  State& state = states_[range];
  if (state.place != Place::none) return;
  const auto& holder = holds_[range % slots];
  if (holder && in_use_.contains(*holder) && states_[*holder].place == Place::slot) {
    hold_outside(range, Tensor::empty({ranges_[range].size()}));
    return clear_padding(range, state.outside);
  }
  make_room(range % slots);
  holds_[range % slots] = range;
  state.place = Place::slot;
  clear_padding(range, in_slot(range));
  point_at(range, in_slot(range));
}

void GradientSlots::make_room(std::size_t slot) {
  if (!holds_[slot]) return;
  const std::size_t range = *holds_[slot];
  if (!has_pass_)
    drop(range);
  else if (states_[range].place == Place::travelling)
    wait_(range);
  else
    move_out(range);
  TASUKI_CHECK(!holds_[slot], "gradients from {} on did not leave their slot",
               ranges_[range].begin);
}

void GradientSlots::move_out(std::size_t range) {
  hold_outside(range, in_slot(range).clone());
  holds_[range % slots].reset();
}

void GradientSlots::hold_outside(std::size_t range, Tensor memory) {
  State& state = states_[range];
  state.place = Place::outside;
  state.outside = std::move(memory);
  outside_ += state.outside.bytes();
  most_outside_ = std::max(most_outside_, outside_);
  point_at(range, state.outside);
}

// Undefined if the range has none.
Tensor GradientSlots::notices_in(std::size_t range) const {
  const std::int64_t first = arena_.update_count() - ranges_[range].begin;
  const Tensor memory = in_slot(range);
  return first < memory.count() ? memory.slice(first, memory.count()) : Tensor();
}

Tensor GradientSlots::take(std::size_t range, const Tensor& notices) {
  State& state = states_[range];
  Tensor memory = in_slot(range);
  if (state.place == Place::outside) {
    make_room(range % slots);
    holds_[range % slots] = range;
    memory.copy_from(std::exchange(state.outside, {}));
    outside_ -= memory.bytes();
    point_at(range, memory);
    state.place = Place::slot;
  }
  settle(range);
  for (const ParameterArena::Entry& entry : entries_[range]) entry.parameter->fill_missing_grad();
  state.place = Place::travelling;
  state.has_parameters = true;
  if (const Tensor place = notices_in(range)) place.copy_from(notices);
  return memory;
}

Tensor GradientSlots::take_zeros(std::size_t range, const Tensor& notices) {
  make_room(range % slots);
  holds_[range % slots] = range;
  states_[range] = {.place = Place::travelling};
  in_slot(range).fill(0);
  if (const Tensor place = notices_in(range)) place.copy_from(notices);
  return in_slot(range);
}

Tensor GradientSlots::kept(std::size_t range, Range own, bool adds) {
  const bool has_parameters = states_[range].has_parameters;
  drop(range);
  const Range& all = ranges_[range];
  const std::int64_t begin = std::max(own.begin, all.begin), end = std::min(own.end, all.end);
  if (begin < end) {
    const Tensor sums = in_slot(range).slice(begin - all.begin, end - all.begin);
    const Tensor to = arena_.gradients().slice(begin, end);
    if (adds)
      backend(to.device()).accumulate(to, sums, 1);
    else
      to.copy_from(sums);
  }
  if (has_parameters) point_at(range, arena_.gradients().slice(all.begin, all.end));
  return notices_in(range);
}

void GradientSlots::drop(std::size_t range) {
  states_[range] = {};
  holds_[range % slots].reset();
}

void GradientSlots::begin_pass() {
  end_pass();
  has_pass_ = true;
}

void GradientSlots::end_pass() {
  states_.assign(ranges_.size(), {});
  holds_.assign(slots, {});
  in_use_.clear();
  outside_ = 0;
  has_pass_ = false;
}

}  // namespace tasuki
