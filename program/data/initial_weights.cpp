#include "program/data/initial_weights.hpp"

#include <algorithm>
#include <cmath>

#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/printable.hpp"
#include "nn/classifier.hpp"
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

}  // namespace

void load_initial_weights(const std::string& path, Module& model, Communicator& communicator,
                          const ModelGrid& grid) {
  run_on_all(communicator, [&] {
    if (grid.data().rank() != 0) return;
    const auto opened = open_weights(path, grid.suffix());
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

}  // namespace tasuki::program
