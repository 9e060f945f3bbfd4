#include "tasuki/program/report/about.hpp"

#include <nlohmann/json.hpp>

#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/program/start/processors.hpp"
#include "tasuki/program/start/version.hpp"
#include "tasuki/program/training_flags.hpp"

namespace tasuki::program {

void write_about(const RankSetup& setup, const TrainingSettings& settings, OutputFolder& output,
                 const std::string& data) {
  Communicator& communicator = *setup.communicator;
  run_on_root(communicator, 0, [&] {
    const nlohmann::json about = {
        {"version", describe_versions()},
        {"host", communicator.topology().host_of.at(0)},
        {"machine", describe_machine()},
        {"device", setup.device_text},
        {"data", data},
        {"ranks", communicator.size()},
        {"global_batch", examples_of_update(settings, communicator.size())},
    };
    output.write(about_file, about.dump(2) + '\n');
    return Bytes{};
  });
}

}  // namespace tasuki::program
