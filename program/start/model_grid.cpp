#include "program/start/model_grid.hpp"

#include <utility>

#include "core/error.hpp"

namespace tasuki::program {
namespace {

// The columns: every model_ranks-th rank.
ReplicaSets columns_of(int ranks, int model_ranks) {
  ReplicaSets columns(static_cast<std::size_t>(model_ranks));
  for (int rank = 0; rank < ranks; ++rank)
    columns[static_cast<std::size_t>(rank % model_ranks)].push_back(rank);
  return columns;
}

}  // namespace

int model_ranks(const TrainingSettings& settings, int ranks) {
  return settings.model_ranks == 0 ? ranks : static_cast<int>(settings.model_ranks);
}

void check_divided_model(const TrainingSettings& settings, int ranks) {
  if (model_ranks(settings, ranks) == 1) return;
  const auto refuse = [](bool is_given, const char* flag, const char* why) {
    if (is_given)
      fail_everywhere(ErrorKind::usage, "{}: each rank has a part of the model; {}", flag, why);
  };
  refuse(settings.find_batchsize, "--find-batchsize",
         "no rank can try a step alone, so choose --batchsize by hand");
  refuse(settings.clip_norm.has_value(), "--clip-norm",
         "no rank knows the norm of all gradients, so leave it out");
  refuse(settings.lars, "--lars",
         "no rank knows the norms of parameters that are divided, so leave it out");
  refuse(settings.optimizer == "lamb", "--optimizer lamb",
         "no rank knows the norms of parameters that are divided; take adamw");
  refuse(settings.workers.has_value(), "--devices",
         "one process with several devices has whole models");
}

ModelGrid::ModelGrid(Communicator& whole, const TrainingSettings& settings,
                     const std::string& program)
    : whole_(whole), model_ranks_(program::model_ranks(settings, whole.size())) {
  if (model_ranks_ == 1) return;
  if (whole.size() % model_ranks_ != 0)
    fail_everywhere(ErrorKind::usage,
                    "{}: {} ranks hold one model together; expected a multiple of {} ranks, found "
                    "{} (tasuki-run -np {})",
                    program, model_ranks_, model_ranks_, whole.size(), model_ranks_);
  model_ = whole.split(whole.rank() / model_ranks_, whole.rank());
  replicas_ = std::make_shared<const ReplicaSet>(whole, columns_of(whole.size(), model_ranks_));
}

}  // namespace tasuki::program
