// A small training in a program that has its own MPI.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/mpi_comm.hpp"
#include "models/mlp.hpp"
#include "nn/functions/loss.hpp"
#include "optimizer/optimizer.hpp"

namespace tasuki::testing {

inline int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}
inline int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

// Examples are functions of the rank and the step, so equal trainings have equal bits.
class GuestTraining {
 public:
  explicit GuestTraining(MPI_Comm comm, std::uint64_t seed = 1, const std::string& kind = "auto",
                         const CommunicatorOptions& options = {},
                         Sharding sharding = Sharding::none)
      : communicator_(create_communicator(kind, comm, options)),
        optimizer_(create_multi_node_optimizer(create_optimizer("adam"), *communicator_)) {
    model_.initialize(seed);
    optimizer_->shard(sharding, {"l*"});
    optimizer_->setup(model_);
  }

  Tensor step(std::int64_t number) {
    return step(number, [&](const Variable& y, const Tensor& t) {
      return functions::mean_squared_error(y, t);
    });
  }
  // With a loss function of the caller's.
  template <class Loss>
  Tensor step(std::int64_t number, const Loss& loss) {
    constexpr std::int64_t examples = 4;
    const Tensor x = Tensor::empty({examples, inputs}), t = Tensor::empty({examples, outputs});
    for (std::int64_t i = 0; i < x.count(); ++i)
      x.data<float>()[i] =
          static_cast<float>((7 * i + 3 * number + 5 * communicator_->rank()) % 11) / 11;
    for (std::int64_t i = 0; i < t.count(); ++i)
      t.data<float>()[i] = x.data<float>()[i % x.count()] / 2;
    return optimizer_->update([&] { return loss(model_(Variable(x)), t); }, examples);
  }
  void steps(std::int64_t first, std::int64_t count) {
    for (std::int64_t number = first; number < first + count; ++number) step(number);
  }

  std::vector<float> weights() const {
    const auto values = optimizer_->arena().values().span<float>();
    return {values.begin(), values.end()};
  }
  Communicator& communicator() { return *communicator_; }
  Optimizer& optimizer() { return *optimizer_; }
  MLP& model() { return model_; }

  static constexpr std::int64_t inputs = 6, outputs = 3;

 private:
  std::unique_ptr<Communicator> communicator_;
  MLP model_{inputs, 8, outputs};
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace tasuki::testing
