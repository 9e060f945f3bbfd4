// Loads libtasuki_hdf5.so, which reads the files, when a file is to be opened.
#include "array_files/hdf5_dataset.hpp"

#include <string>
#include <string_view>

#include "array_files/file_array.hpp"
#include "array_files/hdf5_entry.hpp"
#include "core/error.hpp"
#include "core/own_library.hpp"
#include "core/version.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

constexpr OwnLibrary hdf5_library = {
    "libtasuki_hdf5.so", "TASUKI_HDF5_LIBRARY", "HDF5",
    "install libhdf5-dev and build it again, or convert the data to .npy"};

const Hdf5Entry& load_hdf5() {
  const auto* const entry = static_cast<const Hdf5Entry*>(symbol_in(hdf5_library, hdf5_entry_name));
  // version() is "0.1.0 (commit)".
  const std::string_view own = version();
  if (own.substr(0, own.find(' ')) != entry->version)
    fail(ErrorKind::unavailable,
         "{} belongs to Tasuki {}, but this is {}; install both from the same build",
         hdf5_library.name, entry->version, own);
  return *entry;
}

}  // namespace

std::shared_ptr<const Dataset> open_hdf5(const fs::path& path,
                                         const std::vector<ArrayFileField>& fields) {
  static const Hdf5Entry& entry = load_hdf5();
  std::vector<std::string> names;
  names.reserve(fields.size());
  for (const ArrayFileField& field : fields) names.push_back(field.array);
  return dataset_of(fields, entry.open(path, names));
}

}  // namespace tasuki
