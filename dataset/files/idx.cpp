#include "dataset/files/idx.hpp"

#include <array>
#include <optional>
#include <utility>

#include "dataset/files/input_file.hpp"

namespace tasuki {
namespace {

constexpr std::uint32_t image_magic = 0x00000803, label_magic = 0x00000801;
constexpr std::int64_t header_word = sizeof(std::uint32_t);

using Word = std::array<std::byte, sizeof(std::uint32_t)>;

std::uint32_t as_big_endian(const Word& bytes) {
  std::uint32_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<std::uint32_t>(byte);
  return value;
}

std::uint32_t read_big_endian(InputFile& file) {
  Word bytes;
  file.read(bytes.data(), bytes.size());
  return as_big_endian(bytes);
}

void check_magic(InputFile& file, std::uint32_t expected, const char* contents) {
  const std::uint32_t found = read_big_endian(file);
  if (found == expected) return;
  const char* reason = found == __builtin_bswap32(expected) ? ": its byte order is swapped"
                       : found == image_magic || found == label_magic
                           ? ": images and labels are mixed up"
                           : ": it is not an IDX file";
  fail(ErrorKind::data, "{}: expected an IDX file of {} (magic {:#010x}), found {:#010x}{}",
       file.path().string(), contents, expected, found, reason);
}

// Reads the number of images and their shape; leaves the file at the first pixel.
std::pair<std::int64_t, Shape> read_image_header(InputFile& file) {
  check_magic(file, image_magic, "images");
  const std::int64_t count = read_big_endian(file);
  const std::int64_t rows = read_big_endian(file), columns = read_big_endian(file);
  constexpr std::int64_t largest_side = 1 << 14;
  if (rows < 1 || rows > largest_side || columns < 1 || columns > largest_side)
    fail(ErrorKind::data, "{}: expected images of 1 to {} rows and columns, found {} x {}",
         file.path().string(), largest_side, rows, columns);
  file.expect_size(4 * header_word + count * rows * columns,
                   fmt::format("{} images of {} x {}", count, rows, columns));
  return {count, Shape{1, rows, columns}};
}

std::int64_t read_label_header(InputFile& file) {
  check_magic(file, label_magic, "labels");
  const std::int64_t count = read_big_endian(file);
  file.expect_size(2 * header_word + count, fmt::format("{} labels", count));
  return count;
}

std::int32_t read_label(InputFile& file, std::int64_t classes, std::int64_t example) {
  std::byte byte{};
  file.read(&byte, 1);
  const auto label = std::to_integer<std::int32_t>(byte);
  check_label(label, classes, example, file.path());
  return label;
}

class IdxSource final : public DataSource {
 public:
  IdxSource(InputFile images, std::optional<InputFile> labels, const DatasetHeader& header)
      : DataSource(header), images_(std::move(images)), labels_(std::move(labels)) {}

 private:
  void read_next(std::span<FieldWriter> example) override {
    images_.read(example[0].bytes().data(), example[0].bytes().size());
    if (labels_)
      example[1].as<std::int32_t>()[0] = read_label(*labels_, header().fields[1].classes, next_++);
  }
  void check_end() override {
    images_.check_end();
    if (labels_) labels_->check_end();
  }

  InputFile images_;
  std::optional<InputFile> labels_;
  std::int64_t next_ = 0;
};

}  // namespace

std::unique_ptr<DataSource> open_idx(const std::filesystem::path& images,
                                     const std::filesystem::path& labels, std::int64_t classes) {
  InputFile image_file(images), label_file(labels);
  const auto [count, shape] = read_image_header(image_file);
  const std::int64_t label_count = read_label_header(label_file);
  if (label_count != count)
    fail(ErrorKind::data, "{}: expected {} labels, as many as images in {}, found {}",
         labels.string(), count, images.string(), label_count);
  return std::make_unique<IdxSource>(std::move(image_file), std::move(label_file),
                                     classification_header(count, shape, classes));
}

std::unique_ptr<DataSource> open_idx_images(const std::filesystem::path& images) {
  InputFile file(images);
  const auto [count, shape] = read_image_header(file);
  DatasetHeader header = classification_header(count, shape, 0);
  header.fields.resize(1);
  return std::make_unique<IdxSource>(std::move(file), std::nullopt, header);
}

std::vector<std::int32_t> read_idx_labels(const std::filesystem::path& labels,
                                          std::int64_t classes) {
  InputFile file(labels);
  std::vector<std::int32_t> found(static_cast<std::size_t>(read_label_header(file)));
  for (std::size_t i = 0; i < found.size(); ++i)
    found[i] = read_label(file, classes, static_cast<std::int64_t>(i));
  file.check_end();
  return found;
}

IdxContents idx_contents(const std::filesystem::path& file) {
  Word bytes{};
  InputFile(file).read_some(bytes.data(), bytes.size());
  const std::uint32_t magic = as_big_endian(bytes);
  if (magic == image_magic) return IdxContents::images;
  return magic == label_magic ? IdxContents::labels : IdxContents::nothing;
}

std::string encode_idx_images(std::span<const std::uint8_t> pixels, std::int64_t rows,
                              std::int64_t columns) {
  TASUKI_CHECK(rows > 0 && columns > 0 && std::ssize(pixels) % (rows * columns) == 0,
               "{} pixels are not images of {} x {}", pixels.size(), rows, columns);
  std::string file;
  for (const std::int64_t word :
       {std::int64_t{image_magic}, std::ssize(pixels) / (rows * columns), rows, columns})
    for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(word >> shift & 0xFF);
  file.append(pixels.begin(), pixels.end());
  return file;
}

}  // namespace tasuki
