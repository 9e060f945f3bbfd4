#include "tools/predict/model_parts.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "saving/model_file.hpp"
#include "saving/name_map.hpp"
#include "saving/npz.hpp"
#include "saving/saved_states.hpp"

namespace tasuki::predict {
namespace {

namespace fs = std::filesystem;

fs::path file_of(fs::path place, std::size_t part) {
  return place += fmt::format(".{}", part);
}

// The arrays of an entry, from the parts that have it.
std::vector<Tensor> arrays_of(const ModelFiles& files, const std::string& name) {
  std::vector<Tensor> arrays;
  for (const auto& part : files.parts)
    if (const auto header = part->find(name); header && header->dtype)
      arrays.push_back(std::get<Tensor>(part->read(name)));
  return arrays;
}

// The only axis along which the arrays add up to `whole`; nothing if no single axis does.
std::optional<int> divided_axis(const std::vector<Tensor>& arrays, const Shape& whole) {
  for (int axis = 0; axis < whole.rank(); ++axis) {
    std::int64_t sum = 0;
    const bool fits = std::ranges::all_of(arrays, [&](const Tensor& array) {
      const Shape& shape = array.shape();
      if (shape.rank() != whole.rank() || array.dtype() != arrays[0].dtype()) return false;
      for (int other = 0; other < whole.rank(); ++other)
        if (other != axis && shape[other] != whole[other]) return false;
      sum += shape[axis];
      return true;
    });
    if (fits && sum == whole[axis]) return axis;
  }
  return std::nullopt;
}

// The arrays concatenated along the axis.
Tensor concatenate(const std::vector<Tensor>& arrays, int axis, const Shape& whole) {
  Tensor joined = Tensor::empty(whole, arrays[0].dtype());
  std::int64_t runs = 1;  // contiguous runs of memory in which the arrays alternate
  for (int before = 0; before < axis; ++before) runs *= whole[before];
  auto* to = static_cast<std::byte*>(joined.raw());
  for (std::int64_t run = 0; run < runs; ++run)
    for (const Tensor& array : arrays) {
      const std::size_t bytes = array.bytes() / static_cast<std::size_t>(runs);
      std::memcpy(
          to, static_cast<const std::byte*>(array.raw()) + static_cast<std::size_t>(run) * bytes,
          bytes);
      to += bytes;
    }
  return joined;
}

std::string shapes_text(const std::vector<Tensor>& arrays) {
  std::vector<std::string> texts;
  texts.reserve(arrays.size());
  for (const Tensor& array : arrays) texts.push_back(array.shape().text());
  return texts.empty() ? "in none of them" : join(texts, ", ");
}

// The array `path`, whose shape in the model is `whole`.
Tensor whole_array(const ModelFiles& files, const std::string& prefix, const std::string& path,
                   const Shape& whole) {
  const std::vector<Tensor> arrays = arrays_of(files, prefix + path);
  if (!arrays.empty() && arrays[0].shape() == whole) return arrays[0];
  if (!arrays.empty())
    if (const auto axis = divided_axis(arrays, whole)) return concatenate(arrays, *axis, whole);
  fail(ErrorKind::data, "{} is of another model: in its {} parts, {} is {}; the model has {}",
       files.place.string(), files.parts.size(), path, shapes_text(arrays), whole.text());
}

}  // namespace

ModelFiles open_model(const fs::path& path) {
  const fs::path named = followed(path);
  std::error_code ignored;
  const bool is_folder = fs::is_directory(named, ignored);
  const int parts = model_parts_in(is_folder ? named : fs::absolute(named).parent_path());
  ModelFiles files{.place = named, .parts = {}};
  if (is_folder) {
    files.parts = open_newest_intact(named, "--model", parts);
    files.place = without_part_suffix(files.parts.front()->path(), parts);
    return files;
  }
  if (part_number(named)) {
    files.place.replace_extension();
  } else if (fs::exists(named, ignored) || parts == 1) {
    files.parts.push_back(open_model_file(named));
    return files;
  }
  for (std::size_t part = 0; part < static_cast<std::size_t>(parts); ++part)
    files.parts.push_back(
        std::make_unique<NpzFile>(file_of(files.place, part), /*require_hash=*/true));
  return files;
}

void load_parts(const ModelFiles& files, const std::string& prefix,
                const std::optional<std::string>& map, const Module& model) {
  if (files.parts.size() == 1) {
    const std::vector<std::string> names = array_names(model);
    const std::string named = map              ? *map
                              : prefix.empty() ? fitting_map(*files.parts[0], names)
                                               : tasuki_names;
    if (named == tasuki_names)
      load_npz(*files.parts[0], model, prefix);
    else
      load_npz(MappedSource(*files.parts[0], read_name_map(named), names), model);
    return;
  }
  for (const auto& [path, parameter] : model.unshaped_parameters())
    if (const auto arrays = arrays_of(files, prefix + path); !arrays.empty())
      parameter->set_shape(arrays[0].shape());
  for (const auto& [path, parameter] : model.parameters())
    parameter->value().copy_from(whole_array(files, prefix, path, parameter->value().shape()));
  for (const auto& [path, buffer] : model.buffers())
    buffer->copy_from(whole_array(files, prefix, path, buffer->shape()));
}

}  // namespace tasuki::predict
