// Folders of image files: one subfolder per class.
//
//   DIR/train/cat/1.jpg   DIR/train/dog/a.png ...
//   DIR/test/cat/9.jpg    (or DIR/val/...)
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tasuki/dataset/catalog.hpp"
#include "tasuki/dataset/source.hpp"

namespace tasuki {

// The JPEG and PNG files of a split in `folder`. Classes are the subfolders of its train folder in
// alphabetical order; those of the test folder must be the same. Examples are 3 x side x side
// (image.hpp: shorter side scaled, middle cropped), taken from all classes in turn, so that the
// first N have some of each. Files whose names begin with a dot or do not end in .jpg, .jpeg or
// .png are skipped.
//
// Records are the files as they are (Field::is_image_file). The rank and thread that reads one into
// a batch decodes it. DataSource::check looks at all files, several at once: those that are not
// regular files or do not begin like a JPEG or PNG image are an error of kind data that names some
// of them. A folder that is missing or without images is an error of kind missing.
std::unique_ptr<DataSource> open_image_folder(const std::filesystem::path& folder, DataSplit split,
                                              std::int64_t side);

// The folder of a split in `folder`: train, or whichever of test and val there is.
std::filesystem::path split_folder(const std::filesystem::path& folder, DataSplit split);
// The names of the subfolders, one for each class, in alphabetical order; an error of kind missing
// if there are none.
std::vector<std::string> image_classes(const std::filesystem::path& folder);
// Whether a name ends in .jpg, .jpeg or .png, in capitals or not.
bool is_image_name(const std::filesystem::path& path);
// The files with such names in `folder` itself, in alphabetical order.
std::vector<std::filesystem::path> image_files_in(const std::filesystem::path& folder);

struct ImageFile {
  std::filesystem::path path;
  std::int32_t label = 0;  // not used without classes
};
// The files in the subfolders of `folder`, one of each class in turn. The subfolders must be those
// of `classes`, each with at least one file.
std::vector<ImageFile> list_image_folder(const std::filesystem::path& folder,
                                         const std::vector<std::string>& classes);
// Looks at the files as DataSource::check does (above).
void check_image_files(std::span<const ImageFile> files);
// These files as open_image_folder() reads them, in this order. Without classes, examples have no
// labels: their only field is "x".
std::unique_ptr<DataSource> open_image_files(std::vector<ImageFile> files, std::int64_t classes,
                                             std::int64_t side);

}  // namespace tasuki
