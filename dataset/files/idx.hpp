// MNIST's IDX files (Y. LeCun, C. Cortes and C. Burges, "The MNIST database of handwritten digits",
// section "File formats"), plain or gzip-compressed (detected by contents, not by name).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dataset/data_source.hpp"

namespace tasuki {

// Images (magic 0x00000803: uint8, three axes) and their labels (0x00000801), read side by side.
// Examples are 1 x rows x columns. Sizes, labels (0 .. classes - 1) and the ends of the files are
// checked: an error of kind data names the path, what was expected and what was found.
std::unique_ptr<DataSource> open_idx(const std::filesystem::path& images,
                                     const std::filesystem::path& labels,
                                     std::int64_t classes = 10);
// Images without labels: their only field is "x".
std::unique_ptr<DataSource> open_idx_images(const std::filesystem::path& images);
// All labels of a file, checked in the same way.
std::vector<std::int32_t> read_idx_labels(const std::filesystem::path& labels,
                                          std::int64_t classes);

// The contents of an image file: count x rows x columns bytes.
std::string encode_idx_images(std::span<const std::uint8_t> pixels, std::int64_t rows,
                              std::int64_t columns);

// The contents of an IDX file, as its first four (unpacked) bytes say.
enum class IdxContents { nothing, images, labels };
IdxContents idx_contents(const std::filesystem::path& file);

}  // namespace tasuki
