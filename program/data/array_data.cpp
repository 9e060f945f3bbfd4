#include "program/data/array_data.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "array_files/hdf5_dataset.hpp"
#include "array_files/npy_dataset.hpp"
#include "communicator/number_bytes.hpp"
#include "communicator/run_on_root.hpp"
#include "core/activity.hpp"
#include "core/error.hpp"

namespace tasuki::program {
namespace {

constexpr std::int64_t most_classes = 1 << 20;

// The arrays of "x" and "t", in this order.
std::vector<ArrayFileField> fields_of(std::string_view flag, const std::string& text) {
  std::vector<ArrayFileField> fields = parse_array_fields(flag, text);
  std::ranges::sort(fields, std::ranges::greater(), &ArrayFileField::name);
  if (fields.size() != 2 || fields[0].name != "x" || fields[1].name != "t")
    fail(ErrorKind::usage, "{}: expected arrays for the fields x and t, found '{}'", flag, text);
  return fields;
}

std::int64_t largest_label(const Dataset& data) {
  constexpr std::int64_t at_once = 1 << 16;
  const std::size_t field = data.header().index_of("t");
  std::int32_t largest = 0;
  std::vector<std::int64_t> numbers;
  for (std::int64_t begin = 0; begin < data.size(); begin += at_once) {
    numbers.resize(static_cast<std::size_t>(std::min(at_once, data.size() - begin)));
    std::iota(numbers.begin(), numbers.end(), begin);
    const Tensor labels = read_field(data, field, numbers).values;
    largest = std::max(largest, std::ranges::max(labels.span<std::int32_t>()));
  }
  return largest;
}

}  // namespace

bool has_array_files(const ProgramData& program) {
  return program.dataset == "hdf5" || program.dataset == "npy";
}

void add_array_file_flags(Options& options, ArrayFileSettings& settings) {
  options
      .add("fields", settings.fields, "F=ARRAY,...",
           "of hdf5 and npy: the arrays with the examples `x` and their labels `t`, whose axis 0 "
           "numbers the examples: data sets of an HDF5 file (x=/images,t=/labels), .npy files in "
           "the folder --data, or arrays of the .npz file --data")
      .in_short("arrays of hdf5 and npy");
  options
      .add("test-fields", settings.test_fields, "auto", "F=ARRAY,...",
           "the arrays to evaluate on; auto: those of --fields, in --test-data")
      .on_screen = OnScreen::no;
  options
      .add("test-data", settings.test_data, "none", "PATH",
           "of hdf5 and npy: the file or folder with the arrays to evaluate on; none: --data if "
           "--test-fields is given, else nothing is evaluated")
      .in_short("arrays to evaluate on");
  options
      .add("classes", settings.classes, "auto", {1, most_classes}, "N",
           "of hdf5 and npy: the number of classes; auto: one more than the largest label to "
           "train on")
      .on_screen = OnScreen::no;
  options
      .add("stream", settings.stream,
           "of hdf5 and npy: each rank reads the examples of its batches from the file, for data "
           "larger than memory; by default rank 0 reads all once and sends each rank its share")
      .on_screen = OnScreen::no;
}

void check_array_file_flags(const Options& options, const ProgramData& program,
                            const TrainingSettings& settings) {
  if (!has_array_files(program)) {
    for (const char* const flag : {"fields", "test-fields", "test-data", "classes", "stream"})
      if (options.is_changed(flag))
        fail_everywhere(ErrorKind::usage, "--{}: only with --dataset hdf5 or npy, found {}", flag,
                        program.dataset);
    return;
  }
  if (!settings.data)
    fail_everywhere(ErrorKind::usage, "--dataset {}: expected --data {}", program.dataset,
                    program.dataset == "hdf5" ? "FILE" : "FOLDER or FILE.npz");
  try {
    fields_of("--fields", program.arrays.fields);
    if (program.arrays.test_fields) fields_of("--test-fields", *program.arrays.test_fields);
  } catch (const Error& error) {
    fail_everywhere(error.kind(), "{}", error.what());
  }
}

bool has_test_arrays(const ProgramData& program) {
  return program.arrays.test_data || program.arrays.test_fields;
}

std::int64_t classes_of_arrays(const ProgramData& program, const TrainingSettings& settings,
                               Communicator& communicator) {
  if (program.arrays.classes) return *program.arrays.classes;
  const Bytes sent = run_on_root(communicator, 0, [&] {
    const PhaseScope reading(Phase::reading_data);
    const auto data = open_array_files(program, settings, DataSplit::train, 0);
    const std::int64_t classes = largest_label(*data) + 1;
    if (classes > most_classes)
      fail(ErrorKind::data, "field 't': {}: expected labels below {}, found {}", *settings.data,
           most_classes, classes - 1);
    return encode_numbers({&classes, 1});
  });
  return decode_numbers(sent).at(0);
}

std::shared_ptr<const Dataset> open_array_files(const ProgramData& program,
                                                const TrainingSettings& settings, DataSplit split,
                                                std::int64_t classes) {
  const ArrayFileSettings& arrays = program.arrays;
  const bool is_test = split == DataSplit::test;
  std::vector<ArrayFileField> fields = is_test && arrays.test_fields
                                           ? fields_of("--test-fields", *arrays.test_fields)
                                           : fields_of("--fields", arrays.fields);
  const std::string& path = is_test && arrays.test_data ? *arrays.test_data : settings.data.value();
  fields[0].type = DType::float32;
  fields[0].example = program.example_shape;
  fields[1].type = DType::int32;
  fields[1].example = Shape();
  fields[1].is_target = true;
  fields[1].classes = classes;
  return program.dataset == "hdf5" ? open_hdf5(path, fields) : open_npy(path, fields);
}

}  // namespace tasuki::program
