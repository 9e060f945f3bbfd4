#include "tools/predict/trained_model.hpp"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "communicator/objects.hpp"
#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/printable.hpp"
#include "program/flags/option_value.hpp"
#include "program/report/about.hpp"
#include "saving/name_map.hpp"
#include "saving/saved_states.hpp"
#include "tools/predict/model_parts.hpp"

namespace tasuki::predict {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The names of the arrays of all parts.
std::vector<std::string> names_in(const ModelFiles& files) {
  std::vector<std::string> names;
  for (const auto& part : files.parts)
    for (std::string& name : part->names()) names.push_back(std::move(name));
  return names;
}

// The place of the model in a snapshot (of the generator, if there are two networks), and of the
// classifier's predictor in a model.
std::string prefix_in(const ModelFiles& files) {
  const std::vector<std::string> names = names_in(files);
  std::string prefix;
  for (const char* const part : {"updater/model:main/", "updater/model:gen/", "predictor/"})
    if (std::ranges::any_of(
            names, [&](const std::string& name) { return name.starts_with(prefix + part); }))
      prefix += part;
  return prefix;
}

// The maps that a file's names may have.
std::vector<NameMap> maps_for(const std::string& prefix, const std::optional<std::string>& map) {
  if (map) return {read_name_map(*map)};
  std::vector<NameMap> maps;
  if (prefix.empty())
    for (const KnownNameMap& known : known_name_maps()) maps.push_back(known.map);
  return maps;
}

json shapes_in(const ModelFiles& files, const std::string& prefix,
               const std::optional<std::string>& map) {
  const std::vector<NameMap> maps = maps_for(prefix, map);
  json shapes = json::object();
  const auto add = [&](const std::string& name, const Shape& shape, bool is_transposed) {
    std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    if (is_transposed) std::ranges::reverse(sizes);
    if (!shapes.contains(name)) shapes[name] = sizes;
  };
  for (const auto& part : files.parts)
    for (const std::string& name : part->names()) {
      if (!name.starts_with(prefix)) continue;
      const auto header = part->find(name);
      if (!header || !header->dtype) continue;
      add(name.substr(prefix.size()), header->shape, false);
      for (const NameMap& each : maps)
        for (const auto& [in_model, is_transposed] : each.names_in_model(name))
          add(in_model, header->shape, is_transposed);
    }
  return shapes;
}

json read_about(const fs::path& folder) {
  const fs::path path = folder / program::about_file;
  const auto text = read_file_if_there(path);
  if (!text) return json::object();
  try {
    json about = parse_json(*text, path.string());
    if (about.is_object()) return about;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;  // else reported below
  }
  fail(ErrorKind::data,
       "{}: expected the file of a training program, found something else; move the model "
       "elsewhere and describe it with flags",
       path.string());
}

Shape shape_in(const json& list, const fs::path& file) {
  constexpr std::int64_t most_elements = std::int64_t{1} << 40;
  std::vector<std::int64_t> sizes;
  std::int64_t elements = 1;
  for (const json& each : list) {
    sizes.push_back(integer_in(each, 0, most_elements).value_or(-1));
    const bool is_too_large = __builtin_mul_overflow(elements, sizes.back(), &elements);
    if (sizes.back() < 0 || is_too_large || elements > most_elements ||
        sizes.size() > Shape::max_rank)
      fail_everywhere(ErrorKind::data,
                      "{}: the shape of an example: expected at most {} sizes from 0, found {}",
                      file.string(), int{Shape::max_rank}, quoted_input(json_text(list)));
  }
  return Shape(sizes);
}

FinishedRun run_of(const json& about, const fs::path& folder) {
  FinishedRun run;
  try {
    run.program = about.value("program", "");
    run.flags = about.value("flags", run.flags);
    run.dataset = about.value("dataset", "");
    run.data = about.value("data", "");
    run.class_names = about.value("class_names", run.class_names);
    run.vocabularies = about.value("vocabularies", run.vocabularies);
    const json example = about.value("example", json::object());
    if (example.contains("shape"))
      run.example = shape_in(example.at("shape"), folder / program::about_file);
  } catch (const json::exception& error) {
    fail_everywhere(ErrorKind::data, "{}: {}", (folder / program::about_file).string(),
                    error.what());
  }
  return run;
}

}  // namespace

std::optional<std::string> FinishedRun::flag(const std::string& name) const {
  const auto found = flags.find(name);
  if (found == flags.end()) return std::nullopt;
  return found->second;
}

std::int64_t FinishedRun::number(const std::string& name, std::int64_t other) const {
  try {
    return program::parse_integer(flag(name).value_or(""), {0, INT64_MAX});
  } catch (const std::invalid_argument&) {  // "all", or not known
    return other;
  }
}

TrainedModel find_trained_model(const PredictionSettings& settings, Communicator& communicator) {
  const Bytes sent = run_on_root(communicator, 0, [&] {
    const ModelFiles files = open_model(settings.model);
    const std::string prefix = prefix_in(files);
    return object_to_bytes({{"file", files.place.string()},
                            {"prefix", prefix},
                            {"shapes", shapes_in(files, prefix, settings.model_map)},
                            {"about", read_about(output_folder_of(files.place))}});
  });
  const json found = bytes_to_object(sent);
  TrainedModel trained;
  trained.map = settings.model_map;
  trained.file = found.at("file").get<std::string>();
  trained.prefix = found.at("prefix");
  for (const auto& [name, sizes] : found.at("shapes").items())
    trained.shapes.emplace(name, Shape(sizes.get<std::vector<std::int64_t>>()));
  trained.run = run_of(found.at("about"), output_folder_of(trained.file));
  return trained;
}

void load_weights(const TrainedModel& trained, const Module& model, Communicator& communicator) {
  run_on_root(communicator, 0, [&] {
    load_parts(open_model(trained.file), trained.prefix, trained.map, model);
    return Bytes{};
  });
  for (const auto& [path, buffer] : model.buffers()) communicator.bcast_data(*buffer);
  for (const auto& [path, parameter] : model.parameters()) {
    communicator.bcast_data(parameter->value());
    parameter->value_changed();
  }
}

}  // namespace tasuki::predict
