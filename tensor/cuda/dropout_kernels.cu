#include "tensor/cuda/dropout_kernels.hpp"

#include "tensor/cuda/random_blocks.cuh"

namespace tasuki::kernels {
namespace {

struct Dropout {
  float ratio, factor;

  __device__ void operator()(const RandomWords& words, float (&values)[4]) const {
    for (std::size_t k = 0; k < 4; ++k) values[k] *= unit_float(words[k]) >= ratio ? factor : 0.0f;
  }
};

}  // namespace

void dropout(const Launch& launch, DType type, const void* x, void* y, std::int64_t items,
             const ExampleOrder& order, float ratio, const std::int64_t* seed,
             const std::int64_t* ids) {
  change_blocks(launch, type, Dropout{ratio, 1 / (1 - ratio)}, x, y, items, order, seed, ids);
}

}  // namespace tasuki::kernels
