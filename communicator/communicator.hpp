// Communicator: exchanges values between the ranks of a job, or some of them, over MPI.
//
// This class exchanges arrays and gradients; free functions exchange JSON values (objects.hpp) and
// bytes (bytes.hpp). The kinds (kinds/, registered by name in registry.hpp) derive from it and
// override protected functions, usually `combine` and `sum`; `combine` alone is enough. The members
// are defined in communicator.cpp, gradients.cpp, divided_arrays.cpp, mpi/arrays.cpp and
// gpu/communicator_on_gpu.cpp.
//
// Every operation except sending and receiving is collective, split() and allocate() included: all
// ranks call it, in the same order. With TASUKI_CHECK_COLLECTIVES=1 in the environment of rank 0,
// each call checks that (mpi/collective_check.hpp). Errors are thrown as tasuki::Error; they name
// the operation and the peer and quote MPI's own text. A rank or root outside 0 .. size() - 1 is a
// usage error. Tensors may be on any device: operations in place leave them there, and returned
// tensors are on CommunicatorOptions::device. Only one thread at a time may use a communicator.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "communicator/algorithms/wire_format.hpp"
#include "communicator/communicator_options.hpp"
#include "communicator/gradient_view.hpp"
#include "communicator/pending_exchange.hpp"
#include "communicator/sliced_work.hpp"
#include "communicator/topology.hpp"
#include "core/range.hpp"
#include "tensor/reduce.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

class CollectiveCheck;
class ExchangesUnderWay;
class GpuExchange;
class MpiComm;
class SumSearch;

class Communicator {
 public:
  // Collective over the ranks. MPI's communicator is duplicated, so that its messages never mix
  // with the program's.
  explicit Communicator(const CommunicatorSetup& setup);
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // --- who and where ---
  // The name that create_communicator() was given.
  const std::string& name() const;
  // One line for the banner: which data travels how and, if `auto` chose this kind, why.
  std::string describe() const;
  const CommunicatorOptions& options() const { return setup_.options; }
  const Topology& topology() const { return topology_; }
  int rank() const { return topology_.rank; }
  int size() const { return topology_.size; }
  int intra_rank() const { return topology_.intra_rank; }
  int intra_size() const { return topology_.intra_size; }
  int inter_rank() const { return topology_.inter_rank; }
  int inter_size() const { return topology_.inter_size; }
  // MPI's handle, for calls that this class does not offer: see mpi_comm() in mpi_comm.hpp.
  const MpiComm& mpi() const;

  // A communicator of the same name and options among the ranks that give the same color (0 or
  // more), ordered by key.
  std::unique_ptr<Communicator> split(int color, int key) const;
  void barrier();

  // --- memory ---
  // A zeroed buffer of this rank's own, from which exchanges are fastest: on CPUs, if the kind uses
  // shared memory, other ranks of the node can read it directly. Sizes may differ between ranks.
  // Values in other memory are exchanged through copies.
  std::shared_ptr<Storage> allocate(std::size_t bytes, Device device = Device::cpu());

  // --- gradients; for models without an optimizer see optimizer/module_exchange.hpp ---
  // Sums the gradients of all ranks in place.
  void sum_gradients(const GradientView& gradients);
  // sum_gradients(), then divides by `divisor`, or by the number of ranks if it is 0.
  // GradientView::wire_scale_hint changes only the rounding.
  void mean_gradients(const GradientView& gradients, double divisor = 0);
  // Starts sum_gradients() in the background. If the communicator does not support this (or, with
  // Background::slices, if the ranks are not known to pass the same view: GradientView::is_agreed),
  // wait() does all the work. On a GPU `background` is ignored.
  //   Until wait(), do not read or write gradients.arena, and call nothing on this communicator
  // except to start further exchanges with the same `background`. All ranks start them in the same
  // order. After one has failed, later ones fail as well, without a message to other ranks, until
  // wait() has been called for all that were started.
  std::unique_ptr<PendingExchange> start_sum_gradients(const GradientView& gradients,
                                                       Background background = Background::thread);
  // How many arrays of a rank a sum of shards uses (GradientView::shards): as many as the rank
  // brings, or as its node brings where the ranks of a node add up first. The same on all ranks.
  std::size_t arrays_for(const ShardSources& shards) const;
  // Copies rank 0's values to all ranks, in place.
  void bcast_data(const Tensor& values);

  // --- arrays, sent with their types and shapes ---
  // float32, float64, float16, bfloat16, int32, int64 and uint8, of any shape. Types and shapes may
  // differ between ranks.
  //
  // send() may block until the receiver has called recv(), so two ranks must not both send to each
  // other first. A rank cannot send to itself. A message must be received as it was sent: as
  // arrays, as an object or as bytes. recv() takes a message of one tensor, recv_many() of any
  // number. `source` may be any_source and `tag` any_tag (bytes.hpp); note that recv_object() and
  // recv_bytes() accept any tag by default.
  void send(std::span<const Tensor> tensors, int dest, int tag = 0);
  void send(const Tensor& tensor, int dest, int tag = 0) { send({&tensor, 1}, dest, tag); }
  std::vector<Tensor> recv_many(int source, int tag = 0);
  Tensor recv(int source, int tag = 0);
  Tensor bcast(const Tensor& tensor, int root = 0);                // read at the root only
  std::vector<Tensor> gather(const Tensor& tensor, int root = 0);  // empty on the other ranks
  std::vector<Tensor> allgather(const Tensor& tensor);
  // Sends tensors[i] to rank i; element i of the result is from rank i. Takes size() tensors.
  std::vector<Tensor> alltoall(std::span<const Tensor> tensors);
  // Returns tensors[rank()] of the root, which passes one tensor per rank; others may pass none.
  Tensor scatter(std::span<const Tensor> tensors, int root = 0);
  // This rank's part of the root's array. Each rank gets consecutive items of axis 0, in the order
  // of ranks; if their number is not divisible by size(), the first ranks get one more each.
  Tensor scatter(const Tensor& tensor, int root = 0);

  // --- arrays of one type and shape on all ranks; all types but uint8 ---
  // In place. `is_agreed`: skips the message that compares types and sizes. Pass it only if all
  // ranks are known to pass the same type and number of elements as in an earlier call; on CPUs,
  // each must also pass the same memory as in that call (best from allocate()).
  void allreduce(const Tensor& tensor, ReduceOp op = ReduceOp::sum, bool is_agreed = false);
  // In place at the root; other ranks keep their values.
  void reduce(const Tensor& tensor, ReduceOp op = ReduceOp::sum, int root = 0);
  // This rank's part of the result, divided as by scatter(); `tensor` keeps its values.
  Tensor reduce_scatter(const Tensor& tensor, ReduceOp op = ReduceOp::sum);
  // Copies elements parts[r] of rank r's `values` to the same place on all other ranks (an in-place
  // allgatherv). The values are one-dimensional and row-major; the parts do not overlap and must be
  // the same on all ranks, which no message checks. `once_per_node`: the ranks of a node pass the
  // same shared memory; read it only after all of them have returned.
  void share_parts(const Tensor& values, std::span<const Range> parts, bool once_per_node = false);

  // --- abilities and measurements ---
  // Whether ranks of a node can share memory (node/node_array.hpp).
  virtual bool shares_memory() const { return false; }
  // Whether exchanges in host memory can run in the background in this way: by a thread if MPI has
  // MPI_THREAD_MULTIPLE, in slices if the kind implements that (start_sum).
  bool supports(Background background) const;
  // The total time of gradient exchanges in host memory so far, in seconds. An exchange is timed
  // from when this rank begins it until it is complete, whether or not the caller waits for it, so
  // delays of other ranks are included.
  double exchange_seconds() const;
  // False (dummy): sum_gradients() does nothing, so ranks learn nothing about each other's steps.
  virtual bool exchanges_gradients() const { return true; }
  // Whether a sum of float32 values has the same bits on all ranks. False if that is not known, as
  // with MPI_Allreduce, which does not promise it.
  virtual bool sums_alike() const { return false; }
  // Whether sum_gradients() adds sums of shards in their order (GradientView::shards).
  virtual bool adds_shards() const { return false; }
  // Finds NaN and infinity while sums are computed; null: this kind cannot.
  virtual SumSearch* sum_search() { return nullptr; }
  // Whether sum_gradients() on a GPU only queues work there, so that a step with it can be captured
  // as a CUDA graph. False if ranks share a GPU: a captured step could deadlock.
  bool queues_exchanges() const { return queues_on_gpu() && !options().gpu_is_shared; }

 protected:
  // --- what a kind may override ---
  // Which data travels how, in a few words. Default: the name.
  virtual std::string describe_kind() const;

  // Combines `values` of all ranks in place. Default: MPI_Allreduce. `values` are row-major, in
  // host memory, and of the same type and number on all ranks. Called by allreduce() and
  // sum_gradients(); by default also for values on a GPU, which are copied to the host and back.
  virtual void combine(const Tensor& values, ReduceOp op);
  // combine() if all ranks are known to pass the same type and number of values as in an earlier
  // call, in the same memory. Default: combine().
  virtual void combine_agreed(const Tensor& values, ReduceOp op);
  // True: combine() itself rejects values whose type or number differs between ranks, so no extra
  // message compares them.
  virtual bool checks_agreement() const { return false; }
  // Sums gradients in host memory: all of them, or one range. For ranges it is called several times
  // a step, and may run in a thread of the communicator while other gradients are computed.
  // Default: agree_on(), then combine() of the whole arena, even if ranks need less.
  virtual void sum(const GradientView& gradients);
  // True: start_sum() supports a view that is agreed, in memory from allocate().
  virtual bool sums_in_slices() const { return false; }
  // Starts sum() in slices, without waiting for other ranks. Null, on all ranks: not possible for
  // this view.
  virtual std::unique_ptr<SlicedWork> start_sum(const GradientView& gradients);
  // Combines elements parts[rank()] of all ranks' `values` into `own`; `values` stay as they are.
  // Both are row-major and in host memory. Default: MPI_Reduce_scatter.
  virtual void combine_part(const Tensor& values, std::span<const Range> parts, const Tensor& own,
                            ReduceOp op);
  // share_parts() in host memory. Default: MPI_Allgatherv. `once_per_node` is true only for kinds
  // that share memory.
  virtual void give_parts(const Tensor& values, std::span<const Range> parts, bool once_per_node);
  // Zeroed memory for allocate().
  virtual std::shared_ptr<Storage> allocate_memory(std::size_t bytes, Device device);

  // The functions above, for values in the memory of this rank's GPU (CommunicatorOptions::device).
  // They are called inside gpu().in_order() once all ranks have agreed on type and number.
  // Defaults: through the host.
  virtual void combine_on_gpu(const Tensor& values, ReduceOp op);
  virtual void sum_on_gpu(const GradientView& gradients);  // default: combine_on_gpu
  virtual void bcast_on_gpu(const Tensor& values);         // from rank 0
  virtual void give_parts_on_gpu(const Tensor& values, std::span<const Range> parts);
  // True: sum_on_gpu() only queues work on the GPU and never blocks, so it overlaps with the
  // computation without a thread.
  virtual bool queues_on_gpu() const { return false; }
  // True: values go through GpuGroups, which are fastest from memory that they allocated.
  virtual bool has_gpu_groups() const { return false; }

  // --- what a kind may use ---
  // Refuses gradients that differ between ranks in type or number. Sends no message if ranks are
  // known to agree, or if checks_agreement().
  void agree_on(const GradientView& gradients);
  // How these gradients travel: rounded to CommunicatorOptions::wire_dtype, with the scaling, exact
  // elements and error feedback that the view asks for.
  Wire wire_of(const GradientView& gradients) const;
  // ", float16 between nodes" or nothing; for describe_kind().
  std::string text_of_wire(const char* where) const;
  // MPI's handle for collectives. Throws while a gradient exchange runs in the background, unless
  // that exchange itself calls it.
  const MpiComm& comm() const;
  // The ranks that give the same color, ordered by key, for messages of the kind's own; empty on
  // ranks whose color is MPI_UNDEFINED. The handle belongs to this communicator and is freed with
  // it, unless a rank has left (mpi/departures.hpp). Collective.
  MpiComm split_ranks(int color, int key) const;
  // sum() of a scattered view: combine_part() of the parts, combine() of the elements after them.
  void sum_scattered(const GradientView& gradients);
  // Created by the first call.
  GpuExchange& gpu();
  // Throws ErrorKind::disagreement on all ranks if the texts differ, and names two ranks that
  // differ. Also replaces each of `maxima` by its maximum over all ranks. Collective.
  void require_agreement(const char* operation, const std::string& text,
                         std::span<std::int64_t> maxima = {});

 private:
  friend class CollectiveScope;  // mpi/operation_scopes.hpp
  friend class MessageScope;
  struct Handles;

  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  std::int64_t call_bytes() const { return options().sizes.mpi_call; }
  bool is_on_gpu(const Tensor& values) const;
  void sum_gradients_on_gpu(const GradientView& gradients);
  // Refuses an operation while an exchange of gradients runs in the background.
  void check_free() const;

  CommunicatorSetup setup_;  // `ranks` is null here
  std::unique_ptr<Handles> handles_;
  Topology topology_;
  std::uint64_t id_;                                 // mpi/communicator_id.hpp
  std::unique_ptr<CollectiveCheck> check_;           // null: calls are not compared
  mutable std::atomic<std::int64_t> operations_{0};  // begun
  std::unique_ptr<GpuExchange> gpu_;
  std::set<std::string> agreed_;  // gradients on GPUs that all ranks are known to agree on
  std::unique_ptr<ExchangesUnderWay> exchanges_;
};

}  // namespace tasuki
