// One side of a comparison: a device and the type of its activations. The same problem is computed
// on two sides with the same random inputs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tensor/backend.hpp"

namespace tasuki::testing {

inline constexpr std::array<DType, 7> every_type = {DType::float32,  DType::float64, DType::float16,
                                                    DType::bfloat16, DType::int32,   DType::int64,
                                                    DType::uint8};

class Side {
 public:
  // Activations are rounded to `rounding` and have type `dtype`: a reference side computes in
  // float32 with the values that the other side has in 16 bits.
  Side(Device device, DType dtype, DType rounding, std::uint64_t seed)
      : device_(device), dtype_(dtype), rounding_(rounding), seed_(seed) {}

  Backend& backend() const { return tasuki::backend(device_); }
  Device device() const { return device_; }
  DType dtype() const { return dtype_; }

  // From then on, inputs with four axes are passed through `place`, which changes their order in
  // memory only.
  void lay_out(std::function<Tensor(const Tensor&)> place) { place_ = std::move(place); }

  // Uniform in [low, high). Every call gives other values, the same on both sides.
  Tensor activations(const Shape& shape, float low = -1, float high = 1);
  // The same, but multiples of 1/32, so few different values: after a normalisation, hardly one is
  // so near 0 that sides disagree about its sign, at which relu's gradient jumps.
  Tensor coarse_activations(const Shape& shape, float low, float high);
  // float32, uniform in [low, high).
  Tensor parameters(const Shape& shape, float low = -1, float high = 1);
  // float32, uniform in [-1, 1), and rounded on both sides as operations on activations round their
  // weights: where results nearly cancel out, the difference would be all that is left.
  Tensor weights(const Shape& shape);
  // int32 in [0, classes), some of them -1.
  Tensor labels(std::int64_t count, std::int64_t classes);
  // float32 destinations: NaN, which must be overwritten, or values in [2, 3) that are added to: an
  // addend that 16 bits rounded must not nearly cancel out a destination of one element.
  Tensor destination(const Shape& shape, bool accumulate);

 private:
  Tensor uniform(const Shape& shape, float low, float high);
  Tensor placed(const Tensor& x) const;

  Device device_;
  DType dtype_, rounding_;
  std::uint64_t seed_;
  std::uint64_t drawn_ = 0;
  std::function<Tensor(const Tensor&)> place_;
};

struct Result {
  std::string name;
  Tensor value;
};
using Results = std::vector<Result>;

// A copy of a parameter that an update has rounded, less what it should be. A comparison of the
// copies of two sides would fail where parameters that hardly differ are rounded to different
// neighbours.
Tensor less_rounded(const Tensor& rounded, const Tensor& parameter);

// Fills memory that the device's pool hands out next with NaN, so that a result that is not written
// shows.
void poison_pool(Device device);

// Chosen afresh for each run, or TASUKI_TEST_SEED.
std::uint64_t fresh_seed();

}  // namespace tasuki::testing
