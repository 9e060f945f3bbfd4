// Folders of image files: one subfolder per class.
//
//   DIR/train/cat/1.jpg   DIR/train/dog/a.png ...
//   DIR/test/cat/9.jpg    (or DIR/val/...)
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dataset/catalog.hpp"
#include "dataset/data_source.hpp"
#include "dataset/images/image_file.hpp"

namespace tasuki {

// The JPEG and PNG files of a split in `folder`. Classes are the subfolders of its train folder in
// alphabetical order; the test folder may lack some of them and has no others. A class's images are
// in its folder, in subfolders, and in folders that links point to (image_search.hpp); files whose
// names begin with a dot or do not end in .jpg, .jpeg or .png are skipped. Examples are 3 x side x
// side (image.hpp: shorter side scaled, middle cropped), taken from all classes in turn, so that
// the first N include every class.
//
// Records are unchanged files (Field::is_image_file). The rank and thread that reads one into a
// batch decodes it. DataSource::check logs how many images are left out because they have other
// formats or are in no class's folder. It also looks at all files, several at once: files that are
// not regular or do not begin like a JPEG or PNG image are an error of kind data that names some of
// them. A missing folder, or one without images, is an error of kind missing.
std::unique_ptr<DataSource> open_image_folder(const std::filesystem::path& folder, DataSplit split,
                                              const ImageSettings& settings);

// The folder of a split in `folder`: train, or whichever of test and val exists.
std::filesystem::path split_folder(const std::filesystem::path& folder, DataSplit split);
// The names of the subfolders, one for each class, in alphabetical order; an error of kind missing
// if there are none.
std::vector<std::string> image_classes(const std::filesystem::path& folder);

struct ImageFolderList {
  std::vector<ImageFile> files;  // one of each class in turn
  std::string left_out;          // ImageSearch::text_of_left_out()
};
// The files in the subfolders of `folder`, one for each of `classes`. For training, each must have
// at least one file.
ImageFolderList list_image_folder(const std::filesystem::path& folder, DataSplit split,
                                  const std::vector<std::string>& classes);
// Takes one file of each class in turn.
std::vector<ImageFile> take_in_turn(std::vector<std::vector<ImageFile>> of_class);

// These files, in this order, read like open_image_folder()'s. Without classes, examples have no
// labels: their only field is "x". DataSource::check logs `left_out` as a warning.
std::unique_ptr<DataSource> open_image_files(std::vector<ImageFile> files, std::int64_t classes,
                                             const ImageSettings& settings,
                                             std::string left_out = "");

}  // namespace tasuki
