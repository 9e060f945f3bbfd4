// The weights that --init gives a run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "nn/module.hpp"
#include "program/start/model_grid.hpp"

namespace tasuki::program {

struct InitialWeights {
  // A model file (NPZ or safetensors), a snapshot or a checkpoint.
  std::string path;
  // The map of its names (saving/name_map.hpp): a known one or a file. Nothing: the
  // map that finds most of the model's arrays (fitting_map).
  std::optional<std::string> map = {};
  // Patterns of the arrays that keep their values (chosen_parameters.hpp). Nothing: all arrays must
  // be in the file, and errors do not speak of --init-skip.
  std::optional<std::vector<std::string>> skip = {};
  // Parameters read their values when the optimizer's setup wants them, one after the other.
  bool reads_later = false;
};

// Loads weights on rank 0, from where an optimizer's setup sends them to all ranks; of a divided
// model, FILE.0, FILE.1, ... or the checkpoint's parts on the ranks of the first model. The file
// may have a classifier's predictor alone (without "predictor/"; not where the model is divided and
// a part has no loss). A file that does not fit, but for the arrays to skip, is an error on all
// ranks; weights in it that the model lacks are a warning. Rank 0 logs what was read, what was
// skipped and what the file lacks. Collective.
void load_initial_weights(const InitialWeights& weights, Module& model, Communicator& communicator,
                          const ModelGrid& grid);

}  // namespace tasuki::program
