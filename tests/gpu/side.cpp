#include "side.hpp"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "core/philox.hpp"

namespace tasuki::testing {

Tensor Side::uniform(const Shape& shape, float low, float high) {
  Tensor made = Tensor::empty(shape);
  RandomStream stream(seed_ + 7919 * ++drawn_);
  for (float& value : made.span<float>()) value = low + (high - low) * stream.uniform();
  return made;
}

Tensor Side::placed(const Tensor& x) const {
  return place_ && x.shape().rank() == 4 ? place_(x) : x;
}

Tensor Side::activations(const Shape& shape, float low, float high) {
  return placed(uniform(shape, low, high).to(rounding_).to(dtype_).to(device_));
}

Tensor Side::coarse_activations(const Shape& shape, float low, float high) {
  const Tensor made = uniform(shape, low, high);
  for (float& value : made.span<float>()) value = std::floor(value * 32) / 32;
  return placed(made.to(rounding_).to(dtype_).to(device_));
}

Tensor Side::parameters(const Shape& shape, float low, float high) {
  return placed(uniform(shape, low, high).to(device_));
}

Tensor Side::weights(const Shape& shape) {
  return placed(uniform(shape, -1, 1).to(rounding_).to(DType::float32).to(device_));
}

Tensor Side::labels(std::int64_t count, std::int64_t classes) {
  const Tensor numbers = uniform({count}, 0, static_cast<float>(classes));
  Tensor made = Tensor::empty({count}, DType::int32);
  for (std::int64_t i = 0; i < count; ++i)
    made.data<std::int32_t>()[i] =
        i % 7 == 3 ? -1 : static_cast<std::int32_t>(numbers.data<float>()[i]);
  return made.to(device_);
}

Tensor Side::destination(const Shape& shape, bool accumulate) {
  if (accumulate) return uniform(shape, 2, 3).to(device_);
  return Tensor::full(shape, std::numeric_limits<double>::quiet_NaN(), DType::float32, device_);
}

Tensor less_rounded(const Tensor& rounded, const Tensor& parameter) {
  Tensor found = rounded.to(Device::cpu()).to(DType::float32);
  const Tensor expected = parameter.to(Device::cpu()).to(rounded.dtype()).to(DType::float32);
  backend(Device::cpu()).accumulate(found, expected, -1);
  return found;
}

void poison_pool(Device device) {
  constexpr std::int64_t most = 262144;
  static const Tensor poison = Tensor::full({most}, std::numeric_limits<double>::quiet_NaN());
  std::vector<Tensor> blocks;
  for (const std::int64_t count : {std::int64_t{64}, std::int64_t{1024}, std::int64_t{16384}, most})
    for (int i = 0; i < 6; ++i) blocks.push_back(poison.slice(0, count).to(device));
}

std::uint64_t fresh_seed() {
  if (const char* const given = std::getenv("TASUKI_TEST_SEED"))
    return std::strtoull(given, nullptr, 10);
  return std::random_device()();
}

}  // namespace tasuki::testing
