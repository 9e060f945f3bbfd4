// Data sets by name, and the folders where all programs look for their files.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/data_source.hpp"
#include "dataset/images/image_file.hpp"

namespace tasuki {

enum class DataSplit { train, test };

// The names that open_dataset accepts: mnist, fashion-mnist, cifar10, cifar100, images.
std::vector<std::string> dataset_names();

// The folder with the files of a data set: `given` (--data) if not empty, else the first existing
// one of $TASUKI_DATA/<name>, ~/.cache/tasuki/<name> and, for mnist and fashion-mnist, Debian's
// /usr/share/datasets/fashion-mnist. Warns if TASUKI_DATA is set but not used. If none exists, an
// error of kind missing says how to get the data.
std::filesystem::path find_data_folder(std::string_view name,
                                       const std::filesystem::path& given = {});

// The folders where find_data_folder() looks for a data set that was not given, in this order,
// whether they exist or not.
std::vector<std::filesystem::path> default_data_folders(std::string_view name);

// Opens the files of a data set in `folder`. Examples are 1 x 28 x 28 (mnist, fashion-mnist) or 3 x
// 32 x 32 (cifar10, cifar100 with its 100 fine labels); for images (the user's folders) `images`
// sets the shape (image_folder.hpp). An unknown name is a usage error.
std::unique_ptr<DataSource> open_dataset(std::string_view name, const std::filesystem::path& folder,
                                         DataSplit split, const ImageSettings& images = {});

// The names of the data set's classes, in the order of their labels: fixed for fashion-mnist, from
// text files in `folder` for cifar10 and cifar100, and the subfolders' names for images. Empty if
// unknown.
std::vector<std::string> class_names(std::string_view name, const std::filesystem::path& folder);

}  // namespace tasuki
