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
#include "dataset/images/image_file.hpp"
#include "dataset/source.hpp"

namespace tasuki {

// The JPEG and PNG files of a split in `folder`. Classes are the subfolders of its train folder in
// alphabetical order; the test folder may lack some of them and has no others. Images of a class
// are those in its folder, in subfolders of it, and behind links (image_search.hpp); files whose
// names begin with a dot or do not end in .jpg, .jpeg or .png are passed over. Examples are 3 x
// side x side (image.hpp: shorter side scaled, middle cropped), taken from all classes in turn, so
// that the first N have some of each.
//
// Records are the files as they are (Field::is_image_file). The rank and thread that reads one into
// a batch decodes it. DataSource::check says in the log how many images are left out because they
// are of other formats, or in no class's folder, and looks at all files, several at once: those
// that are not regular files or do not begin like a JPEG or PNG image are an error of kind data
// that names some of them. A folder that is missing or without images is an error of kind missing.
std::unique_ptr<DataSource> open_image_folder(const std::filesystem::path& folder, DataSplit split,
                                              const ImageSettings& settings);

// The folder of a split in `folder`: train, or whichever of test and val there is.
std::filesystem::path split_folder(const std::filesystem::path& folder, DataSplit split);
// The names of the subfolders, one for each class, in alphabetical order; an error of kind missing
// if there are none.
std::vector<std::string> image_classes(const std::filesystem::path& folder);

struct ImageFolderList {
  std::vector<ImageFile> files;  // one of each class in turn
  std::string left_out;          // ImageSearch::text_of_left_out()
};
// The files in the subfolders of `folder`, which are those of `classes`. To train on, there must be
// at least one file in each.
ImageFolderList list_image_folder(const std::filesystem::path& folder, DataSplit split,
                                  const std::vector<std::string>& classes);
// Takes one file of each class in turn.
std::vector<ImageFile> take_in_turn(std::vector<std::vector<ImageFile>> of_class);

// These files as open_image_folder() reads them, in this order. Without classes, examples have no
// labels: their only field is "x". DataSource::check logs `left_out` as a warning.
std::unique_ptr<DataSource> open_image_files(std::vector<ImageFile> files, std::int64_t classes,
                                             const ImageSettings& settings,
                                             std::string left_out = "");

}  // namespace tasuki
