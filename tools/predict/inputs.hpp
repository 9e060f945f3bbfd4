// The images to classify, in any of several formats; labels and class names from separate files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/catalog.hpp"
#include "dataset/data_source.hpp"
#include "dataset/images/image_check.hpp"
#include "tools/predict/trained_model.hpp"

namespace tasuki::predict {

// Settings known before files are opened.
struct InputRequest {
  std::vector<std::string> paths;  // empty: the test data of the run
  std::optional<std::string> labels;
  DataSplit split = DataSplit::test;            // of a folder that has both
  std::optional<std::int64_t> examples;         // only the first ones
  std::optional<Shape> example;                 // the shape that the network takes
  std::optional<std::int64_t> image_side;       // of image files, replaces that shape's sides
  Exif exif = Exif::apply;                      // of image files
  int threads = 1;                              // to look for damaged image files
  std::int64_t classes = 0;                     // labels: 0 .. classes - 1
  const std::vector<std::string>& class_names;  // their names; empty: not known
  const FinishedRun& run;
};

struct Inputs {
  std::unique_ptr<DataSource> source;    // fields "x", and "t" if the data have labels
  std::vector<std::string> names;        // of the examples; empty: they are numbered
  std::vector<std::int32_t> labels;      // of --labels; empty: none
  std::vector<ImageProblem> unreadable;  // image files that were left out
};

// Opens them:
// - a JPEG or PNG file, or several, or a folder of them, without labels;
// - a folder with a subfolder named after each class, or a folder with such folders for its splits
//   (image_folder.hpp), from all classes in turn;
// - an IDX file of images, or a folder with MNIST's four files;
// - a binary file of CIFAR, or a folder with them.
// Missing paths, other kinds of files, and labels that do not fit the classes are errors that name
// the path. Image files are decoded once; unreadable ones are left out, which is an error if none
// remain.
Inputs open_inputs(const InputRequest& request);

// One label for each of `examples` examples in `place`: an IDX file of labels, or text with a
// number or the name of a class on each line. Another number of labels, or a label outside the
// classes, is an error of kind data.
std::vector<std::int32_t> read_labels(const std::filesystem::path& file, std::int64_t classes,
                                      const std::vector<std::string>& class_names,
                                      std::int64_t examples, const std::string& place);

// The name of each class, one per line. Another number of names is an error of kind data.
std::vector<std::string> read_class_names(const std::filesystem::path& file, std::int64_t classes);

}  // namespace tasuki::predict
