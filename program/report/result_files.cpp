#include "program/report/result_files.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "communicator/objects.hpp"
#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/system_error.hpp"

namespace tasuki::program {
namespace {

namespace fs = std::filesystem;

// The names in the file; null if it is not there or is of another iteration.
nlohmann::json files_of_finished(const fs::path& folder, std::int64_t iteration) {
  const fs::path file = folder / finished_file;
  try {
    const auto text = read_file_if_there(file);
    if (!text) return {};
    const nlohmann::json found = parse_json(*text, file.string());
    if (!found.is_object() || integer_in(found.value("iteration", nlohmann::json())) != iteration)
      return {};
    const nlohmann::json files = found.value("files", nlohmann::json());
    const bool are_names =
        files.is_array() && std::ranges::all_of(files, &nlohmann::json::is_string);
    return are_names ? files : nlohmann::json();
  } catch (const Error&) {  // damaged, or not to be read: what it names is made again
    return {};
  }
}

}  // namespace

void remove_finished(Communicator& communicator, const OutputFolder& output) {
  run_on_root(communicator, 0, [&] {
    const fs::path file = output.path() / finished_file;
    std::error_code error;
    if (fs::remove(file, error)) sync_folder(output.path());
    if (error) fail_because(error, ErrorKind::cannot_write, "cannot remove {}", file.string());
    return Bytes{};
  });
}

void write_finished(const Trainer& trainer, const std::vector<std::string>& files,
                    Communicator& communicator, OutputFolder& output) {
  nlohmann::json own = nlohmann::json::array();
  for (const fs::path& file : trainer.results())
    own.push_back(file.lexically_relative(trainer.out()).string());
  const std::vector<Bytes> results = gather_bytes(communicator, object_to_bytes(own));
  run_on_root(communicator, 0, [&] {
    nlohmann::json names = files;
    for (const Bytes& of_rank : results)
      for (const nlohmann::json& name : bytes_to_object(of_rank))
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    const nlohmann::json contents = {{"iteration", trainer.updater().iteration()},
                                     {"files", names}};
    output.write(finished_file, json_text(contents, 2) + '\n');
    return Bytes{};
  });
}

bool is_finished(const fs::path& folder, std::int64_t iteration, Communicator& communicator) {
  const nlohmann::json files = bytes_to_object(run_on_root(
      communicator, 0, [&] { return object_to_bytes(files_of_finished(folder, iteration)); }));
  if (files.is_null()) return false;
  Bytes seen;
  for (const nlohmann::json& name : files) {
    std::error_code ignored;
    seen.push_back(std::byte{fs::exists(folder / name.get<std::string>(), ignored)});
  }
  const std::vector<Bytes> seen_by = allgather_bytes(communicator, seen);
  for (std::size_t i = 0; i < files.size(); ++i)
    if (std::ranges::none_of(seen_by, [i](const Bytes& each) { return each[i] == std::byte{1}; }))
      return false;
  return true;
}

bool write_step_times(const RankTimes& own, Communicator& communicator, OutputFolder& output) {
  const std::vector<RankTimes> ranks = gather_step_times(own, &communicator);
  nlohmann::json devices = nlohmann::json::array();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (std::size_t worker = 0; worker < ranks[rank].size(); ++worker) {
      const StepTimes& times = ranks[rank][worker];
      if (times.steps == 0) continue;
      const auto mean = [&](double seconds) { return seconds / static_cast<double>(times.steps); };
      devices.push_back({{"rank", rank},
                         {"worker", worker},
                         {"steps", times.steps},
                         {"input", mean(times.input)},
                         {"forward", mean(times.forward)},
                         {"backward", mean(times.backward)},
                         {"exchange", mean(times.exchange)},
                         {"update", mean(times.update)}});
    }
  if (devices.empty()) return false;
  run_on_root(communicator, 0, [&] {
    output.write(step_times_file, json_text(devices, 2) + '\n');
    return Bytes{};
  });
  return true;
}

}  // namespace tasuki::program
