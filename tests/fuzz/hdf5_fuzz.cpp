// Data sets of HDF5 files: what we do with what libhdf5 says of a file, which may be anything.
#include <algorithm>

#include "array_files/hdf5_dataset.hpp"
#include "fuzz.hpp"

using namespace tasuki;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t mode = input.number();
  static fuzz::MemoryFile file;
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
  return 0;
}
