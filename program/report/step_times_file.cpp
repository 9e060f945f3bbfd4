#include "program/report/step_times_file.hpp"

#include <nlohmann/json.hpp>

#include "communicator/run_on_root.hpp"
#include "core/json.hpp"

namespace tasuki::program {

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
