// ArraySource: named arrays and texts to read from, wherever they lie: an NPZ file (npz.hpp), or a
// folder with several of them (training/checkpoints/generation.hpp).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "training/snapshots/npy.hpp"

namespace tasuki {

class ArraySource {
 public:
  virtual ~ArraySource() = default;

  // The file or folder, for messages.
  virtual const std::filesystem::path& path() const = 0;
  // In the order in which they were written.
  virtual std::vector<std::string> names() const = 0;
  // Shape and type; nothing if there is no entry of this name.
  virtual std::optional<ArrayType> find(const std::string& name) const = 0;
  // The entry's values in host memory. A missing or damaged entry is an error of kind data that
  // names it and the source.
  virtual NpzValue read(const std::string& name) const = 0;
};

}  // namespace tasuki
