// Embeddings of ids (Chainer's EmbedID).
#pragma once

#include <cstdint>
#include <optional>

#include "nn/layer.hpp"

namespace tasuki {

// Parameter W (in_size x out_size): the vectors of the ids 0 .. in_size - 1. Those of
// `ignore_label` are zeros.
class EmbedID : public Layer {
 public:
  EmbedID(std::int64_t in_size, std::int64_t out_size,
          Initializer weights = initializers::normal(1),
          std::optional<std::int64_t> ignore_label = std::nullopt);

  // ids (int32 or int64) of any shape to the same shape x out_size; see functions/embed_id.hpp.
  Variable forward(const Variable& ids) override;

 private:
  Parameter& w_;
  std::optional<std::int64_t> ignore_label_;
};

}  // namespace tasuki
