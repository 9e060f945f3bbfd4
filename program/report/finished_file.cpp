#include "tasuki/program/report/finished_file.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/file.hpp"
#include "tasuki/core/json.hpp"

namespace tasuki::program {
namespace {

namespace fs = std::filesystem;

bool is_there(const nlohmann::json& name, const fs::path& folder) {
  std::error_code ignored;
  return name.is_string() && fs::exists(folder / name.get<std::string>(), ignored);
}

bool is_finished(const fs::path& folder, std::int64_t iteration) {
  const fs::path file = folder / finished_file;
  try {
    const auto text = read_file_if_there(file);
    if (!text) return false;
    const nlohmann::json found = parse_json(*text, file.string());
    if (!found.is_object() || integer_in(found.value("iteration", nlohmann::json())) != iteration)
      return false;
    const nlohmann::json files = found.value("files", nlohmann::json());
    return files.is_array() && std::ranges::all_of(files, [&](const nlohmann::json& name) {
             return is_there(name, folder);
           });
  } catch (const Error&) {  // damaged, or not to be read: what it names is made again
    return false;
  }
}

}  // namespace

void write_finished(const Trainer& trainer, const std::vector<std::string>& files,
                    Communicator& communicator, OutputFolder& output) {
  run_on_root(communicator, 0, [&] {
    nlohmann::json names = files;
    for (const fs::path& file : trainer.results())
      names.push_back(file.lexically_relative(trainer.out()).string());
    const nlohmann::json contents = {{"iteration", trainer.updater().iteration()},
                                     {"files", names}};
    output.write(finished_file, json_text(contents, 2) + '\n');
    return Bytes{};
  });
}

bool is_finished(const fs::path& folder, std::int64_t iteration, Communicator& communicator) {
  const Bytes found = run_on_root(communicator, 0,
                                  [&] { return Bytes{std::byte{is_finished(folder, iteration)}}; });
  return found.front() == std::byte{1};
}

}  // namespace tasuki::program
