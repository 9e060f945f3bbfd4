#include "tasuki/program/data.hpp"

#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/communicator/text_bytes.hpp"
#include "tasuki/core/activity.hpp"

namespace tasuki::program {

std::filesystem::path find_data(Communicator& communicator, const std::string& name,
                                const TrainingSettings& settings) {
  return bytes_to_text(run_on_root(communicator, 0, [&] {
    return text_to_bytes(find_data_folder(name, settings.data.value_or("")).string());
  }));
}

OpenSource open_split(const std::string& name, const std::filesystem::path& folder, DataSplit split,
                      const std::optional<Shape>& example_shape, std::optional<std::int64_t> limit,
                      std::int64_t image_side) {
  return [=] {
    auto source = open_dataset(name, folder, split, image_side);
    if (example_shape) source->reshape(*example_shape);
    if (limit) source->keep_first(*limit);
    return source;
  };
}

std::unique_ptr<DataSource> open_checked(const OpenSource& open, Communicator& communicator) {
  const PhaseScope looking(Phase::reading_data);
  std::unique_ptr<DataSource> source;
  run_on_root(communicator, 0, [&] {
    source = open();
    source->check();
    return Bytes{};
  });
  return source;
}

}  // namespace tasuki::program
