// All tasks, and the choice of one for a trained model.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/predict/task.hpp"

namespace tasuki::predict {

using Tasks = std::vector<std::unique_ptr<Task>>;
Tasks create_tasks();
std::vector<std::string> networks_of(const Tasks& tasks);

// Adds --model and --arch.
void add_model_flags(program::Options& options, PredictionSettings& settings, const Tasks& tasks);
// Adds a group with --model-map and all tasks' flags of networks.
void add_network_flags(program::Options& options, PredictionSettings& settings, const Tasks& tasks);

// The task chosen by --arch or the run, and its network. Neither: a usage error on all ranks.
std::pair<Task*, std::string> choose_task(const Tasks& tasks, const PredictionSettings& settings,
                                          const TrainedModel& trained);

// Takes the model from the first word, if there is one; an error if --model is given, too.
void use_model_word(const std::vector<std::string>& words, const program::Options& options,
                    PredictionSettings& settings);

}  // namespace tasuki::predict
