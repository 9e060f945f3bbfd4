// Random numbers of a batch: functions of (seed, epoch, example, place in the forward pass).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/late_values.hpp"

namespace tasuki {

// The keys of a model's random functions. A member of the object that runs forward passes.
class RandomKeys {
 public:
  explicit RandomKeys(std::uint64_t seed);
  ~RandomKeys();
  RandomKeys(const RandomKeys&) = delete;
  RandomKeys& operator=(const RandomKeys&) = delete;
  // Call it before each step, with the step's batch. Copies the ids; without ids (or before the
  // first call) numbers depend on an example's row.
  void follow(std::int64_t epoch, std::span<const std::int64_t> ids);

 private:
  friend struct RandomKey next_random_key(Device device, std::int64_t examples);
  // The keys of random function number `call` in the forward pass.
  Tensor seed_of(std::uint64_t call, Device device);

  std::uint64_t seed_;
  std::int64_t epoch_ = 0;
  std::vector<std::int64_t> ids_;
  LateValues<std::int64_t> late_ids_;
  std::vector<std::unique_ptr<LateValues<std::int64_t>>> seeds_;  // pages, made when needed
};

// Where the numbers of a thread's next random function come from. Valid as long as its
// RandomScope's keys, and until they follow another batch.
struct RandomPosition {
  RandomKeys* keys = nullptr;  // null: there is no scope
  std::uint64_t calls = 0;
};
RandomPosition random_position();

// While it exists, random functions of this thread draw from `keys`, numbered from the first call.
// Without a scope a thread's count never restarts: every forward pass draws different numbers,
// which depend on an example's row and are the same on all ranks.
class RandomScope {
 public:
  explicit RandomScope(RandomKeys& keys);
  // Goes on from a position, to draw the same numbers again.
  explicit RandomScope(const RandomPosition& position);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  RandomKeys* previous_;
  std::uint64_t previous_calls_;
};

// The keys of the forward pass's next random function, in the memory of `device`. A dropout of your
// own needs nothing else. Valid until the step ends.
struct RandomKey {
  Tensor seed;  // one int64; all bits count
  Tensor ids;   // N int64, the number of each example
};
RandomKey next_random_key(Device device, std::int64_t examples);

// Number of random functions that this thread has called so far in its RandomScope. Serves to
// repeat a forward pass with the same numbers.
std::uint64_t random_calls();
void set_random_calls(std::uint64_t calls);

}  // namespace tasuki
