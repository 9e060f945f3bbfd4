// Finds image files that cannot be read before they are needed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dataset/images/image_file.hpp"

namespace tasuki {

struct ImageProblem {
  std::int64_t number = 0;  // of the file
  std::string name;
  std::string what;  // "damage: ...", "an empty file", "No such file or directory"
};

struct ImageFindings {
  std::vector<ImageProblem> unreadable;
  std::vector<ImageProblem> without_end;  // Image::lacks_end: these can be read
};

// Reads the first bytes of each file, and finds those that are not regular files or do not begin
// like a JPEG or PNG image.
ImageFindings look_at_images(std::span<const ImageFile> files);
// Decodes each file, at most `threads` at once.
ImageFindings decode_images(std::span<const ImageFile> files, int threads);

// "a.jpg (damage: ...), b.png (an empty file), ...": `most` of them.
std::string text_of(std::span<const ImageProblem> problems, std::size_t most);
// Throws an error of kind data, which names some files, if any of the `count` files is unreadable.
void fail_if_unreadable(const ImageFindings& findings, std::int64_t count, std::size_t most_shown);

}  // namespace tasuki
