#include "dataset/images/create_transform.hpp"

#include <algorithm>

#include "tensor/image_transform.hpp"

namespace tasuki {

Transform create_transform(const ImageTransform& settings, const Field& field, std::uint64_t seed) {
  const Shape& shape = field.shape;
  if (shape.rank() != 3 || field.stored != DType::uint8 || field.is_ragged)
    fail_everywhere(ErrorKind::config,
                    "only images of channels x height x width stored as uint8 can be transformed, "
                    "found examples of shape {} stored as {}",
                    shape.text(), name_of(field.stored));
  TASUKI_CHECK(settings.padding >= 0 && settings.brightness >= 0 && settings.contrast >= 0 &&
                   settings.contrast <= 1,
               "padding {}, brightness {}, contrast {}", settings.padding, settings.brightness,
               settings.contrast);
  if (settings.padding >= std::min(shape[1], shape[2]))
    fail_everywhere(ErrorKind::config,
                    "a crop after padding {} needs images of at least {} x {} pixels, found {}",
                    settings.padding, settings.padding + 1, settings.padding + 1, shape.text());
  const SeededImageTransform seeded{settings, seed};
  return {[seeded, shape](const std::byte* stored, const ExampleKey& key, float* destination) {
            transform_image(seeded.settings, draw_image(seeded, image_streams(), key.epoch, key.id),
                            shape, reinterpret_cast<const std::uint8_t*>(stored), destination);
          },
          seeded};
}

}  // namespace tasuki
