#include "program/report/about.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "communicator/objects.hpp"
#include "communicator/run_on_root.hpp"
#include "core/json.hpp"
#include "program/data/array_data.hpp"
#include "program/flags/batch_sizes.hpp"
#include "program/flags/options_builtin.hpp"
#include "program/start/device.hpp"
#include "program/start/processors.hpp"

namespace tasuki::program {
namespace {

// The absolute path of what is there, so that the model can be used from other folders.
std::string absolute_text(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return path;
  const auto absolute = std::filesystem::absolute(path, ignored);
  return ignored ? path : absolute.lexically_normal().string();
}

bool names_path(const Option& option) {
  const std::string& value = option.value_name;
  return value == "PATH" || value == "FILE" || value == "DIR" || value == "FOLDER";
}

nlohmann::json flags_of(const Options& options) {
  nlohmann::json flags = nlohmann::json::object();
  for (const auto& [name, text] : options.values()) flags[name] = text;
  for (const Option& option : options.all()) {
    const auto flag = flags.find(option.name);
    if (flag == flags.end() || !names_path(option)) continue;
    const std::string text = *flag;
    if (text != "auto" && text != "none") *flag = absolute_text(text);
  }
  return flags;
}

nlohmann::json describe_example(const DatasetHeader& header) {
  nlohmann::json example = nlohmann::json::object();
  if (header.has("x")) {
    const Shape& shape = header.field("x").shape;
    example["shape"] = std::vector<std::int64_t>(shape.begin(), shape.end());
  }
  if (header.has("t")) example["classes"] = header.field("t").classes;
  return example;
}

nlohmann::json hashes_of(const std::vector<DataVocabulary>& vocabularies) {
  nlohmann::json hashes = nlohmann::json::object();
  for (const DataVocabulary& each : vocabularies)
    hashes[each.flag] = fmt::format("{:016x}", each.hash);
  return hashes;
}

nlohmann::json left_out_of(const TrainingData& data) {
  nlohmann::json left_out = {{"train", data.train.left_out}};
  left_out["test"] = data.test ? data.test->left_out : std::vector<std::string>();
  return left_out;
}

// Whether other programs find the data by name and folder.
bool is_in_catalog(const ProgramData& program) {
  return !program.train_data && !has_array_files(program);
}

// Nodes of one machine (network namespaces, containers) share its cores. Collective; rank 0 knows.
bool is_oversubscribed(const RankSetup& setup) {
  Communicator& communicator = *setup.communicator;
  std::string id = system_id();
  if (id.empty())
    id = communicator.topology().host_of[static_cast<std::size_t>(communicator.rank())];
  const std::size_t workers = setup.devices.size();
  const int threads_of_each = workers > 1
                                  ? threads_of_worker(setup.processors, setup.threads, workers)
                                  : setup.threads.threads;
  const nlohmann::json own = {{"system", id},
                              {"threads", threads_of_each * static_cast<std::int64_t>(workers)},
                              {"cores", setup.processors.cores}};
  std::map<std::string, std::int64_t> threads, cores;
  for (const nlohmann::json& rank : gather_object(communicator, own)) {
    const std::string system = rank.at("system");
    threads[system] += rank.at("threads").get<std::int64_t>();
    cores[system] = std::max(cores[system], rank.at("cores").get<std::int64_t>());
  }
  return std::ranges::any_of(threads,
                             [&](const auto& each) { return each.second > cores[each.first]; });
}

std::string mark_of_supervisor() {
  const char* const mark = std::getenv(supervisor_variable);
  return mark == nullptr ? "" : mark;
}

}  // namespace

std::vector<std::string> names_of_classes(const ProgramData& program, const TrainingData& data) {
  if (program.stream_images) return data.class_names;
  if (!is_in_catalog(program)) return {};
  return class_names(program.dataset, data.place);
}

void write_about(const Options& options, const TrainingSettings& settings,
                 const ProgramData& program, const RankSetup& setup, const TrainingData& data,
                 OutputFolder& output) {
  Communicator& communicator = *setup.communicator;
  const bool oversubscribed = setup.device().is_cpu() && is_oversubscribed(setup);
  run_on_root(communicator, 0, [&] {
    const nlohmann::json about = {
        {"version", describe_versions()},
        {"host", communicator.topology().host_of.at(0)},
        {"machine", describe_machine()},
        {"device", setup.device_text},
        {"data", program.train_data ? data.place : absolute_text(data.place)},
        {"ranks", communicator.size()},
        {"oversubscribed", oversubscribed},
        {"global_batch", examples_of_update(settings, setup.grid->models())},
        {"program", options.program()},
        {"flags", flags_of(options)},
        {"dataset", is_in_catalog(program) ? program.dataset : ""},
        {"example", describe_example(data.train.header)},
        {"class_names", names_of_classes(program, data)},
        {"left_out", left_out_of(data)},
        {"vocabularies", hashes_of(data.vocabularies)},
        {"supervisor", mark_of_supervisor()},
    };
    output.write(about_file, json_text(about, 2) + '\n');
    return Bytes{};
  });
}

}  // namespace tasuki::program
