// The floor of a DCGAN's training step: its convolutions and matrix products alone.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "models/dcgan.hpp"

namespace tasuki::bench {

// The products of one step on `batch` real images of 3 x 32 x 32: the discriminator's passes over
// real and generated images, the pass of the generator's gradient through it, and the generator's.
// Computed by oneDNN, with the fastest algorithm for each (tried at construction), on arrays in its
// preferred order.
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
