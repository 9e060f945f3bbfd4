#include "tensor/image_draw.hpp"

#include "core/hash.hpp"

namespace tasuki {

const ImageStreams& image_streams() {
  static const ImageStreams streams{hash_text("crop"), hash_text("flip"), hash_text("brightness"),
                                    hash_text("contrast")};
  return streams;
}

}  // namespace tasuki
