// Data sets of arrays in an HDF5 file.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "array_files/array_fields.hpp"
#include "dataset/dataset.hpp"

namespace tasuki {

// ArrayFileField::array is the path of an HDF5 data set in the file ("/run/images") whose numbers
// are of any standard type, with bytes in either order. It may be contiguous, chunked, compressed
// (by a filter that HDF5 has, such as gzip) or virtual:
//   open_hdf5("run.h5", {{"x", "/images"}, {"t", "/labels", /*is_target=*/true, /*classes=*/10}})
//
// Examples are read when a batch needs them. What is not compressed is mapped (mapped_file.hpp) if
// whole examples lie in the file as they are; else pieces of several examples, as large as a chunk,
// are read by HDF5, and the last 64 MiB of each field are kept. So shuffled examples of compressed
// data are slow where a rank's examples take more memory than that.
//
// Of chunks larger than 16 MiB, HDF5 keeps more for each field while the data set exists: the
// chunks that hold one example, up to 256 MiB, and a compressed chunk whatever its size (HDF5
// allows less than 4 GiB). Where an example is divided between compressed chunks that take more
// than 256 MiB together, all of them are unpacked again for every 16 MiB of examples.
//
// The first file loads libtasuki_hdf5.so, which is linked to libhdf5. It calls that library even in
// a program that has another HDF5, such as a parallel one. HDF5 is not made for threads: data sets
// take turns, and a program that calls the same libhdf5 must not do so at the same time.
//
// Errors name the file, the field and the data set: of kind missing or data, with HDF5's reason; of
// kind unavailable if this Tasuki was built without HDF5.
std::shared_ptr<const Dataset> open_hdf5(const std::filesystem::path& path,
                                         const std::vector<ArrayFileField>& fields);

}  // namespace tasuki
