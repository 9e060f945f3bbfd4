#include "tasuki/program/initial_state.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/training/snapshots/model_file.hpp"
#include "tasuki/training/snapshots/npz.hpp"

namespace tasuki::program {
namespace {

const char* const model_in_snapshot = "updater/model:main/";

void warn_of_unknown(std::vector<std::string> names, const std::string& file) {
  constexpr std::size_t most_shown = 3;
  if (names.empty()) return;
  const std::size_t count = names.size();
  if (count > most_shown) {
    names.resize(most_shown);
    names.emplace_back("...");
  }
  log_warning("--init: {} of the entries in {} are not in the model and are ignored: {}", count,
              file, fmt::join(names, ", "));
}

class KeptData : public Extension {
 public:
  KeptData(const DatasetHeader& header, std::uint64_t labels)
      : examples_(header.count),
        shape_(header.shape_text()),
        labels_(static_cast<std::int64_t>(labels)) {}
  std::string default_name() const override { return "Data"; }
  void run(Trainer&) override {}
  void serialize(const Serializer& serializer) override {
    std::int64_t examples = examples_, labels = labels_;
    std::string shape = shape_;
    serializer("examples", examples);
    serializer("example_shape", shape);
    serializer("labels", labels);
    const bool is_alike = examples == examples_ && shape == shape_;
    const bool are_known = labels != 0 && labels_ != 0;
    if (is_alike && (labels == labels_ || !are_known)) return;
    const Communicator* communicator = serializer.communicator();
    if (communicator && communicator->rank() != 0) return;
    log_warning("the snapshot's run had other data: {} examples of {}; this run has {} of {}{}",
                examples, shape, examples_, shape_, is_alike ? ", with other labels" : "");
  }

 private:
  std::int64_t examples_;
  std::string shape_;
  std::int64_t labels_;  // their hash; 0: unknown
};

}  // namespace

void load_initial_weights(const TrainingSettings& settings, const Module& model,
                          Communicator& communicator) {
  if (!settings.init) return;
  run_on_root(communicator, 0, [&] {
    const NpzFile file(*settings.init);
    const bool is_snapshot = std::ranges::any_of(
        file.names(), [](const std::string& name) { return name.starts_with(model_in_snapshot); });
    const std::string prefix = is_snapshot ? model_in_snapshot : "";
    load_npz(file, model, prefix);
    warn_of_unknown(entries_not_in(model, file, prefix), *settings.init);
    return Bytes();
  });
}

std::unique_ptr<Extension> keep_data(const DatasetHeader& header, const Share& share) {
  return std::make_unique<KeptData>(header, share.labels_hash);
}

}  // namespace tasuki::program
