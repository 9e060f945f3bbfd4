#include "tasuki/program/report/about.hpp"

#include <nlohmann/json.hpp>

#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/program/start/processors.hpp"
#include "tasuki/program/start/version.hpp"
#include "tasuki/program/training_flags.hpp"

namespace tasuki::program {
namespace {

nlohmann::json flags_of(const TrainingProgram& program) {
  nlohmann::json flags = nlohmann::json::object();
  for (const auto& [name, text] : program.flags.values()) flags[name] = text;
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

std::vector<std::string> names_of_classes(const TrainingProgram& program,
                                          const TrainingData& data) {
  if (program.stream_images) return data.class_names;
  if (program.train_data) return {};
  return class_names(program.dataset, data.place);
}

}  // namespace

void write_about(const TrainingProgram& program, const RankSetup& setup, const TrainingData& data,
                 OutputFolder& output) {
  Communicator& communicator = *setup.communicator;
  run_on_root(communicator, 0, [&] {
    const nlohmann::json about = {
        {"version", describe_versions()},
        {"host", communicator.topology().host_of.at(0)},
        {"machine", describe_machine()},
        {"device", setup.device_text},
        {"data", data.place},
        {"ranks", communicator.size()},
        {"global_batch", examples_of_update(program.settings, setup.grid->models())},
        {"program", program.flags.program()},
        {"flags", flags_of(program)},
        {"dataset", program.train_data ? "" : program.dataset},
        {"example", describe_example(data.train.header)},
        {"class_names", names_of_classes(program, data)},
    };
    // Names of folders may be no UTF-8.
    output.write(about_file,
                 about.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
    return Bytes{};
  });
}

}  // namespace tasuki::program
