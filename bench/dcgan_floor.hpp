// The floor of a DCGAN's training step: its convolutions and matrix products alone.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "models/dcgan.hpp"

namespace tasuki::bench {

// The products of one step on `batch` real images of 3 x 32 x 32: the discriminator's passes over
// real and generated images, the pass of the generator's gradient through it, and the generator's.
// By oneDNN, with the algorithm that is fastest for each (tried when this is made), on arrays in
// the order that it prefers.
class DcganFloor {
 public:
  DcganFloor(const DcganSettings& settings, std::int64_t batch);
  void run() const;

 private:
  struct Product {
    std::function<void()> run;
    int times;  // in a step
  };
  std::vector<Product> products_;
};

}  // namespace tasuki::bench
