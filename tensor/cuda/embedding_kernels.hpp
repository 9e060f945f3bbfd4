// Kernels of embeddings. Ids are int32 or int64; `type` is that of w and y, or of dy.
#pragma once

#include <cstdint>

#include "tasuki/tensor/cuda/launch.hpp"
#include "tasuki/tensor/dtype.hpp"

namespace tasuki::kernels {

// Ids in device memory; `ignore` counts only with `has_ignore`.
struct Ids {
  const void* ids = nullptr;
  DType type = DType::int32;
  std::int64_t count = 0;
  std::int64_t ignore = 0;
  bool has_ignore = false;
};

void embed(const Launch& launch, DType type, const void* w, const Ids& ids, void* y,
           std::int64_t rows, std::int64_t columns);
// Adds the rows of dy to those of dw, without atomic additions, in the order of the ids: for each
// id, the warps of its first place look for all others. Reads count^2 ids (from the cache).
void embed_backward(const Launch& launch, DType type, const Ids& ids, const void* dy, float* dw,
                    std::int64_t rows, std::int64_t columns);

}  // namespace tasuki::kernels
