#include "saving/model_file.hpp"

#include <map>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "saving/npz.hpp"

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

// All entries that a file may have for it.
std::set<std::string> names_of(const Module& model) {
  std::set<std::string> names;
  for (const NpzEntry& entry : entries_of(model)) names.insert(entry.name);
  for (const auto& [path, parameter] : model.unshaped_parameters()) names.insert(path);
  return names;
}

}  // namespace

void save_npz(const std::filesystem::path& path, const Module& model) {
  write_npz(path, entries_of(model));
}

std::string describe_difference(const ArraySource& source, const std::string& prefix,
                                const Module& model) {
  const std::vector<NpzEntry> entries = entries_of(model);
  int differing = 0;
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
  for (const auto& [path, value] : entries) {
    const Tensor& tensor = std::get<Tensor>(value);
    const auto found = source.find(prefix + path);
    if (differs_in_type(path, found)) continue;
    if (found && found->dtype && found->shape == tensor.shape()) continue;
    differs(found ? fmt::format("{} is {} in the file and {} in the model", path,
                                found->shape.text(), tensor.shape().text())
                  : fmt::format("{} ({}) is not in the file", path, tensor.shape().text()));
  }
  if (differing == 0) return "";
  return fmt::format("{} is of another model: {} ({} of the model's {} arrays differ)",
                     source.path().string(), first, differing, entries.size() + unshaped.size());
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

void load_npz(const std::filesystem::path& path, const Module& model, const std::string& prefix) {
  load_npz(NpzFile(path), model, prefix);
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
  for (const auto& [name, value] : entries_of(model))
    std::get<Tensor>(value).copy_from(values.at(name));
  for (const auto& [name, parameter] : model.parameters()) parameter->value_changed();
}

}  // namespace tasuki
