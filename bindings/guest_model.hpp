// GuestModel: a network with its loss and its optimizer, for programs that see neither classes nor
// exceptions. It is tasuki.h's tasuki_model; the contracts are there.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "bindings/lines.hpp"
#include "bindings/losses.hpp"
#include "bindings/tasuki.h"
#include "communicator/communicator.hpp"
#include "core/error.hpp"
#include "nn/layer.hpp"
#include "nn/random.hpp"
#include "optimizer/optimizer.hpp"

namespace tasuki::bindings {

// This rank has not enough memory, and all ranks know it.
class NoMemoryHere : public Error {
 public:
  using Error::Error;
};

class GuestModel {
 public:
  GuestModel(MPI_Comm comm, const std::string& network, const std::string& loss,
             const std::string& settings);
  GuestModel(const GuestModel&) = delete;
  GuestModel& operator=(const GuestModel&) = delete;

  // Null pointers to arrays are errors; `loss` may be null.
  void train_step(const tasuki_array* x, const tasuki_array* t, double* loss);
  double evaluate(const tasuki_array* x, const tasuki_array* t);
  void predict(const tasuki_array* x, const tasuki_array* y);
  void set(const std::string& name, double value);
  double get(const std::string& name) const;
  void save(const std::filesystem::path& path);
  void load(const std::filesystem::path& path);
  void checkpoint(const std::filesystem::path& path);
  void resume(const std::filesystem::path& path);

  // "rank 2 on node7", by the ranks of the job.
  std::string who() const;

 private:
  struct Examples {
    Tensor x, t;              // on the device, with the network's axes
    std::int64_t weight = 0;  // the number of targets that count
  };
  Examples examples_of(const tasuki_array* x, const tasuki_array* t) const;
  Tensor input_of(const tasuki_array* x) const;
  Variable loss_of(const Examples& examples);
  // Calls `work`, in which all ranks take part. If it fails on this rank alone, tells the others.
  void together(const std::function<void()>& work);
  // Calls `check` on all ranks; if it fails on any, or if hyper-parameters differ, all ranks throw
  // the same error. Costs one small message.
  void check_together(const std::function<void()>& check);
  // Call it when hyper-parameters may have changed.
  void note_values();

  std::unique_ptr<Communicator> communicator_;  // first: the others use it, and its memory
  Device device_;
  int threads_ = 1;
  const NamedLoss* loss_ = nullptr;
  std::unique_ptr<Layer> network_;
  Shape input_, output_;  // of one example
  std::unique_ptr<Optimizer> optimizer_;
  std::uint64_t seed_ = 0;
  std::optional<RandomKeys> random_;
  Tensor votes_;             // of check_together()
  std::int64_t values_ = 0;  // a hash of the hyper-parameters, not negative
  std::string ended_;        // why there are no more steps; empty: there are
};

}  // namespace tasuki::bindings
