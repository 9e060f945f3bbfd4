// Loads libtasuki_hdf5.so, which reads the files, when a file is to be opened.
#include "array_files/hdf5_dataset.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include "array_files/file_array.hpp"
#include "array_files/hdf5_entry.hpp"
#include "core/error.hpp"
#include "core/version.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

constexpr const char* hdf5_library_name = "libtasuki_hdf5.so";

// TASUKI_HDF5_LIBRARY, else the one beside libtasuki.so, else the one in the loader's path.
std::string hdf5_library_path() {
  if (const char* const chosen = std::getenv("TASUKI_HDF5_LIBRARY"); chosen && *chosen)
    return chosen;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&open_hdf5), &info) == 0 || info.dli_fname == nullptr)
    return hdf5_library_name;
  const fs::path beside = fs::path(info.dli_fname).parent_path() / hdf5_library_name;
  std::error_code ignored;
  return fs::exists(beside, ignored) ? beside.string() : hdf5_library_name;
}

// Its libhdf5 finds its own functions first, whatever HDF5 the program has. AddressSanitizer does
// not allow that.
#if defined(__SANITIZE_ADDRESS__)
constexpr int own_first = 0;
#elif defined(__has_feature)
constexpr int own_first = __has_feature(address_sanitizer) ? 0 : RTLD_DEEPBIND;
#else
constexpr int own_first = RTLD_DEEPBIND;
#endif

const Hdf5Entry& load_hdf5() {
  const std::string path = hdf5_library_path();
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | own_first);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    if (path == hdf5_library_name)
      fail(ErrorKind::unavailable,
           "this Tasuki was built without HDF5: there is no {} beside its library or on the "
           "loader's path; install libhdf5-dev and build it again, or convert the data to .npy",
           hdf5_library_name);
    fail(ErrorKind::unavailable, "HDF5 cannot be loaded: {}",
         why != nullptr ? why : "dlopen failed");
  }
  const auto* const entry = static_cast<const Hdf5Entry*>(::dlsym(library, hdf5_entry_name));
  if (entry == nullptr) fail(ErrorKind::unavailable, "{} is not Tasuki's library for HDF5", path);
  // version() is "0.1.0 (commit)".
  const std::string_view own = version();
  if (own.substr(0, own.find(' ')) != entry->version)
    fail(ErrorKind::unavailable,
         "{} belongs to Tasuki {}, but this is {}; install both from the same build", path,
         entry->version, own);
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
