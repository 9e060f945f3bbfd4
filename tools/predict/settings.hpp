// The flags of `tasuki-predict` that all kinds of models share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/flags/training_settings.hpp"

namespace tasuki::predict {

enum class Format { table, json, csv };

struct PredictionSettings {
  std::string model = "result";     // a checkpoint, snapshot or model file, or an output folder
  std::vector<std::string> inputs;  // files and folders; empty: the run's test data
  std::optional<std::string> arch;
  std::optional<std::string> model_map;  // of the names in the model's file (saving/name_map.hpp)
  std::int64_t batchsize = 100;          // per rank
  std::optional<std::int64_t> examples;  // only the first ones
  std::optional<std::int64_t> seed;      // for generated text or images; default: the run's
  Format format = Format::table;
  bool quiet = false;              // only the summary
  std::optional<std::string> out;  // file; default: standard output
  program::GpuSettings gpu;
  std::optional<std::int64_t> threads;
  ConvAlgorithm conv = ConvAlgorithm::fastest;
  program::StallSettings stalls;
};

}  // namespace tasuki::predict
