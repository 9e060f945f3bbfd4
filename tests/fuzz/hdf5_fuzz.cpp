// Data sets of HDF5 files: what we do with what libhdf5 says of a file, which may be anything.
#include <hdf5.h>

#include <algorithm>

#include "array_files/hdf5_dataset.hpp"
#include "fuzz.hpp"

using namespace tasuki;

// libhdf5 1.10 loses memory itself when H5Fopen refuses some damaged headers. Whether we close the
// files, data sets and types that we open is checked by counting them.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libhdf5";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t mode = input.number();
  static fuzz::InputFile file;
  file.write(input.rest());
  for (const char* const name : {"contiguous", "chunked", "gzip"})
    fuzz::accepts([&] {
      ArrayFileField field{"x", name};
      if (mode % 2 == 1) field.type = DType::int64;
      const auto opened = open_hdf5(file.path(), {field});
      constexpr std::int64_t few = 32, small = 1 << 16;
      if (opened->header().fields[0].shape.count() > small) return;
      std::vector<std::int64_t> backward;
      for (std::int64_t i = std::min(few, opened->size()); i-- > 0;) backward.push_back(i);
      read_field(*opened, 0, backward);
    });
  fuzz::require(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) == 0, "an object was not closed");
  return 0;
}
