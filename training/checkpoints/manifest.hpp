// The manifest of a generation (generation.hpp): which files and arrays belong to it, with hashes.
//
// A text file in JSON, one line for each array. Its last line is the XXH3 of all lines before, and
// it is read only if it has exactly the form in which it was written, so any change is found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/range.hpp"
#include "tensor/shape.hpp"

namespace tasuki {

inline constexpr const char* manifest_name = "manifest.json";

struct Manifest {
  // Part of an array that is divided between several files.
  struct Piece {
    Range range;  // of the elements in the array's order
    Shape whole;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  struct Array {
    std::string name;
    std::uint64_t hash = 0;      // XXH3 of the entry, an array in NPY format
    std::optional<Piece> piece;  // nothing: all of the array
    friend bool operator==(const Array&, const Array&) = default;
  };
  // An NPZ file in the manifest's folder.
  struct File {
    std::string name;
    std::string part;  // of the model: the suffix of a replica set; empty: all of it
    std::uint64_t bytes = 0;
    std::uint64_t hash = 0;  // of all of it, as in npz.hpp
    std::vector<Array> arrays;
    friend bool operator==(const File&, const File&) = default;
  };

  std::string id;  // of the save: 32 random hexadecimal digits, the same on all disks
  std::int64_t iteration = 0, epoch = 0;
  std::int64_t parts = 1;   // of the model, on all disks
  std::vector<File> files;  // on this disk

  // The contents of the file.
  std::string text() const;
  // The reverse. Throws an error of kind data that begins with `place` and names what is wrong.
  static Manifest parse(std::string_view text, std::string_view place);
  // Of the generation in `folder`; an error of kind missing if there is none, of kind data if
  // it is damaged, of kind io if it cannot be read.
  static Manifest read(const std::filesystem::path& folder);

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// A File as one line of text, and back: for the writer of a manifest to get it from another rank.
std::string to_line(const Manifest::File& file);
Manifest::File file_of_line(std::string_view line);

}  // namespace tasuki
