// MpiCommunicator: everything a communicator offers, over plain MPI. The communicators by name
// derive from it and replace what they do better, as a rule `combine` and `allocate`.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/communicator/mpi/mpi.hpp"
#include "tasuki/communicator/registry.hpp"
#include "tasuki/core/activity.hpp"

namespace tasuki {

class BackgroundThread;
class GpuExchange;

class MpiCommunicator : public Communicator {
 public:
  // Collective. `name` is that under which the kind is registered; split() makes children by it.
  MpiCommunicator(std::string name, MPI_Comm comm, const CommunicatorOptions& options);
  ~MpiCommunicator() override;

  std::string name() const override { return name_; }
  const Topology& topology() const override { return topology_; }
  std::unique_ptr<Communicator> split(int color, int key) override;
  void barrier() override;

  // Default arguments are those of Communicator, for classes that derive from this one.
  std::shared_ptr<Storage> allocate(std::size_t bytes, Device device = Device::cpu()) override;

  void sum_gradients(const GradientView& gradients) override;
  // Ranks on one GPU that wait for each other inside a recorded step may wait forever.
  bool queues_exchanges() const override { return only_asks_gpu() && !options_.gpu_is_shared; }
  std::unique_ptr<PendingExchange> start_sum_gradients(const GradientView& gradients) override;
  void bcast_data(const Tensor& parameters) override;

  using Communicator::send;
  void send(std::span<const Tensor> tensors, int dest, int tag = 0) override;
  std::vector<Tensor> recv_many(int source, int tag = 0) override;
  Tensor bcast(const Tensor& tensor, int root = 0) override;
  std::vector<Tensor> gather(const Tensor& tensor, int root = 0) override;
  std::vector<Tensor> allgather(const Tensor& tensor) override;
  std::vector<Tensor> alltoall(std::span<const Tensor> tensors) override;
  Tensor scatter(std::span<const Tensor> tensors, int root = 0) override;

  void allreduce(const Tensor& tensor, ReduceOp op = ReduceOp::sum) override;
  void reduce(const Tensor& tensor, ReduceOp op = ReduceOp::sum, int root = 0) override;
  Tensor reduce_scatter(const Tensor& tensor, ReduceOp op = ReduceOp::sum) override;

  void send_bytes(std::span<const std::byte> bytes, int dest, int tag = 0) override;
  Bytes recv_bytes(int source, int tag = any_tag, MessageInfo* info = nullptr) override;
  Bytes bcast_bytes(std::span<const std::byte> bytes, int root = 0,
                    std::int64_t chunk = std::int64_t{256} << 20) override;
  std::vector<Bytes> gather_bytes(std::span<const std::byte> bytes, int root = 0) override;
  std::vector<Bytes> allgather_bytes(std::span<const std::byte> bytes) override;
  Bytes scatter_bytes(std::span<const Bytes> parts, int root = 0) override;

 protected:
  // Combines `values` of all ranks in place: what allreduce and sum_gradients come down to, on any
  // device, and often all that a communicator of your own replaces. `values` are plain, in host
  // memory (those of a GPU are on their way through it, unless combine_on_gpu does better), and of
  // the same shape and type on all ranks unless `checks_agreement` says that combine finds out
  // itself.
  virtual void combine(const Tensor& values, ReduceOp op);
  virtual bool checks_agreement() const { return false; }

  // --- values in the memory of this rank's GPU (CommunicatorOptions::device) ---
  bool is_on_gpu(const Tensor& values) const;
  // Made when it is first asked for.
  GpuExchange& gpu();
  // What the operations come down to there. They are called in gpu().in_order(); all ranks have
  // agreed on type and number. By themselves they pass through the host.
  virtual void combine_on_gpu(const Tensor& values, ReduceOp op);
  virtual void sum_on_gpu(const GradientView& gradients);  // by itself combine_on_gpu
  virtual void bcast_on_gpu(const Tensor& values);         // from rank 0
  // Whether sum_on_gpu asks the GPU for work and waits for nothing: it then needs no thread to run
  // beside the computation.
  virtual bool only_asks_gpu() const { return false; }
  // Whether values go through GpuGroups, which prefer memory of their own.
  virtual bool has_gpu_groups() const { return false; }

  // An error on all ranks (kind disagreement), naming two that differ, unless all give the same
  // text. Collective. `maxima` become their largest values over all ranks, on the same occasion.
  void require_agreement(const char* operation, const std::string& text,
                         std::span<std::int64_t> maxima = {});

  // Refuses what this communicator is asked for while exchanges of `other`, which does its
  // exchanges for it, are under way.
  void share_exchanges_with(const MpiCommunicator& other) { under_way_ = other.under_way_; }

  // For collectives; messages of send and recv travel on a communicator of their own.
  MPI_Comm comm() const;
  const CommunicatorOptions& options() const { return options_; }

  // At the begin of every operation, for its length: what this rank is seen waiting in, should
  // others not come to it.
  WaitScope wait_in(Waiting kind, std::size_t bytes = 0) {
    return {kind, id_, operations_, static_cast<std::int64_t>(bytes)};
  }
  // The same with one other rank (or any_source).
  WaitScope wait_for(Waiting kind, int peer) { return WaitScope(kind, id_, std::int64_t{peer}); }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  void sum_gradients_on_gpu(const GradientView& gradients);
  // Does `work` although exchanges may be under way: the GPU does them one after the other.
  void start_on_gpu(const std::function<void()>& work);
  // An error while an exchange runs in the background, unless this is its thread.
  void check_free() const;
  void check_root(const char* operation, int root) const;
  void check_peer(const char* operation, int peer) const;

  std::string name_;
  CommunicatorOptions options_;
  MpiComm comm_, messages_;
  std::uint64_t id_;                         // communicator_id.hpp
  std::atomic<std::int64_t> operations_{0};  // begun ones
  Topology topology_;
  std::unique_ptr<GpuExchange> gpu_;
  std::set<std::string> agreed_;  // gradients on GPUs that all ranks are known to give alike
  bool is_starting_ = false;      // an exchange that only asks the GPU, in start_sum_gradients
  std::unique_ptr<BackgroundThread> background_;
  // Exchanges started and not waited for; exchanges in the background look at it, too.
  std::shared_ptr<std::atomic<int>> under_way_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace tasuki
