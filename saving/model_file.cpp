#include "saving/model_file.hpp"

#include <map>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "saving/npz.hpp"
#include "saving/regular_file.hpp"
#include "saving/safetensors.hpp"

namespace tasuki {
namespace {

// All entries of a model that a file keeps.
std::vector<NpzEntry> entries_of(const Module& model) {
  std::vector<NpzEntry> entries;
  for (const auto& [path, parameter] : model.parameters())
    entries.push_back({path, parameter->value()});
  for (const auto& [path, buffer] : model.buffers()) entries.push_back({path, *buffer});
  return entries;
}

// The same, whose values need not be in memory.
std::vector<std::pair<std::string, const Tensor*>> arrays_of(const Module& model) {
  std::vector<std::pair<std::string, const Tensor*>> arrays;
  for (const auto& [path, parameter] : model.parameters())
    arrays.emplace_back(path, &parameter->value_storage());
  for (const auto& [path, buffer] : model.buffers()) arrays.emplace_back(path, buffer);
  return arrays;
}

std::set<std::string> names_of(const Module& model) {
  const std::vector<std::string> names = array_names(model);
  return {names.begin(), names.end()};
}

// For a file that has none of a model's arrays.
std::string what_is_there(const ArraySource& source) {
  constexpr std::size_t most_shown = 3;
  std::vector<std::string> names = source.names();
  if (names.empty()) return "; it has no arrays";
  if (names.size() > most_shown) {
    names.resize(most_shown);
    names.emplace_back("...");
  }
  return fmt::format("; it has {}; a map of names may help (docs/weights.md)",
                     printable(join(names, ", "), 200));
}

}  // namespace

std::vector<std::string> array_names(const Module& model) {
  std::vector<std::string> names;
  for (const auto& [path, parameter] : model.all_parameters()) names.push_back(path);
  for (const auto& [path, buffer] : model.buffers()) names.push_back(path);
  return names;
}

std::unique_ptr<ArraySource> open_model_file(const std::filesystem::path& path) {
  RegularFile file(path);
  if (is_safetensors(file)) return std::make_unique<SafetensorsFile>(std::move(file));
  return std::make_unique<NpzFile>(file);
}

void save_npz(const std::filesystem::path& path, const Module& model) {
  write_npz(path, entries_of(model));
}

void save_safetensors(const std::filesystem::path& path, const Module& model) {
  write_safetensors(path, entries_of(model), {{"format", "pt"}});  // as loaders of PyTorch want it
}

std::string describe_difference(const ArraySource& source, const std::string& prefix,
                                const Module& model) {
  const std::vector<std::pair<std::string, const Tensor*>> entries = arrays_of(model);
  int differing = 0;
  std::size_t missing = 0;
  std::string first;
  const auto differs = [&](const std::string& difference) {
    if (differing++ == 0) first = difference;
  };
  const auto differs_in_type = [&](const std::string& path, const std::optional<ArrayType>& found) {
    if (!found || found->unreadable.empty()) return false;
    differs(fmt::format("{} {}", path, found->unreadable));
    return true;
  };
  const std::vector<Module::NamedParameter> unshaped = model.unshaped_parameters();
  for (const auto& [path, parameter] : unshaped) {
    const auto found = source.find(prefix + path);
    if (!differs_in_type(path, found) && found &&
        !(found->dtype && parameter->accepts(found->shape)))
      differs(fmt::format("{} is {} in the file and {} in the model", path, found->shape.text(),
                          parameter->shape_text()));
  }
  for (const auto& [path, tensor] : entries) {
    const auto found = source.find(prefix + path);
    if (differs_in_type(path, found)) continue;
    if (found && found->dtype && found->shape == tensor->shape()) continue;
    if (!found && source.may_lack(prefix + path)) continue;
    if (!found) ++missing;
    differs(found ? fmt::format("{} is {} in the file and {} in the model", path,
                                found->shape.text(), tensor->shape().text())
                  : fmt::format("{} ({}) is not in the file", path, tensor->shape().text()));
  }
  if (differing == 0) return "";
  std::string text =
      fmt::format("{} is of another model: {} ({} of the model's {} arrays differ)",
                  source.path().string(), first, differing, entries.size() + unshaped.size());
  if (missing > 0 && missing == entries.size()) text += what_is_there(source);
  return text;
}

std::vector<std::string> entries_not_in(const Module& model, const ArraySource& source,
                                        const std::string& prefix) {
  const std::set<std::string> known = names_of(model);
  std::vector<std::string> unknown;
  for (const std::string& name : source.names())
    if (name.starts_with(prefix) && !known.contains(name.substr(prefix.size())))
      unknown.push_back(name.substr(prefix.size()));
  return unknown;
}

void load_npz_later(const std::shared_ptr<const ArraySource>& source, const Module& model,
                    const std::string& prefix, const CheckArray& check) {
  if (const std::string difference = describe_difference(*source, prefix, model);
      !difference.empty())
    fail(ErrorKind::data, "{}", difference);
  const auto read = [](const ArraySource& from, const std::string& name) {
    return std::get<Tensor>(from.read(name));
  };
  // Damaged entries are found before anything changes.
  for (const std::string& name : names_of(model))
    if (source->find(prefix + name)) check(name, read(*source, prefix + name));
  for (const auto& [path, parameter] : model.all_parameters()) {
    const auto found = source->find(prefix + path);
    if (!found) continue;
    if (!parameter->has_shape()) parameter->set_shape(found->shape);
    parameter->initialize_later([source, read, name = prefix + path](const Tensor& value) {
      value.copy_from(read(*source, name));
    });
  }
  for (const auto& [path, buffer] : model.buffers())
    if (source->find(prefix + path)) buffer->copy_from(read(*source, prefix + path));
}

void load_npz(const std::filesystem::path& path, const Module& model, const std::string& prefix) {
  load_npz(*open_model_file(path), model, prefix);
}

void load_npz(const ArraySource& source, const Module& model, const std::string& prefix) {
  if (const std::string difference = describe_difference(source, prefix, model);
      !difference.empty())
    fail(ErrorKind::data, "{}", difference);
  // Damaged entries are found before anything changes.
  std::map<std::string, Tensor> values;
  for (const std::string& name : names_of(model))
    if (source.find(prefix + name))
      values.emplace(name, std::get<Tensor>(source.read(prefix + name)));
  for (const auto& [path_in_file, parameter] : model.unshaped_parameters())
    if (const auto found = source.find(prefix + path_in_file)) parameter->set_shape(found->shape);
  for (const auto& [name, parameter] : model.parameters())
    if (const auto found = values.find(name); found != values.end())
      parameter->write_value(found->second);
  for (const auto& [name, buffer] : model.buffers())
    if (const auto found = values.find(name); found != values.end())
      buffer->copy_from(found->second);
}

}  // namespace tasuki
