// Kernels of embeddings. Ids are int32 or int64; `type` is the type of w and y, or of dy.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

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

// Scratch memory of embed_backward(): that many int64 numbers and floats.
struct EmbeddingScratch {
  std::int64_t numbers = 0, sums = 0;
};
EmbeddingScratch embedding_scratch(std::int64_t count, std::int64_t columns);
// Adds the rows of dy to rows of dw. Takes time proportional to their number, however often an id
// occurs: places are sorted by their ids, and sums of up to 64 neighbours are joined. The order of
// additions is a function of the ids, so equal ids give equal bits. No atomic additions of floats.
void embed_backward(const Launch& launch, DType type, const Ids& ids, const void* dy, float* dw,
                    std::int64_t rows, std::int64_t columns, std::int64_t* numbers, float* sums);

// visitor(ids) with a pointer of the ids' type.
template <class Visitor>
void with_ids(const Ids& ids, Visitor&& visitor) {
  if (ids.type == DType::int32)
    visitor(static_cast<const std::int32_t*>(ids.ids));
  else
    visitor(static_cast<const std::int64_t*>(ids.ids));
}

}  // namespace tasuki::kernels
