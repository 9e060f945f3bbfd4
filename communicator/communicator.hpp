// Communicator: what ranks say to each other. The interface is small and knows no model; a new
// communicator is one class and one line that registers its name (registry.hpp).
//
// All operations are collective (every rank calls them in the same order) unless they are send or
// recv. Errors are thrown as tasuki::Error and name the operation, the peer and MPI's own text. A
// rank or root that is not one of 0 .. size() - 1 is an error of kind usage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tasuki/communicator/topology.hpp"
#include "tasuki/tensor/reduce_op.hpp"
#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

// For receiving: from whichever rank, with whichever tag a message comes first. Tags themselves are
// 0 .. 32767 (MPI's least; most libraries take larger ones).
inline constexpr int any_source = -1;
inline constexpr int any_tag = -1;

// Who sent what was received.
struct MessageInfo {
  int source = 0;
  int tag = 0;
};

// The gradients of a model as a communicator sees them: one contiguous array and where each
// parameter's part lies in it (in the order of the array, without gaps but for padding).
struct GradientView {
  struct Segment {
    std::int64_t offset;  // elements
    std::int64_t count;
  };
  Tensor arena;  // plain, one axis, float32
  std::span<const Segment> segments;
  // What the sums will be divided by (the examples of the global batch), 0 if that is not known. It
  // scales what travels as float16, and does not change the result.
  double divisor = 0;
};

using Bytes = std::vector<std::byte>;

// A gradient exchange under way. wait() returns when the arena holds the sums; it may be called
// once, by the thread that started it. One that is dropped is waited for; should it have failed,
// that is a warning. On a GPU, wait() makes what is asked of the device later
// follow the exchange, and the host waits only where MPI carries the values.
class PendingExchange {
 public:
  virtual ~PendingExchange() = default;
  virtual void wait() = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  // --- who and where ---
  virtual std::string name() const = 0;
  // One line for the banner: what travels where, and what was chosen.
  virtual std::string describe() const = 0;
  virtual const Topology& topology() const = 0;
  int rank() const { return topology().rank; }
  int size() const { return topology().size; }
  int intra_rank() const { return topology().intra_rank; }
  int intra_size() const { return topology().intra_size; }
  int inter_rank() const { return topology().inter_rank; }
  int inter_size() const { return topology().inter_size; }

  // A communicator of the same kind and configuration among the ranks that give the same color (0
  // or more), ordered by key.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  virtual void barrier() = 0;

  // --- memory ---
  // Memory from which exchanges are fastest (node-shared on CPUs). Collective; every rank may ask
  // for a different size. Any other memory works too, staged. The contents start as zeros.
  virtual std::shared_ptr<Storage> allocate(std::size_t bytes, Device device = Device::cpu()) = 0;

  // --- training ---
  // Sums the gradients of all ranks in place.
  virtual void sum_gradients(const GradientView& gradients) = 0;
  // Whether sum_gradients() of values in a GPU's memory only asks the GPU for work, so that it can
  // be recorded with the rest of a step.
  virtual bool queues_exchanges() const { return false; }
  // sum_gradients times 1 / divisor (default: the number of ranks).
  void mean_gradients(const GradientView& gradients, double divisor = 0);
  // Starts sum_gradients in the background. No other operation of this communicator may be called
  // before wait(), except further starts.
  virtual std::unique_ptr<PendingExchange> start_sum_gradients(const GradientView& gradients) = 0;
  // Copies rank 0's values to all ranks, in place.
  virtual void bcast_data(const Tensor& parameters) = 0;

  // --- arrays: shapes, types and tuple lengths travel along ---
  // float32, float64, float16, bfloat16, int32, int64 and uint8, of any shape, 0-d included. To
  // send to oneself is an error, as nobody could receive it.
  virtual void send(std::span<const Tensor> tensors, int dest, int tag = 0) = 0;
  virtual std::vector<Tensor> recv_many(int source, int tag = 0) = 0;
  void send(const Tensor& tensor, int dest, int tag = 0) { send({&tensor, 1}, dest, tag); }
  Tensor recv(int source, int tag = 0);
  // Non-root ranks may pass an undefined tensor; shapes may differ between ranks below.
  virtual Tensor bcast(const Tensor& tensor, int root = 0) = 0;
  virtual std::vector<Tensor> gather(const Tensor& tensor, int root = 0) = 0;  // empty off root
  virtual std::vector<Tensor> allgather(const Tensor& tensor) = 0;
  virtual std::vector<Tensor> alltoall(std::span<const Tensor> tensors) = 0;  // size() of them
  virtual Tensor scatter(std::span<const Tensor> tensors, int root = 0) = 0;  // read at root only

  // --- arrays of one shape on all ranks, in place; all types but uint8 ---
  virtual void allreduce(const Tensor& tensor, ReduceOp op = ReduceOp::sum) = 0;
  // Other ranks than the root keep their values.
  virtual void reduce(const Tensor& tensor, ReduceOp op = ReduceOp::sum, int root = 0) = 0;
  // Items of axis 0 are dealt to ranks in order, the first ranks getting one more where they do not
  // divide; returns this rank's part of the result.
  virtual Tensor reduce_scatter(const Tensor& tensor, ReduceOp op = ReduceOp::sum) = 0;

  // --- objects as bytes, of any length ---
  virtual void send_bytes(std::span<const std::byte> bytes, int dest, int tag = 0) = 0;
  virtual Bytes recv_bytes(int source, int tag = any_tag, MessageInfo* info = nullptr) = 0;
  // Travels in chunks of at most `chunk` bytes (1 .. INT_MAX - 1).
  virtual Bytes bcast_bytes(std::span<const std::byte> bytes, int root = 0,
                            std::int64_t chunk = std::int64_t{256} << 20) = 0;
  virtual std::vector<Bytes> gather_bytes(std::span<const std::byte> bytes, int root = 0) = 0;
  virtual std::vector<Bytes> allgather_bytes(std::span<const std::byte> bytes) = 0;
  virtual Bytes scatter_bytes(std::span<const Bytes> parts, int root = 0) = 0;
};

}  // namespace tasuki
