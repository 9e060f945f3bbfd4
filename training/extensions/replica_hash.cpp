#include "training/extensions/replica_hash.hpp"

#include <algorithm>
#include <atomic>
#include <span>
#include <string>

#include "core/hash.hpp"
#include "core/range.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t chunk = std::int64_t{1} << 16;  // elements

std::int64_t chunks_in(std::int64_t count) {
  return (count + chunk - 1) / chunk;
}

// Of these chunks; `seed` is added to their numbers.
std::uint64_t hash_of_chunks(const Tensor& array, Range chunks, std::uint64_t seed) {
  constexpr std::int64_t most_copied = 256;  // chunks
  std::atomic<std::uint64_t> sum = 0;
  for (std::int64_t begin = chunks.begin; begin < chunks.end; begin += most_copied) {
    const std::int64_t end = std::min(chunks.end, begin + most_copied);
    const Tensor host =
        array.slice(begin * chunk, std::min(array.count(), end * chunk)).to(Device::cpu());
    const std::span bytes(static_cast<const std::byte*>(host.raw()), host.bytes());
    const std::size_t step = static_cast<std::size_t>(chunk) * size_of(host.dtype());
    parallel_for(end - begin, 1, [&](std::int64_t first, std::int64_t last) {
      std::uint64_t own = 0;
      for (std::int64_t i = first; i < last; ++i) {
        const std::size_t place = static_cast<std::size_t>(i) * step;
        own += hash_bytes(bytes.subspan(place, std::min(step, bytes.size() - place)),
                          seed + static_cast<std::uint64_t>(begin + i));
      }
      sum += own;
    });
  }
  return sum;
}

}  // namespace

std::uint64_t hash_of_array(const Tensor& array) {
  return hash_of_chunks(array, {0, chunks_in(array.count())}, 0);
}

std::uint64_t hash_of_replica(const Optimizer& optimizer, const ReplicaPart& part) {
  // Chunks of different arrays have different numbers.
  constexpr std::uint64_t most_chunks = std::uint64_t{1} << 40;
  const ParameterArena& arena = optimizer.arena();
  // Each trained weight is there once if nodes divide them.
  const Tensor weights = arena.is_divided()
                             ? arena.values().slice(arena.update_count(), arena.values().count())
                             : arena.values();
  std::uint64_t sum =
      hash_of_chunks(weights, part_of(chunks_in(weights.count()), part.sharers, part.sharer), 0);
  if (optimizer.states().are_divided()) return sum;
  std::uint64_t seed = 0;
  for (const std::string& name : optimizer.states().names()) {
    const Tensor state = optimizer.states().gather(name);
    const std::int64_t chunks = chunks_in(state.count());
    const std::int64_t turns = part.turn ? std::clamp<std::int64_t>(chunks, 1, state_turns) : 1;
    seed += most_chunks;
    sum += hash_of_chunks(state, part_of(chunks, turns, part.turn.value_or(0) % turns), seed);
  }
  return sum;
}

}  // namespace tasuki
