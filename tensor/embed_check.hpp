// Checks of the arguments of embed() and embed_backward(), for every backend.
#pragma once

#include <array>
#include <span>

#include "tensor/tensor.hpp"

namespace tasuki {

// The shape of the embeddings of `ids` by w.
inline Shape check_embed(const Tensor& w, const Tensor& ids) {
  TASUKI_CHECK(w.shape().rank() == 2 && w.is_plain(),
               "embed_id: expected plain weights of ids x units, found {}", w.shape().text());
  TASUKI_CHECK((ids.dtype() == DType::int32 || ids.dtype() == DType::int64) && ids.is_plain() &&
                   ids.shape().rank() < Shape::max_rank && ids.device() == w.device(),
               "embed_id: expected ids of int32 or int64 with at most {} axes on {}, found {} of "
               "{} on {}",
               Shape::max_rank - 1, w.device().text(), name_of(ids.dtype()), ids.shape().text(),
               ids.device().text());
  std::array<std::int64_t, Shape::max_rank> sizes{};
  const int rank = ids.shape().rank();
  for (int axis = 0; axis < rank; ++axis) sizes[static_cast<std::size_t>(axis)] = ids.shape()[axis];
  sizes[static_cast<std::size_t>(rank)] = w.shape()[1];
  return Shape(std::span<const std::int64_t>(sizes.data(), static_cast<std::size_t>(rank) + 1));
}

inline void check_embed_backward(const Tensor& ids, const Tensor& dy, const Tensor& dw) {
  const Shape expected = check_embed(dw, ids);
  TASUKI_CHECK(dy.shape() == expected && dy.device() == dw.device(),
               "embed_id: expected a gradient of {} on {}, found {} on {}", expected.text(),
               dw.device().text(), dy.shape().text(), dy.device().text());
}

}  // namespace tasuki
