// Readers of rows of an HDF5 data set that is not one piece of its file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "array_files/file_array.hpp"
#include "array_files/hdf5/library.hpp"
#include "array_files/mapped_file.hpp"

namespace tasuki::hdf5 {

// An open data set.
struct OpenArray {
  std::string place;
  Handle dataset, type;
  std::vector<hsize_t> sizes;  // at least one
  std::size_t row_bytes = 0;
  std::int64_t chunk_rows = 1;
  // Rows that HDF5 reads at once: those of a chunk, or fewer if they are large.
  std::int64_t slab_rows = 1;

  OpenArray() = default;
  OpenArray(OpenArray&&) = default;
  OpenArray& operator=(OpenArray&&) = default;
  ~OpenArray();  // takes a Turn
};

// Along axis 0.
std::int64_t chunks_of(const OpenArray& array);

// Reads slabs of rows by HDF5 and keeps the last ones.
std::shared_ptr<const RowReader> slab_reader(OpenArray array);

// For chunks of whole rows without filters: copies rows from the mapped file. Asks HDF5 once for
// the place of each chunk; chunks that the file lacks (their values are the fill value) are read as
// slabs. There must be at most `most_mapped_chunks`.
inline constexpr std::int64_t most_mapped_chunks = std::int64_t{1} << 24;
std::shared_ptr<const RowReader> chunk_reader(OpenArray array,
                                              std::shared_ptr<const MappedFile> file);

}  // namespace tasuki::hdf5
