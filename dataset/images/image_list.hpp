// The names and labels of many image files, in the compact form in which ranks exchange them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "communicator/bytes.hpp"
#include "communicator/communicator.hpp"
#include "core/range.hpp"
#include "dataset/images/image_folder.hpp"

namespace tasuki {

class ImageList {
 public:
  // Names are relative to `root`.
  explicit ImageList(std::filesystem::path root = {}) : root_(std::move(root)) {}

  void append(std::string_view name, std::int32_t label);
  std::int64_t size() const { return std::ssize(labels_); }
  std::filesystem::path path(std::int64_t i) const;
  std::string_view name(std::int64_t i) const;
  std::span<const std::int32_t> labels() const { return labels_; }
  std::vector<ImageFile> files(Range range) const;
  const std::filesystem::path& root() const { return root_; }
  // The list without the files of these ascending numbers.
  ImageList without(std::span<const std::int64_t> numbers) const;

  Bytes encode() const;
  static ImageList decode(std::span<const std::byte> bytes);

 private:
  std::filesystem::path root_;
  std::string names_;                // one after the other
  std::vector<std::uint64_t> ends_;  // of each name in names_
  std::vector<std::int32_t> labels_;
};

// The images to train on and to evaluate on.
struct ImageLists {
  ImageList train, test;
  std::int64_t classes = 0;
  std::vector<std::string> class_names = {};  // empty if they are not known
};

// Subfolders of `train`, one for each class, and all or some of the same in `test`
// (image_folder.hpp). Logs how many images are left out.
ImageLists list_class_folders(const std::filesystem::path& train,
                              const std::filesystem::path& test);

// Chainer's lists of images (LabeledImageDataset): lines "name label", with names relative to
// `root`. Labels are 0 .. classes - 1; the largest training label gives the number of classes, at
// most 2^20. A line without a label or with a label out of range is an error of kind data that
// names file and line; so is an empty file.
ImageLists read_image_lists(const std::filesystem::path& train, const std::filesystem::path& test,
                            const std::filesystem::path& root);

// Gives all ranks what `list` returns on rank 0. Collective.
ImageLists share_image_lists(Communicator& communicator, const std::function<ImageLists()>& list);

}  // namespace tasuki
