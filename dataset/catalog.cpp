#include "dataset/catalog.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <system_error>

#include "core/file.hpp"
#include "core/log.hpp"
#include "core/named_file.hpp"
#include "core/printable.hpp"
#include "dataset/files/cifar.hpp"
#include "dataset/files/idx.hpp"
#include "dataset/files/text_file.hpp"
#include "dataset/images/image_folder.hpp"

namespace tasuki {
namespace fs = std::filesystem;

namespace {

const char* const debian_folder = "/usr/share/datasets/fashion-mnist";

// For default places, which may hold anything.
bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// An IDX file under one of its usual names, compressed or not.
fs::path find_idx_file(const fs::path& folder, const std::string& part, const std::string& axes) {
  const std::string usual = fmt::format("{}-idx{}-ubyte", part, axes);
  const std::string dotted = fmt::format("{}.idx{}-ubyte", part, axes);
  for (const std::string& name : {usual, usual + ".gz", dotted, dotted + ".gz"}) {
    if (fs::exists(status_of(folder / name))) return folder / name;
  }
  fail(ErrorKind::missing, "{}: expected {} or {}.gz in this folder, found neither",
       folder.string(), usual, usual);
}

std::unique_ptr<DataSource> open_mnist(const fs::path& folder, DataSplit split,
                                       const ImageSettings&) {
  const std::string part = split == DataSplit::train ? "train" : "t10k";
  const fs::path images = find_idx_file(folder, part + "-images", "3");
  const fs::path labels = find_idx_file(folder, part + "-labels", "1");
  return open_idx(images, labels);
}

std::unique_ptr<DataSource> open_cifar10(const fs::path& folder, DataSplit split,
                                         const ImageSettings&) {
  std::vector<fs::path> files;
  if (split == DataSplit::test) {
    files.push_back(folder / "test_batch.bin");
  } else {
    for (int i = 1; i <= 5; ++i) files.push_back(folder / fmt::format("data_batch_{}.bin", i));
  }
  return open_cifar(std::move(files), 10, 1);
}

std::unique_ptr<DataSource> open_cifar100(const fs::path& folder, DataSplit split,
                                          const ImageSettings&) {
  return open_cifar({folder / (split == DataSplit::train ? "train.bin" : "test.bin")}, 100, 2);
}

using Names = std::vector<std::string>;

Names no_names(const fs::path&) {
  return {};
}

Names fashion_names(const fs::path&) {
  return {"T-shirt/top", "trouser", "pullover", "dress", "coat",
          "sandal",      "shirt",   "sneaker",  "bag",   "ankle boot"};
}

// One name per line, as in the binary versions of CIFAR.
Names names_in(const fs::path& file) {
  if (!fs::is_regular_file(status_of(file))) return {};
  Names names;
  TextFile lines(file);
  for (std::string_view line; lines.next(line);) names.emplace_back(line);
  return names;
}

struct CatalogEntry {
  const char* name;
  std::unique_ptr<DataSource> (*open)(const fs::path& folder, DataSplit split,
                                      const ImageSettings& images);
  Names (*class_names)(const fs::path& folder);
  const char* origin;  // how to get it, for messages
  bool in_debian = false;
};

constexpr const char* script = "run scripts/get_data.sh {0}";
constexpr const char* script_or_package =
    "run scripts/get_data.sh {0} or apt-get install dataset-fashion-mnist";
constexpr const char* own =
    "put the subfolders train and test there, each with a folder of images for each class";

constexpr CatalogEntry catalog[] = {
    {"mnist", open_mnist, no_names, script_or_package, true},
    {"fashion-mnist", open_mnist, fashion_names, script_or_package, true},
    {"cifar10", open_cifar10,
     [](const fs::path& folder) { return names_in(folder / "batches.meta.txt"); }, script},
    {"cifar100", open_cifar100,
     [](const fs::path& folder) { return names_in(folder / "fine_label_names.txt"); }, script},
    {"images", open_image_folder,
     [](const fs::path& folder) { return image_classes(split_folder(folder, DataSplit::train)); },
     own},
};

const CatalogEntry& entry_of(std::string_view name) {
  for (const CatalogEntry& entry : catalog)
    if (entry.name == name) return entry;
  fail(ErrorKind::usage, "unknown data set '{}'; expected one of {}", name,
       join(dataset_names(), ", "));
}

}  // namespace

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog) names.emplace_back(entry.name);
  return names;
}

std::vector<fs::path> default_data_folders(std::string_view name) {
  std::vector<fs::path> folders;
  if (const char* data = std::getenv("TASUKI_DATA"); data != nullptr && *data != '\0')
    folders.push_back(fs::path(data) / name);
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    folders.push_back(fs::path(home) / ".cache" / "tasuki" / name);
  if (entry_of(name).in_debian) folders.emplace_back(debian_folder);
  return folders;
}

fs::path find_data_folder(std::string_view name, const fs::path& given) {
  const CatalogEntry& entry = entry_of(name);
  if (!given.empty()) {
    if (!fs::is_directory(status_of(given)))
      fail(ErrorKind::missing, "{}: expected a folder with the files of {}, found none",
           given.string(), name);
    return given;
  }
  const std::vector<fs::path> candidates = default_data_folders(name);
  const char* const data = std::getenv("TASUKI_DATA");
  const bool is_named = data != nullptr && *data != '\0';
  if (const auto found = std::ranges::find_if(candidates, is_folder); found != candidates.end()) {
    if (is_named && found != candidates.begin())
      log_warning("TASUKI_DATA is set, but {} is not a folder; using {}", candidates[0].string(),
                  found->string());
    return *found;
  }

  std::vector<std::string> searched;
  searched.reserve(candidates.size());
  for (const fs::path& candidate : candidates) searched.push_back(candidate.string());
  if (searched.empty())
    searched.emplace_back("any folder, because TASUKI_DATA and HOME are not set");
  fail(ErrorKind::missing, "no data for {} in {}; {}, or give a folder with --data", name,
       join(searched, ", "), fmt::format(fmt::runtime(entry.origin), name));
}

std::unique_ptr<DataSource> open_dataset(std::string_view name, const fs::path& folder,
                                         DataSplit split, const ImageSettings& images) {
  return entry_of(name).open(folder, split, images);
}

std::vector<std::string> class_names(std::string_view name, const fs::path& folder) {
  return entry_of(name).class_names(folder);
}

}  // namespace tasuki
