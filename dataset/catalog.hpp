// Data sets by name, and where their files are looked for; the same rule for all programs.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tasuki/dataset/source.hpp"

namespace tasuki {

enum class DataSplit { train, test };

// Names that open_dataset knows: mnist, fashion-mnist, cifar10, cifar100, images.
std::vector<std::string> dataset_names();

// The folder with the files of a data set: `given` (--data) when not empty, else the first that
// exists of $TASUKI_DATA/<name>, ~/.cache/tasuki/<name> and, for mnist and fashion-mnist, Debian's
// /usr/share/datasets/fashion-mnist. TASUKI_DATA set in vain is a warning. None: an error of kind
// missing that says how to get the data.
std::filesystem::path find_data_folder(std::string_view name,
                                       const std::filesystem::path& given = {});

// Opens the files of a data set in `folder`. Examples are 1 x 28 x 28 (mnist, fashion-mnist) or
// 3 x 32 x 32 (cifar10, cifar100 with its 100 fine labels), or for images, folders of one's own, 3
// x image_side x image_side (image_folder.hpp). An unknown name is a usage error.
std::unique_ptr<DataSource> open_dataset(std::string_view name, const std::filesystem::path& folder,
                                         DataSplit split, std::int64_t image_side = 32);

}  // namespace tasuki
