#include "tasuki/program/report/step_times_file.hpp"

#include <nlohmann/json.hpp>

#include "tasuki/core/log.hpp"
#include "tasuki/training/step_times.hpp"

namespace tasuki::program {

void write_step_times(const Updater& updater, Communicator& communicator, OutputFolder& output) {
  const std::vector<RankTimes> ranks = gather_step_times(updater.times(), &communicator);
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
  if (communicator.rank() != 0 || devices.empty()) return;
  try {
    output.write(step_times_file, devices.dump(2) + '\n');
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cannot_write) throw;
    log_warning("{}", error.what());
  }
}

}  // namespace tasuki::program
