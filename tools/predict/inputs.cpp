#include "tools/predict/inputs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <span>
#include <stdexcept>
#include <utility>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/log.hpp"
#include "core/named_file.hpp"
#include "core/printable.hpp"
#include "core/system_error.hpp"
#include "core/text_parts.hpp"
#include "dataset/files/cifar.hpp"
#include "dataset/files/idx.hpp"
#include "dataset/files/text_file.hpp"
#include "dataset/images/image.hpp"
#include "dataset/images/image_folder.hpp"
#include "dataset/images/image_search.hpp"
#include "program/flags/option_value.hpp"
#include "tools/predict/image_inputs.hpp"

namespace tasuki::predict {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  return fs::is_directory(status_of(path));
}

bool has(const fs::path& folder, const std::vector<std::string>& names) {
  return std::ranges::any_of(
      names, [&](const std::string& name) { return fs::exists(status_of(folder / name)); });
}

bool has_subfolders(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.is_directory(ignored) && !entry.path().filename().string().starts_with('.'))
      return true;
  return false;
}

bool is_image_file(const fs::path& path) {
  std::array<char, 8> start{};
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const std::error_code cause = last_system_error();
    fail_because(cause, kind_of_absence(cause), "cannot read {}", path.string());
  }
  file.read(start.data(), start.size());
  return starts_image(
      std::as_bytes(std::span(start)).first(static_cast<std::size_t>(file.gcount())));
}

// --- image files ---

bool has_images(const fs::path& folder) {
  return std::ranges::any_of(visible_entries(folder), [](const fs::directory_entry& entry) {
    return is_image_name(entry.path());
  });
}

void warn_of_left_out(const ImageSearch& search) {
  if (const std::string text = search.text_of_left_out(); !text.empty()) log_warning("{}", text);
}

// The form of the network's images.
struct Picture {
  std::int64_t side = 0;
  bool is_grey = false;
};

Picture picture_for(const InputRequest& request) {
  if (!request.example) {
    if (request.image_side) return {*request.image_side, false};
    fail(ErrorKind::usage,
         "the size of this model's images is not known; give --image-size N as in training");
  }
  const Shape& shape = *request.example;
  if (shape.rank() == 1) {  // rows of a grey image
    const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(shape[0])));
    if (side * side == shape[0]) return {side, true};
  } else if (shape.rank() == 3 && shape[1] == shape[2] && (shape[0] == 1 || shape[0] == 3)) {
    return {shape[0] == 1 ? shape[1] : request.image_side.value_or(shape[1]), shape[0] == 1};
  }
  fail(ErrorKind::config,
       "the model takes examples of shape {}; image files become square images of 1 or 3 channels",
       shape.text());
}

Inputs open_files(std::vector<ImageFile> files, std::int64_t classes, const InputRequest& request) {
  const Picture picture = picture_for(request);
  const ImageSettings settings{picture.side, request.exif};
  Inputs inputs;
  for (const ImageFile& file : files) inputs.names.push_back(file.path.string());
  inputs.source = picture.is_grey ? open_grey_files(std::move(files), classes, settings)
                                  : open_image_files(std::move(files), classes, settings);
  return inputs;
}

// The label of each subfolder.
std::int32_t label_of_folder(const fs::path& folder, std::size_t number,
                             const InputRequest& request) {
  constexpr std::size_t most_shown = 5;
  const std::vector<std::string>& names = request.class_names;
  if (names.empty()) return static_cast<std::int32_t>(number);
  const auto found = std::ranges::find(names, folder.filename().string());
  if (found == names.end())
    fail(ErrorKind::data, "{}: expected a folder named like one of the model's classes ({}{})",
         folder.string(), join(std::span(names).first(std::min(most_shown, names.size())), ", "),
         names.size() > most_shown ? ", ..." : "");
  return static_cast<std::int32_t>(found - names.begin());
}

Inputs open_class_folders(const fs::path& folder, const InputRequest& request) {
  const std::vector<std::string> found = image_classes(folder);
  if (request.class_names.empty() && std::ssize(found) != request.classes)
    fail(ErrorKind::data,
         "{}: expected a subfolder for each of the model's {} classes, found {}; name the classes "
         "with --classes-file",
         folder.string(), request.classes, found.size());
  ImageSearch search(folder);
  search.leave_out_own();
  std::vector<std::vector<ImageFile>> of_class(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::int32_t label = label_of_folder(folder / found[i], i, request);
    for (fs::path& path : search.images_in(folder / found[i]))
      of_class[i].push_back({std::move(path), label});
  }
  warn_of_left_out(search);
  // In the order that training programs use.
  std::vector<ImageFile> files = take_in_turn(std::move(of_class));
  if (files.empty())
    fail(ErrorKind::missing, "{}: expected .jpg, .jpeg or .png files in its subfolders, found none",
         folder.string());
  return open_files(std::move(files), request.classes, request);
}

Inputs open_image_files_in(const fs::path& folder, const InputRequest& request) {
  std::vector<ImageFile> files;
  ImageSearch search(folder);
  for (fs::path& path : search.images_in(folder)) files.push_back({std::move(path)});
  warn_of_left_out(search);
  if (files.empty())
    fail(ErrorKind::missing,
         "{}: expected images (.jpg, .jpeg, .png), a subfolder for each class, or the files of "
         "MNIST or CIFAR, found none",
         folder.string());
  return open_files(std::move(files), 0, request);
}

// --- data sets ---

Inputs open_catalogued(const char* name, const fs::path& folder, const InputRequest& request) {
  return {open_dataset(name, folder, request.split), {}, {}, {}};
}

Inputs open_folder(const fs::path& folder, const InputRequest& request) {
  const bool is_test = request.split == DataSplit::test;
  const std::string idx = is_test ? "t10k-images" : "train-images";
  if (has(folder, {idx + "-idx3-ubyte", idx + "-idx3-ubyte.gz", idx + ".idx3-ubyte",
                   idx + ".idx3-ubyte.gz"}))
    return open_catalogued("mnist", folder, request);
  if (has(folder, {is_test ? "test_batch.bin" : "data_batch_1.bin"}))
    return open_catalogued("cifar10", folder, request);
  if (has(folder, {is_test ? "test.bin" : "train.bin"}))
    return open_catalogued("cifar100", folder, request);
  if (is_folder(folder / "train") || is_folder(folder / "test") || is_folder(folder / "val"))
    return open_class_folders(split_folder(folder, request.split), request);
  if (!has_images(folder) && has_subfolders(folder)) return open_class_folders(folder, request);
  return open_image_files_in(folder, request);
}

Inputs open_file(const fs::path& path, const InputRequest& request) {
  if (is_image_file(path)) return open_files({{path}}, 0, request);
  switch (idx_contents(path)) {
    case IdxContents::images:
      return {open_idx_images(path), {}, {}, {}};
    case IdxContents::labels:
      fail(ErrorKind::data, "{}: expected images, found labels; they are given with --labels",
           path.string());
    case IdxContents::nothing:
      break;
  }
  // CIFAR-100 has two labels for each image.
  if (path.extension() == ".bin")
    return {open_cifar({path}, request.classes, request.classes == 100 ? 2 : 1), {}, {}, {}};
  fail(ErrorKind::data,
       "{}: expected a JPEG or PNG image, an IDX file of images or a binary file of CIFAR (.bin), "
       "found something else",
       path.string());
}

Inputs open_path(const fs::path& path, const InputRequest& request) {
  if (is_folder(path)) return open_folder(path, request);
  const fs::file_status found = status_of(path);
  if (!fs::exists(found))
    fail(ErrorKind::missing, "{}: expected images, found no such file or folder", path.string());
  if (!fs::is_regular_file(found))
    fail(ErrorKind::data, "{}: expected a file or a folder of images", path.string());
  return open_file(path, request);
}

Inputs open_several(const InputRequest& request) {
  std::vector<ImageFile> files;
  for (const std::string& path : request.paths) {
    const fs::file_status found = status_of(path);
    if (!fs::exists(found))
      fail(ErrorKind::missing, "{}: expected an image, found no such file", path);
    if (!fs::is_regular_file(found) || !is_image_file(path))
      fail(ErrorKind::usage,
           "{}: several inputs are images in JPEG or PNG files; give a folder or a data set alone",
           path);
    files.push_back({path});
  }
  return open_files(std::move(files), 0, request);
}

// The evaluation data of a run of train_imagenet.
Inputs open_streamed(const InputRequest& request) {
  return open_files(read_as_told([&] { return evaluated_images(request.run); }), request.classes,
                    request);
}

// The run's evaluation data.
Inputs open_test_data(const InputRequest& request) {
  const FinishedRun& run = request.run;
  if (run.dataset.empty())
    fail(ErrorKind::usage,
         "no images were given, and the model's test data are not known; give --data PATH");
  const bool is_streamed = run.program == "train_imagenet";
  if (!is_streamed && !is_folder(run.data))
    fail(ErrorKind::missing,
         "the model's test data are not in {}, which about.json beside the model names; give "
         "--data PATH",
         run.data);
  if (is_streamed && request.split != DataSplit::test)
    fail(ErrorKind::usage, "--split train: give the folder of these images with --data");
  Inputs inputs = is_streamed ? open_streamed(request)
                  : run.dataset == "images"
                      ? open_class_folders(split_folder(run.data, request.split), request)
                      : Inputs{open_dataset(run.dataset, run.data, request.split), {}, {}, {}};
  if (request.split != DataSplit::test) return inputs;
  try {
    if (const auto first = run.flag("test-examples"); first && *first != "all")
      inputs.source->keep_first(program::parse_integer(*first, {1, INT64_MAX}));
  } catch (const std::invalid_argument&) {  // of another version; takes all examples instead
  }
  return inputs;
}

void fit_to(const std::optional<Shape>& example, DataSource& source, const std::string& place) {
  if (!example) return;
  const Field& field = source.header().field("x");
  if (field.shape == *example || field.is_image_file) return;
  if (field.shape.count() != example->count())
    fail(ErrorKind::data, "{}: expected examples of shape {}, which the model takes, found {}",
         place, example->text(), field.shape.text());
  source.reshape(*example);
}

// Leaves out image files that cannot be read.
void leave_out_unreadable(Inputs& inputs, int threads) {
  constexpr std::size_t most_shown = 3;
  const std::span<const ImageFile> files = inputs.source->image_files();
  ImageFindings findings = decode_images(files, threads);
  if (findings.unreadable.empty()) return;
  if (findings.unreadable.size() == files.size())
    fail(ErrorKind::data, "none of {} files can be read as a JPEG or PNG image: {}", files.size(),
         text_of(findings.unreadable, most_shown));
  log_warning("{} of {} image files cannot be read and are left out: {}",
              findings.unreadable.size(), files.size(), text_of(findings.unreadable, most_shown));
  std::vector<std::int64_t> numbers;
  for (const ImageProblem& each : findings.unreadable) numbers.push_back(each.number);
  inputs.source->leave_out(numbers);
  erase_numbered(inputs.names, numbers);
  erase_numbered(inputs.labels, numbers);
  inputs.unreadable = std::move(findings.unreadable);
}

}  // namespace

Inputs open_inputs(const InputRequest& request) {
  Inputs inputs = request.paths.empty()       ? open_test_data(request)
                  : request.paths.size() == 1 ? open_path(request.paths[0], request)
                                              : open_several(request);
  const std::string place = request.paths.empty() ? request.run.data : request.paths[0];
  fit_to(request.example, *inputs.source, place);
  if (inputs.source->header().has("t") &&
      inputs.source->header().field("t").classes > request.classes)
    fail(ErrorKind::data, "{}: expected labels of the model's {} classes, found a data set of {}",
         place, request.classes, inputs.source->header().field("t").classes);
  if (request.labels)
    inputs.labels = read_labels(*request.labels, request.classes, request.class_names,
                                inputs.source->header().count, place);
  if (request.examples) inputs.source->keep_first(*request.examples);
  if (inputs.source->header().count == 0)
    fail(ErrorKind::data, "{}: expected images, found none", place);
  leave_out_unreadable(inputs, request.threads);
  inputs.source->check();
  return inputs;
}

namespace {

// Names take precedence, because they may be numbers.
std::int32_t label_of(std::string_view text, std::int64_t classes,
                      const std::vector<std::string>& class_names, const TextFile& file) {
  const auto named = std::ranges::find(class_names, text);
  if (named != class_names.end()) return static_cast<std::int32_t>(named - class_names.begin());
  const auto number = number_in<std::int32_t>(text);
  if (!number || *number < 0 || *number >= classes)
    fail(ErrorKind::data, "{}: expected {}a number from 0 to {}, found '{}'", file.place(),
         class_names.empty() ? "" : "the name of a class or ", classes - 1, quoted_input(text));
  return *number;
}

}  // namespace

std::vector<std::int32_t> read_labels(const std::filesystem::path& file, std::int64_t classes,
                                      const std::vector<std::string>& class_names,
                                      std::int64_t examples, const std::string& place) {
  std::vector<std::int32_t> labels;
  switch (idx_contents(file)) {
    case IdxContents::labels:
      labels = read_idx_labels(file, classes);
      break;
    case IdxContents::images:
      fail(ErrorKind::data, "{}: expected labels, found images; they are given with --data",
           file.string());
    case IdxContents::nothing: {
      TextFile text(file);
      for (std::string_view line; text.next(line);)
        labels.push_back(label_of(line, classes, class_names, text));
    }
  }
  if (std::ssize(labels) != examples)
    fail(ErrorKind::data, "{}: expected {} labels, as many as examples in {}, found {}",
         file.string(), examples, place, labels.size());
  return labels;
}

std::vector<std::string> read_class_names(const std::filesystem::path& file, std::int64_t classes) {
  std::vector<std::string> names;
  TextFile text(file);
  for (std::string_view line; text.next(line);) names.emplace_back(line);
  if (std::ssize(names) != classes)
    fail(ErrorKind::data, "{}: expected the names of {} classes, one on each line, found {}",
         file.string(), classes, names.size());
  return names;
}

}  // namespace tasuki::predict
