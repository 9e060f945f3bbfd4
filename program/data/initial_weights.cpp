#include "program/data/initial_weights.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "core/hash.hpp"
#include "core/log.hpp"
#include "core/printable.hpp"
#include "nn/classifier.hpp"
#include "program/data/chosen_parameters.hpp"
#include "saving/model_file.hpp"
#include "saving/name_map.hpp"
#include "saving/safetensors.hpp"
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
void check_array(const std::string& path, const Tensor& values, const std::filesystem::path& file) {
  if (!is_finite(values))
    fail(ErrorKind::data,
         "{}: {} has values that are not finite; use weights that were saved before training "
         "diverged",
         file.string(), path);
}

void check_finite(const Module& model, const std::filesystem::path& file) {
  for (const auto& [path, parameter] : model.parameters())
    check_array(path, parameter->value(), file);
  for (const auto& [path, buffer] : model.buffers()) check_array(path, *buffer, file);
}

// A file that lacks these arrays, whatever it has under their names.
class Without final : public ArraySource {
 public:
  Without(const ArraySource& file, std::set<std::string> names)
      : file_(file), skipped_(std::move(names)) {}

  const std::filesystem::path& path() const override { return file_.path(); }
  std::vector<std::string> names() const override { return file_.names(); }
  std::optional<ArrayType> find(const std::string& name) const override {
    return skipped_.contains(name) ? std::nullopt : file_.find(name);
  }
  NpzValue read(const std::string& name) const override { return file_.read(name); }
  bool may_lack(const std::string& name) const override {
    return skipped_.contains(name) || file_.may_lack(name);
  }

 private:
  const ArraySource& file_;
  std::set<std::string> skipped_;
};

// What became of a model's arrays, by their paths.
struct Outcome {
  std::size_t loaded = 0;
  std::vector<std::string> skipped, lacking;  // by --init-skip; where the map allows it
};

Outcome outcome_of(const Module& model, const ArraySource& file, const std::string& prefix,
                   const std::set<std::string>& skipped) {
  Outcome outcome;
  for (const std::string& path : array_names(model)) {
    if (skipped.contains(prefix + path))
      outcome.skipped.push_back(path);
    else if (file.find(prefix + path))
      ++outcome.loaded;
    else
      outcome.lacking.push_back(path);
  }
  return outcome;
}

// A safetensors file has no hash in it, so that the log says which one it was.
void say_what_was_read(const ArraySource& file, const std::string& map, const Outcome& outcome) {
  std::string text = file.path().string();
  if (map != tasuki_names) text += fmt::format(", with the names of {}", map);
  if (const auto* const safetensors = dynamic_cast<const SafetensorsFile*>(&file))
    text += fmt::format(", hash of the file {}", hash_digits(safetensors->hash()));
  log_info("initial weights: {} ({} arrays)", text, outcome.loaded);
  if (!outcome.skipped.empty())
    log_info("initial values kept by --init-skip: {}", join(outcome.skipped, ", "));
  if (!outcome.lacking.empty())
    log_info("not from that file, as the map says: {}", join(outcome.lacking, ", "));
}

// The names in the file of the arrays that keep their values. `whole` has `target`, whose paths
// lack `above`.
std::set<std::string> names_to_skip(const std::vector<std::string>& patterns, const Module& whole,
                                    const std::string& above, const std::string& prefix) {
  std::set<std::string> names;
  for (const std::string& path : array_names(whole))
    if (is_chosen(patterns, path) && path.starts_with(above))
      names.insert(prefix + path.substr(above.size()));
  return names;
}

// load_npz(), with an error that says how to go on.
void load(const std::shared_ptr<const ArraySource>& file, const Module& target,
          const std::string& prefix, const InitialWeights& weights) {
  const std::string difference = describe_difference(*file, prefix, target);
  if (!difference.empty())
    fail(ErrorKind::data, "{}{}", difference,
         weights.skip ? "; --init-skip PATTERN leaves arrays at their initial values, as another "
                        "number of classes needs"
                      : "");
  if (weights.reads_later)
    return load_npz_later(file, target, prefix, [&](const std::string& path, const Tensor& values) {
      check_array(path, values, file->path());
    });
  load_npz(*file, target, prefix);
  check_finite(target, file->path());
}

// A file with the names of the model's arrays, and what it consists of.
struct OpenedWeights {
  std::unique_ptr<ArraySource> opened{};
  std::optional<MappedSource> mapped{};
  std::optional<Without> file{};
};

}  // namespace

void load_initial_weights(const InitialWeights& weights, Module& model, Communicator& communicator,
                          const ModelGrid& grid) {
  const std::vector<std::string> patterns = weights.skip.value_or(std::vector<std::string>());
  check_patterns("--init-skip", patterns, array_names(model), communicator);
  run_on_all(communicator, [&] {
    if (grid.data().rank() != 0) return;
    const auto from = std::make_shared<OpenedWeights>();
    from->opened = open_weights(weights.path, grid.suffix());
    const ArraySource& opened = *from->opened;
    const std::vector<std::string> names = opened.names();
    const auto has = [&](const std::string& start) {
      return std::ranges::any_of(names,
                                 [&](const std::string& name) { return name.starts_with(start); });
    };
    const std::string prefix = prefix_in(opened);
    auto* const classifier = dynamic_cast<Classifier*>(&model);
    const bool is_predictor = classifier != nullptr && !has(prefix + "predictor/");
    const Module& target = is_predictor ? classifier->predictor() : model;
    std::string map = tasuki_names;
    if (weights.map)
      map = *weights.map;
    else if (prefix.empty())
      map = fitting_map(opened, array_names(target));
    std::optional<MappedSource>& mapped = from->mapped;
    if (map != tasuki_names) mapped.emplace(opened, read_name_map(map), array_names(target));
    const std::string of_model = mapped ? "" : prefix;
    const std::set<std::string> skipped =
        names_to_skip(patterns, model, is_predictor ? "predictor/" : "", of_model);
    from->file.emplace(mapped ? static_cast<const ArraySource&>(*mapped) : opened, skipped);
    const Without& file = *from->file;
    const Outcome outcome = outcome_of(target, file, of_model, skipped);
    load({from, &file}, target, of_model, weights);
    warn_of_unknown(entries_not_in(target, file, of_model), file.path());
    if (communicator.rank() == 0) say_what_was_read(opened, map, outcome);
  });
}

}  // namespace tasuki::program
