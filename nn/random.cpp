#include "nn/random.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "core/philox.hpp"

namespace tasuki {
namespace {

thread_local RandomKeys* scoped_keys = nullptr;
thread_local std::uint64_t calls = 0;

constexpr std::uint64_t seeds_in_page = 64;

std::int64_t seed_bits(std::uint64_t seed, std::int64_t epoch, std::uint64_t call) {
  return static_cast<std::int64_t>(mix(std::array{seed, static_cast<std::uint64_t>(epoch), call}));
}

Tensor rows(std::int64_t examples) {
  Tensor numbers = Tensor::empty({examples}, DType::int64);
  std::iota(numbers.data<std::int64_t>(), numbers.data<std::int64_t>() + examples, std::int64_t{0});
  return numbers;
}

}  // namespace

RandomKeys::RandomKeys(std::uint64_t seed)
    : seed_(seed),
      late_ids_([this](std::span<std::int64_t> out) { std::ranges::copy(ids_, out.begin()); }) {}

RandomKeys::~RandomKeys() = default;

void RandomKeys::follow(std::int64_t epoch, std::span<const std::int64_t> ids) {
  epoch_ = epoch;
  ids_.assign(ids.begin(), ids.end());
}

Tensor RandomKeys::seed_of(std::uint64_t call, Device device) {
  const std::uint64_t page = call / seeds_in_page;
  while (seeds_.size() <= page) {
    const std::uint64_t first = seeds_.size() * seeds_in_page;
    seeds_.push_back(
        std::make_unique<LateValues<std::int64_t>>([this, first](std::span<std::int64_t> out) {
          for (std::size_t i = 0; i < out.size(); ++i) out[i] = seed_bits(seed_, epoch_, first + i);
        }));
  }
  const auto place = static_cast<std::int64_t>(call % seeds_in_page);
  return seeds_[page]->on(device, seeds_in_page).slice(place, place + 1);
}

RandomPosition random_position() {
  return {scoped_keys, calls};
}

RandomScope::RandomScope(RandomKeys& keys) : RandomScope(RandomPosition{&keys, 0}) {}

RandomScope::RandomScope(const RandomPosition& position)
    : previous_(std::exchange(scoped_keys, position.keys)),
      previous_calls_(std::exchange(calls, position.calls)) {}

RandomScope::~RandomScope() {
  scoped_keys = previous_;
  calls = previous_calls_;
}

RandomKey next_random_key(Device device, std::int64_t examples) {
  const std::uint64_t call = calls++;
  if (scoped_keys == nullptr) {
    const std::int64_t bits = seed_bits(0, 0, call);
    return {Tensor::from(std::span(&bits, 1), {1}).to(device), rows(examples).to(device)};
  }
  const auto known = static_cast<std::int64_t>(scoped_keys->ids_.size());
  return {scoped_keys->seed_of(call, device),
          known > 0 ? scoped_keys->late_ids_.on(device, known) : rows(examples).to(device)};
}

std::uint64_t random_calls() {
  return calls;
}

void set_random_calls(std::uint64_t number) {
  calls = number;
}

}  // namespace tasuki
