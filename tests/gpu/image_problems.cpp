#include <array>

#include "problems.hpp"

namespace tasuki::testing {
namespace {

Results images(Side& side, const Shape& shape, const ImageTransform& settings) {
  const Tensor source = Tensor::empty(shape, DType::uint8);
  RandomStream pixels(5);
  for (std::uint8_t& pixel : source.span<std::uint8_t>())
    pixel = static_cast<std::uint8_t>(pixels.below(256));
  const std::array<std::int64_t, 6> numbers = {4, 0, 0, 6, 2, 5};
  const std::array<std::int64_t, 6> names = {40, 1, 2, std::int64_t{1} << 33, 20, 0};
  const auto on_device = [&](std::span<const std::int64_t> values, const Shape& size) {
    return Tensor::from(values, size).to(side.device());
  };
  const std::int64_t epoch = 3;
  return {{"batch", side.backend().transform_images(
                        source.to(side.device()), on_device(numbers, {6}), on_device(names, {6}),
                        on_device({&epoch, 1}, {1}), {settings, 7}, side.dtype())}};
}

}  // namespace

void add_image_problems(Problems& problems) {
  const ImageTransform everything{
      .padding = 4, .flip = true, .brightness = 0.2, .contrast = 0.2, .standardize = true};
  const std::array<std::pair<const char*, ImageTransform>, 6> transforms = {
      {{"nothing", {}},
       {"crop", {.padding = 3}},
       {"flip", {.flip = true}},
       {"brightness and contrast", {.brightness = 0.3, .contrast = 0.5}},
       {"standardisation", {.standardize = true}},
       {"everything", everything}}};
  for (const Shape& shape : {Shape{7, 3, 32, 32}, Shape{7, 1, 13, 11}, Shape{7, 2, 40, 67}})
    for (const auto& [name, settings] : transforms)
      problems.push_back(
          {fmt::format("images/{}, {}", shape.text(), name),
           [shape, settings = settings](Side& side) { return images(side, shape, settings); }});
}

}  // namespace tasuki::testing
