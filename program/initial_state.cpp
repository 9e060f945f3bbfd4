#include "tasuki/program/initial_state.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/nn/classifier.hpp"
#include "tasuki/training/snapshots/model_file.hpp"
#include "tasuki/training/snapshots/npz.hpp"

namespace tasuki::program {
namespace {

// The prefix of a model's entries in a file: of the model of a snapshot, or of several, whose names
// are then those of parts of the model.
std::string prefix_in(const NpzFile& file) {
  for (const std::string prefix : {"updater/model:main/", "updater/model:"})
    if (std::ranges::any_of(file.names(),
                            [&](const std::string& name) { return name.starts_with(prefix); }))
      return prefix;
  return "";
}

void warn_of_unknown(std::vector<std::string> names, const std::filesystem::path& file) {
  constexpr std::size_t most_shown = 3;
  if (names.empty()) return;
  const std::size_t count = names.size();
  if (count > most_shown) {
    names.resize(most_shown);
    names.emplace_back("...");
  }
  log_warning("{} of the entries in {} are not in the model and are ignored: {}", count,
              file.string(), fmt::join(names, ", "));
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

void load_initial_weights(const std::string& path, Module& model, Communicator& communicator,
                          const ModelGrid& grid) {
  run_on_all(communicator, [&] {
    if (grid.data().rank() != 0) return;
    const NpzFile file(grid.is_divided() ? fmt::format("{}.{}", path, grid.model().rank()) : path);
    const std::vector<std::string> names = file.names();
    const auto has = [&](const std::string& start) {
      return std::ranges::any_of(names,
                                 [&](const std::string& name) { return name.starts_with(start); });
    };
    const std::string prefix = prefix_in(file);
    auto* const classifier = dynamic_cast<Classifier*>(&model);
    const bool is_predictor = classifier != nullptr && !has(prefix + "predictor/");
    const Module& target = is_predictor ? classifier->predictor() : model;
    load_npz(file, target, prefix);
    warn_of_unknown(entries_not_in(target, file, prefix), file.path());
  });
}

std::unique_ptr<Extension> keep_data(const DatasetHeader& header, const Share& share) {
  return std::make_unique<KeptData>(header, share.labels_hash);
}

}  // namespace tasuki::program
