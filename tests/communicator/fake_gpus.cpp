#include "gpus_of_the_test.hpp"
#include "tests/support/fake_gpu/fake_gpu.hpp"

tasuki::testing::OwnGpu tasuki::testing::own_gpu() {
  static const bool registered = [] {
    register_fake_gpus();
    return true;
  }();
  static_cast<void>(registered);
  return {Device::cuda(0), ""};
}
