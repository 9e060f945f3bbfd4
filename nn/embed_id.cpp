#include "nn/embed_id.hpp"

#include "nn/functions/embed_id.hpp"

namespace tasuki {

EmbedID::EmbedID(std::int64_t in_size, std::int64_t out_size, Initializer weights,
                 std::optional<std::int64_t> ignore_label)
    : w_(add_parameter("W", {in_size, out_size}, std::move(weights))),
      ignore_label_(ignore_label) {}

Variable EmbedID::forward(const Variable& ids) {
  return embed_id(ids.value(), w_, ignore_label_);
}

}  // namespace tasuki
