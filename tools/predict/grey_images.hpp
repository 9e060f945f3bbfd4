// Image files for networks with grey input.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "dataset/images/image_folder.hpp"

namespace tasuki::predict {

// Like open_image_files(), but examples are 1 x side x side, decoded as the source is read: the
// luma of ITU-R BT.601, (299 red + 587 green + 114 blue) / 1000.
std::unique_ptr<DataSource> open_grey_files(std::vector<ImageFile> files, std::int64_t classes,
                                            const ImageSettings& settings);

}  // namespace tasuki::predict
