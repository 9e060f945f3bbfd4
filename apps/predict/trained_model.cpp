#include "predict/trained_model.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/communicator/text_bytes.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/file.hpp"
#include "tasuki/program/intact_snapshot.hpp"
#include "tasuki/program/report/about.hpp"
#include "tasuki/training/snapshots/model_file.hpp"

namespace tasuki::predict {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::unique_ptr<NpzFile> open_weights(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return program::open_intact_snapshot(path, "--model");
  return std::make_unique<NpzFile>(path);
}

// The model's place in a snapshot (of the generator, if it has two networks), and the classifier's
// predictor in a model.
std::string prefix_in(const NpzFile& file) {
  const std::vector<std::string> names = file.names();
  std::string prefix;
  for (const char* const part : {"updater/model:main/", "updater/model:gen/", "predictor/"})
    if (std::ranges::any_of(
            names, [&](const std::string& name) { return name.starts_with(prefix + part); }))
      prefix += part;
  return prefix;
}

json shapes_in(const NpzFile& file, const std::string& prefix) {
  json shapes = json::object();
  for (const std::string& name : file.names()) {
    if (!name.starts_with(prefix)) continue;
    const auto header = file.find(name);
    if (!header || !header->dtype) continue;
    shapes[name.substr(prefix.size())] =
        std::vector<std::int64_t>(header->shape.begin(), header->shape.end());
  }
  return shapes;
}

json read_about(const fs::path& folder) {
  const fs::path path = folder / program::about_file;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return json::object();
  try {
    json about = json::parse(read_file(path));
    if (about.is_object()) return about;
  } catch (const json::exception&) {  // reported below
  }
  fail(ErrorKind::data,
       "{}: expected what a training program wrote there, found something else; move the model "
       "elsewhere and say with flags what is in it",
       path.string());
}

TrainingRun run_of(const json& about, const fs::path& folder) {
  TrainingRun run;
  try {
    run.program = about.value("program", "");
    run.flags = about.value("flags", run.flags);
    run.dataset = about.value("dataset", "");
    run.data = about.value("data", "");
    run.class_names = about.value("class_names", run.class_names);
    run.vocabularies = about.value("vocabularies", run.vocabularies);
    const json example = about.value("example", json::object());
    if (example.contains("shape"))
      run.example = Shape(example.at("shape").get<std::vector<std::int64_t>>());
  } catch (const json::exception& error) {
    fail_everywhere(ErrorKind::data, "{}: {}", (folder / program::about_file).string(),
                    error.what());
  }
  return run;
}

}  // namespace

std::optional<std::string> TrainingRun::flag(const std::string& name) const {
  const auto found = flags.find(name);
  if (found == flags.end()) return std::nullopt;
  return found->second;
}

TrainedModel find_trained_model(const std::string& path, Communicator& communicator) {
  const Bytes sent = run_on_root(communicator, 0, [&] {
    const auto file = open_weights(path);
    const std::string prefix = prefix_in(*file);
    return text_to_bytes(json{{"file", file->path().string()},
                              {"prefix", prefix},
                              {"shapes", shapes_in(*file, prefix)},
                              {"about", read_about(file->path().parent_path())}}
                             .dump(-1, ' ', false, json::error_handler_t::replace));
  });
  const json found = json::parse(bytes_to_text(sent));
  TrainedModel trained;
  trained.file = found.at("file").get<std::string>();
  trained.prefix = found.at("prefix");
  for (const auto& [name, sizes] : found.at("shapes").items())
    trained.shapes.emplace(name, Shape(sizes.get<std::vector<std::int64_t>>()));
  trained.run = run_of(found.at("about"), trained.file.parent_path());
  return trained;
}

void load_weights(const TrainedModel& trained, const Module& model, Communicator& communicator) {
  run_on_root(communicator, 0, [&] {
    load_npz(trained.file, model, trained.prefix);
    return Bytes{};
  });
  for (const auto& [path, buffer] : model.buffers()) communicator.bcast_data(*buffer);
  for (const auto& [path, parameter] : model.parameters()) {
    communicator.bcast_data(parameter->value());
    parameter->value_changed();
  }
}

}  // namespace tasuki::predict
