// ArraySource: named arrays to read, from a file of any format or from a checkpoint.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "saving/npz_entry.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

struct ArrayType {
  Shape shape;
  std::optional<DType> dtype;  // nothing: text, or `unreadable`
  // Why its elements cannot be read ("has elements of NumPy's type ..."); empty: they can.
  std::string unreadable{};
};

// Named arrays and texts: of an NPZ file (npz.hpp), a safetensors file (safetensors.hpp), or a
// checkpoint (checkpoint.hpp), which has several files.
class ArraySource {
 public:
  virtual ~ArraySource() = default;

  // The file or folder, for messages.
  virtual const std::filesystem::path& path() const = 0;
  // Of a file in the order in which they were written.
  virtual std::vector<std::string> names() const = 0;
  // Shape and type; nothing if there is no entry of this name.
  virtual std::optional<ArrayType> find(const std::string& name) const = 0;
  // The entry's values in host memory. A missing or damaged entry is an error of kind data that
  // names it and the source.
  virtual NpzValue read(const std::string& name) const = 0;
  // Whether a model that is loaded keeps its own values where this source has no such entry.
  virtual bool may_lack(const std::string& /*name*/) const { return false; }
};

}  // namespace tasuki
