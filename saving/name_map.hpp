// Names that the arrays of a model have in files of other frameworks.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saving/array_source.hpp"

namespace tasuki {

// Patterns, a line for each:
//
//      transformer.wte.weight   = embed/W
//      h.*.mlp.c_fc.weight      = blocks/*/hidden/W   transposed
//      *.num_batches_tracked    = */N                 optional
//      *.attn.bias              = -
//      -                        = fc/*
//
// The name in the file stands before the equals sign, the model's name after it. `*` is any text of
// at least one character. The stars of both sides stand for the same texts in the same order, with
// dots in the file's name and slashes in the model's. Several lines may fit an array; the
// first one whose name is in the file counts, and files are written with the first. An array that
// no line fits has the model's name in the file.
//
// "transposed": the file's matrix has columns for rows. "optional": where the file lacks the array,
// the model keeps its own. "-" on the right: the file's array is ignored; on the left: the model
// keeps its own whatever the file has. `#` begins a comment.
class NameMap {
 public:
  NameMap() = default;
  // Errors of kind data begin with `place` and the number of the line.
  static NameMap parse(std::string_view text, std::string_view place);

  struct Name {
    std::string name;
    bool is_transposed = false;
  };
  // The names in a file that an array of the model may have, by the order of the lines; at least
  // one, unless the model keeps its own.
  std::vector<Name> names_in_file(std::string_view model_name) const;
  // The names in a model that an array of a file may have.
  std::vector<Name> names_in_model(std::string_view name_in_file) const;
  // Whether the model may keep its own array.
  bool may_lack(std::string_view model_name) const;
  // Whether an array in a file is to be ignored.
  bool ignores(std::string_view name_in_file) const;

 private:
  struct Line {
    std::string in_file, in_model;  // "-": none
    bool is_transposed = false, is_optional = false;
  };
  std::vector<Line> lines_;
};

// The maps that Tasuki has for PyTorch's files: "torchvision", for all networks that have
// torchvision's structure, and "gpt2", for the transformer of models/gpt.hpp.
struct KnownNameMap {
  std::string name;
  NameMap map;
};
const std::vector<KnownNameMap>& known_name_maps();
// The name of the empty map, with which a file has the model's names.
inline constexpr const char* tasuki_names = "tasuki";
// A known one by its name, the empty one by "tasuki", or the contents of a file.
NameMap read_name_map(const std::string& name_or_file);

// A file under a model's names. Arrays of the file that belong to none of them keep their names,
// except those that the map ignores.
class MappedSource final : public ArraySource {
 public:
  // `file` outlives this object. `model_names`: of all arrays of the model.
  MappedSource(const ArraySource& file, NameMap map, const std::vector<std::string>& model_names);

  const std::filesystem::path& path() const override { return file_.path(); }
  std::vector<std::string> names() const override { return names_; }
  std::optional<ArrayType> find(const std::string& name) const override;
  // A matrix that should be transposed, and is none, is an error of kind data.
  NpzValue read(const std::string& name) const override;
  bool may_lack(const std::string& name) const override { return map_.may_lack(name); }

 private:
  const ArraySource& file_;
  NameMap map_;
  std::map<std::string, NameMap::Name> found_;  // by the model's names
  std::vector<std::string> names_;
};

// The known map under which the file has most of the model's arrays, and more than under the
// model's own names; else "tasuki".
std::string fitting_map(const ArraySource& file, const std::vector<std::string>& model_names);

// The matrix with columns for rows, in host memory. Any other array is an error of kind data that
// begins with `name`.
Tensor transposed(const Tensor& matrix, std::string_view name);

}  // namespace tasuki
