// Copies of one model that train together in one process: the arrays they share and exchange.
#pragma once

#include <vector>

#include "optimizer/optimizer.hpp"
#include "optimizer/replica.hpp"
#include "training/workers/worker_threads.hpp"

namespace tasuki {

// Replica 0 is the optimizer's model, which has the optimizer's arena. On CPUs all replicas read
// the same weights, and gradients are summed and weights updated in slices, one for each worker. On
// several devices each replica has separate weights: gradients are summed on the first device and
// weights copied back from it (as in Chainer).
class Replicas {
 public:
  // All models have parameters of the same paths and shapes, and each model is on one device. They
  // take the first one's values. All must outlive this object.
  // `copies_weights`: on CPUs, too.
  Replicas(Optimizer& optimizer, std::vector<Module*> models, bool copies_weights);

  std::size_t size() const { return models_.size(); }
  Device device(std::size_t replica) const { return gradients_[replica].device(); }
  bool share_weights() const { return share_weights_; }

  // An error of kind internal if the optimizer's model has changed since the replicas were made.
  void check_model() const;
  // Call it when the optimizer has rebuilt its arena, as it does when parameters are frozen or
  // unfrozen.
  void follow_arena();
  // In the replica's own thread, before and after it has computed its gradients (or nothing).
  void begin_gradients(std::size_t replica) const;
  void end_gradients(std::size_t replica) const;
  // Replica 0's gradients become the sums over all, added in order.
  void sum_gradients(WorkerThreads& workers) const;
  // Updates the weights of all replicas (Optimizer::update): `apply` is called for a part of
  // [0, count) by each worker, or once for all of it.
  void update(WorkerThreads& workers, const ApplyRange& apply, std::int64_t count) const;
  // Copies replica 0's weights to the others, if something other than update() has changed them.
  void copy_weights() const;
  // Copies replica 0's buffers (running statistics) to the others.
  void copy_buffers() const;

 private:
  void adopt_all();

  Optimizer& optimizer_;
  std::vector<Module*> models_;
  bool share_weights_;
  std::vector<Tensor> values_, gradients_;  // arrays with the arena's offsets, of each replica
  std::vector<Replica> further_;            // of all models but the first
};

}  // namespace tasuki
