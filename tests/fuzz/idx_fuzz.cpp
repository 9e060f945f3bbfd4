// IDX files of images and labels. An accepted file of images is what encode_idx_images() makes of
// its pixels.
#include "dataset/files/idx.hpp"
#include "fuzz.hpp"

using namespace tasuki;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::int64_t classes = 1 + input.number();
  const std::span<const std::byte> image_bytes = input.part(), label_bytes = input.rest();
  static fuzz::InputFile images, labels;
  images.write(image_bytes);
  labels.write(label_bytes);

  fuzz::accepts([&] {
    const auto source = open_idx_images(images.path());
    const Shape& shape = source->header().field("x").shape;
    const std::int64_t rows = shape[1], columns = shape[2];
    const std::vector<std::byte> pixels = fuzz::read_all(*source).at(0);
    fuzz::require(idx_contents(images.path()) == IdxContents::images, "images are not recognised");
    const bool is_packed = fuzz::as_text(image_bytes).starts_with("\x1f\x8b");
    const std::string again = encode_idx_images(
        {reinterpret_cast<const std::uint8_t*>(pixels.data()), pixels.size()}, rows, columns);
    fuzz::require(is_packed || again == fuzz::as_text(image_bytes), "images change when written");
  });
  std::vector<std::int32_t> found;
  const bool has_labels = fuzz::accepts([&] { found = read_idx_labels(labels.path(), classes); });
  for (const std::int32_t label : found)
    fuzz::require(label >= 0 && label < classes, "a label is not one of the classes");
  const bool has_both =
      fuzz::accepts([&] { fuzz::read_all(*open_idx(images.path(), labels.path(), classes)); });
  fuzz::require(has_labels || !has_both || found.empty(), "labels are accepted beside images only");
  return 0;
}
