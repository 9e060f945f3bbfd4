// Data sets of NumPy's arrays: .npy files in a folder, or the members of an .npz file.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "array_files/array_fields.hpp"
#include "dataset/dataset.hpp"

namespace tasuki {

// `path` is a folder, in which ArrayFileField::array names a file ("x.npy", or "x" for it), or an
// .npz file, in which it names a member ("x"). Arrays are in C order, of any type of numbers, with
// bytes in either order:
//   open_npy("data", {{"x", "x.npy"}, {"t", "labels.npy", /*is_target=*/true, /*classes=*/10}})
//
// Files are mapped (mapped_file.hpp), so examples are read when a batch needs them and the data may
// be larger than memory; only a member that is compressed is unpacked into memory. So whether a
// file is as long as its header says is checked when it is opened, and an .npz file's directory,
// too; the values of a mapped member are not compared with its checksum. Errors are of kind missing
// or data, and name the file and the field.
std::shared_ptr<const Dataset> open_npy(const std::filesystem::path& path,
                                        const std::vector<ArrayFileField>& fields);

}  // namespace tasuki
