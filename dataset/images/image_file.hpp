// Image files as examples, and how they become images.
#pragma once

#include <cstdint>
#include <filesystem>

#include "dataset/images/exif.hpp"

namespace tasuki {

struct ImageFile {
  std::filesystem::path path;
  std::int32_t label = 0;  // not used without classes
};

// For a folder's files, which all become images of one size: 3 x side x side.
struct ImageSettings {
  std::int64_t side = 32;
  Exif exif = Exif::apply;
};

}  // namespace tasuki
