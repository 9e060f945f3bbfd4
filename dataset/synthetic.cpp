#include "dataset/synthetic.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/hash.hpp"
#include "core/philox.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

using PhiloxBlock = std::array<std::uint32_t, 4>;

std::uint64_t stream_of(const char* purpose, std::uint64_t a, std::uint64_t b) {
  return mix(std::array<std::uint64_t, 3>{hash_text(purpose), a, b});
}

// Uses the first blocks of a stream of random numbers.
TASUKI_VECTORIZE
void fill_random(std::uint64_t seed, std::uint64_t stream, PhiloxBlock* blocks, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    blocks[i] = philox(
        seed, {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
               static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)});
}

TASUKI_VECTORIZE
void blend(const std::uint8_t* pattern, const std::uint8_t* noise, std::uint8_t* pixels,
           std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    pixels[i] = static_cast<std::uint8_t>((pattern[i] + 3 * noise[i]) / 4);
}

}  // namespace

SyntheticDataset::SyntheticDataset(const SyntheticOptions& options)
    : header_(classification_header(options.count, options.example_shape, options.classes)),
      seed_(options.seed),
      split_(options.split) {
  TASUKI_CHECK(options.count >= 0 && options.classes > 0,
               "a synthetic data set of {} examples in {} classes", options.count, options.classes);
}

std::int32_t SyntheticDataset::label_of(std::int64_t i) const {
  RandomStream label(seed_, stream_of("label", split_, static_cast<std::uint64_t>(i)));
  const std::int64_t classes = header_.fields[1].classes;
  return static_cast<std::int32_t>(label.below(static_cast<std::uint64_t>(classes)));
}

void SyntheticDataset::read(std::int64_t i, std::size_t field, FieldWriter& into) const {
  TASUKI_CHECK(0 <= i && i < header_.count, "example {} of a data set of {}", i, header_.count);
  const std::int32_t label = label_of(i);
  if (field == 1) {
    into.as<std::int32_t>()[0] = label;
    return;
  }
  const std::span<std::uint8_t> pixels = into.as<std::uint8_t>();
  std::vector<PhiloxBlock> pattern((pixels.size() + sizeof(PhiloxBlock) - 1) / sizeof(PhiloxBlock));
  std::vector<PhiloxBlock> noise(pattern.size());
  fill_random(seed_, stream_of("pattern", static_cast<std::uint64_t>(label), 0), pattern.data(),
              pattern.size());
  fill_random(seed_, stream_of("noise", split_, static_cast<std::uint64_t>(i)), noise.data(),
              noise.size());
  blend(reinterpret_cast<const std::uint8_t*>(pattern.data()),
        reinterpret_cast<const std::uint8_t*>(noise.data()), pixels.data(), pixels.size());
}

}  // namespace tasuki
