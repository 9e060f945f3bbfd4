#include "program/data/kept_data.hpp"

#include <fmt/core.h>

#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "program/data/data_check.hpp"
#include "saving/saved_states.hpp"
#include "saving/serializer.hpp"

namespace tasuki::program {
namespace {

const char* const kept_data_name = "Data";

std::string key_of(const DataVocabulary& vocabulary) {
  return "vocabulary:" + vocabulary.flag;
}

Tensor keys_of_left_out(const TrainingData& data) {
  std::vector<std::int64_t> keys;
  const auto add = [&](const SplitData& split, const char* name) {
    for (const std::string& each : split.left_out) keys.push_back(key_of_left_out(name, each));
  };
  add(data.train, "train");
  if (data.test) add(*data.test, "test");
  return Tensor::from(std::span<const std::int64_t>(keys), Shape{std::ssize(keys)});
}

class KeptData : public Extension {
 public:
  KeptData(const TrainingData& data, bool skips_damaged)
      : examples_(data.train.header.count),
        shape_(data.train.header.shape_text()),
        labels_(static_cast<std::int64_t>(data.train.share->labels_hash)),
        vocabularies_(data.vocabularies) {
    if (skips_damaged) left_out_ = keys_of_left_out(data);
  }
  std::string default_name() const override { return kept_data_name; }
  void run(Trainer&) override {}
  void serialize(const Serializer& serializer) override {
    std::int64_t examples = examples_, labels = labels_;
    std::string shape = shape_;
    serializer("examples", examples);
    serializer("example_shape", shape);
    serializer("labels", labels);
    if (!serializer.is_loading()) {
      save_vocabularies(serializer);
      if (left_out_) serializer("left_out", *left_out_);
    }
    const bool is_alike = examples == examples_ && shape == shape_;
    const bool are_known = labels != 0 && labels_ != 0;
    if (is_alike && (labels == labels_ || !are_known)) return;
    const Communicator* communicator = serializer.communicator();
    if (communicator && communicator->rank() != 0) return;
    log_warning("the snapshot's run had other data: {} examples of {}; this run has {} of {}{}",
                examples, shape, examples_, shape_, is_alike ? ", with other labels" : "");
  }

 private:
  void save_vocabularies(const Serializer& serializer) const {
    for (const DataVocabulary& each : vocabularies_) {
      auto hash = static_cast<std::int64_t>(each.hash);
      serializer(key_of(each), hash);
    }
  }

  std::int64_t examples_;
  std::string shape_;
  std::int64_t labels_;  // their hash; 0: unknown
  std::vector<DataVocabulary> vocabularies_;
  std::optional<Tensor> left_out_;
};

}  // namespace

std::unique_ptr<Extension> keep_data(const TrainingData& data, bool skips_damaged) {
  return std::make_unique<KeptData>(data, skips_damaged);
}

void check_vocabularies(const std::string& snapshot,
                        const std::vector<DataVocabulary>& vocabularies, Communicator& communicator,
                        const ModelGrid& grid) {
  if (vocabularies.empty()) return;
  run_on_root(communicator, 0, [&] {
    const auto opened = open_weights(snapshot, grid.suffix());
    const ArraySource& file = *opened;
    for (const DataVocabulary& each : vocabularies) {
      const std::string entry = fmt::format("extensions/{}/{}", kept_data_name, key_of(each));
      if (!file.find(entry)) continue;
      const NpzValue value = file.read(entry);
      const auto* const kept = std::get_if<Tensor>(&value);
      if (kept != nullptr && kept->dtype() == DType::int64 && kept->count() == 1 &&
          static_cast<std::uint64_t>(*kept->data<std::int64_t>()) == each.hash)
        continue;
      fail(ErrorKind::config,
           "{}: expected the vocabulary that it was trained with, found another one in {}; give "
           "--{} and the flags that shape its vocabulary as in that run",
           file.path().string(), each.place, each.flag);
    }
    return Bytes{};
  });
}

}  // namespace tasuki::program
