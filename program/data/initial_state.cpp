#include "program/data/initial_state.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/printable.hpp"
#include "nn/classifier.hpp"
#include "program/data/unreadable.hpp"
#include "saving/model_file.hpp"
#include "saving/saved_states.hpp"

namespace tasuki::program {
namespace {

// The prefix of a model's entries in a file: of the model of a snapshot, or of several, whose names
// are then those of parts of the model.
std::string prefix_in(const ArraySource& source) {
  for (const char* const prefix : {"updater/model:main/", "updater/model:"})
    if (std::ranges::any_of(source.names(),
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
              file.string(), join(names, ", "));
}

template <class T>
bool are_finite(const Tensor& values) {
  return std::ranges::all_of(values.span<T>(), [](T x) { return std::isfinite(x); });
}

bool is_finite(const Tensor& values) {
  switch (values.dtype()) {
    case DType::float64:
      return are_finite<double>(values.plain());
    case DType::float32:
    case DType::float16:
    case DType::bfloat16:
      return are_finite<float>(values.plain().to(DType::float32));
    default:
      return true;
  }
}

// A run from such weights would end in its first iteration, for no reason that it could name.
void check_finite(const Module& model, const std::filesystem::path& file) {
  const auto check = [&](const std::string& path, const Tensor& values) {
    if (!is_finite(values))
      fail(ErrorKind::data,
           "{}: {} has values that are not finite; use weights that were saved before training "
           "diverged",
           file.string(), path);
  };
  for (const auto& [path, parameter] : model.parameters()) check(path, parameter->value());
  for (const auto& [path, buffer] : model.buffers()) check(path, *buffer);
}

// A model, or this rank's part of it.
std::unique_ptr<ArraySource> open_for_rank(const std::string& path, const ModelGrid& grid) {
  return open_weights(path,
                      grid.is_divided() ? fmt::format(".{}", grid.model().rank()) : std::string());
}

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

void load_initial_weights(const std::string& path, Module& model, Communicator& communicator,
                          const ModelGrid& grid) {
  run_on_all(communicator, [&] {
    if (grid.data().rank() != 0) return;
    const auto opened = open_for_rank(path, grid);
    const ArraySource& file = *opened;
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
    check_finite(target, file.path());
    warn_of_unknown(entries_not_in(target, file, prefix), file.path());
  });
}

std::unique_ptr<Extension> keep_data(const TrainingData& data, bool skips_damaged) {
  return std::make_unique<KeptData>(data, skips_damaged);
}

void check_vocabularies(const std::string& snapshot,
                        const std::vector<DataVocabulary>& vocabularies, Communicator& communicator,
                        const ModelGrid& grid) {
  if (vocabularies.empty()) return;
  run_on_root(communicator, 0, [&] {
    const auto opened = open_for_rank(snapshot, grid);
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
