#include "array_files/hdf5/library.hpp"

#include <string>

#include "core/error.hpp"
#include "core/printable.hpp"

namespace tasuki::hdf5 {
namespace {

std::recursive_mutex& mutex_of_library() {
  static std::recursive_mutex mutex;
  return mutex;
}

// Keeps the description of the first error, where HDF5 met the problem.
herr_t keep_first(unsigned number, const H5E_error2_t* error, void* to) {
  if (number == 0 && error->desc != nullptr) *static_cast<std::string*>(to) = error->desc;
  return 0;
}

}  // namespace

Turn::Turn() : lock_(mutex_of_library()) {
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_to_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Turn::~Turn() {
  H5Eset_auto2(H5E_DEFAULT, print_, print_to_);
}

void fail_because_of_hdf5(std::string_view place, std::string_view what) {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &reason);
  H5Eclear2(H5E_DEFAULT);
  constexpr std::size_t longest_reason = 200;
  fail(ErrorKind::data, "{}: {}: {}", place, what,
       reason.empty() ? "HDF5 gives no reason" : printable(reason, longest_reason));
}

}  // namespace tasuki::hdf5
