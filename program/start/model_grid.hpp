// ModelGrid: arranges the ranks of a job in rows and columns (TrainingSettings::model_ranks).
//
// A row of neighbouring ranks holds one model and sees the same batches. The ranks of a column hold
// the same part of the model: data are dealt, and gradients summed, over a column. If each rank has
// a whole model, the job is the only column.
#pragma once

#include <memory>
#include <string>

#include "communicator/communicator.hpp"
#include "program/flags/training_settings.hpp"
#include "saving/replica_set.hpp"

namespace tasuki::program {

// The number of ranks that hold one model, of this many ranks.
int model_ranks(const TrainingSettings& settings, int ranks);
// Refuses flags that work only on whole models. The same on all ranks.
void check_divided_model(const TrainingSettings& settings, int ranks);

class ModelGrid {
 public:
  // A number of ranks that model_ranks does not divide is a usage error. Collective over `whole`,
  // which must outlive this object.
  ModelGrid(Communicator& whole, const TrainingSettings& settings, const std::string& program);

  bool is_divided() const { return replicas_ != nullptr; }
  int model_ranks() const { return model_ranks_; }
  // The number of models.
  int models() const { return data().size(); }
  // The ranks that hold a model with this one; the whole job's if is_divided() is false.
  Communicator& model() const { return model_ ? *model_ : whole_; }
  // The ranks that hold the same part as this one.
  Communicator& data() const { return replicas_ ? replicas_->members() : whole_; }
  // The columns, for snapshots; null if is_divided() is false.
  const std::shared_ptr<const ReplicaSet>& replicas() const { return replicas_; }
  // Of the names of files with this rank's part: ".0", ".1", ...; empty if is_divided() is false.
  std::string suffix() const { return replicas_ ? replicas_->suffix() : ""; }

 private:
  Communicator& whole_;
  int model_ranks_;
  std::unique_ptr<Communicator> model_;
  std::shared_ptr<const ReplicaSet> replicas_;
};

}  // namespace tasuki::program
