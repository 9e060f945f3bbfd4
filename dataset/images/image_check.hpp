// Which image files cannot be read, found out before they are needed.
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

// Reads the first bytes of each file: what is not a regular file or does not begin like a JPEG or
// PNG image.
ImageFindings look_at_images(std::span<const ImageFile> files);
// Decodes each file. `threads`: at most so many at once.
ImageFindings decode_images(std::span<const ImageFile> files, int threads);

// "a.jpg (damage: ...), b.png (an empty file), ...": `most` of them.
std::string text_of(std::span<const ImageProblem> problems, std::size_t most);
// An error of kind data if any file of `count` is unreadable, which names some.
void fail_if_unreadable(const ImageFindings& findings, std::int64_t count, std::size_t most_shown);

}  // namespace tasuki
