// PlanRun: carries out a MessagePlan with MPI's non-blocking messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "communicator/algorithms/message_plan.hpp"
#include "communicator/algorithms/rounded_vector.hpp"
#include "communicator/mpi/mpi.hpp"
#include "communicator/sliced_work.hpp"
#include "tensor/dtype.hpp"
#include "tensor/reduce.hpp"

namespace tasuki {

// Work inside a node while messages travel. Both functions may be empty.
struct PieceWork {
  // Prepares a piece of MessagePlan::need before its first use; called in the order of pieces.
  // Returns false if this rank's values are not there yet, and is then called again later. Must not
  // wait for other ranks.
  std::function<bool(Range)> prepare;
  // Called with each piece of MessagePlan::completion, in order, when the piece holds the result.
  std::function<void(Range)> finished;
};

// Combines `values` of all ranks of `comm` in place; each rank has its own plan of the same
// algorithm. Elements that the plan does not complete may have any values afterwards. No other
// messages may travel through `comm` meanwhile. Several messages are under way in each direction,
// so that sending, receiving, combining and the work inside the node overlap.
class PlanRun final : public SlicedWork {
 public:
  // `values`, `plan` and `comm` outlive the run. Sums of float32 travel in the format of `wire`,
  // the same on all ranks.
  PlanRun(void* values, DType type, ReduceOp op, const MessagePlan& plan, MPI_Comm comm,
          PieceWork work = {}, const Wire& wire = {});
  // Abandons messages that are under way, as after an error.
  ~PlanRun() override;
  PlanRun(const PlanRun&) = delete;
  PlanRun& operator=(const PlanRun&) = delete;

  bool is_done() const override;
  bool advance() override;
  // Returns when the run is done; yields the core while there is nothing to do.
  void finish();

 private:
  // The messages of one direction: messages before `completed` are complete, further messages
  // before `started` are under way.
  struct Line {
    const std::vector<Message>& messages;
    std::vector<MPI_Request> requests{};  // of message i at i % window
    std::int64_t started = 0, completed = 0;

    bool is_done() const { return completed == std::ssize(messages); }
    const Message& at(std::int64_t i) const { return messages[static_cast<std::size_t>(i)]; }
    MPI_Request& request(std::int64_t i);
    bool has_arrived();  // the first message that is under way
  };
  struct Held {
    std::size_t place;  // in the order of the sum
    const std::byte* values;
  };

  std::byte* place_of(Range range, std::size_t array = 0) const;
  std::int64_t bytes_of(Range range) const;
  std::int64_t longest_message() const;  // bytes
  int length_of(const Message& message) const;
  std::byte* room(std::int64_t number) const;
  bool arrives_in_place(const Message& message) const;
  std::byte* place_of_arrival(std::int64_t receive) const;
  const std::byte* values_to_send(std::int64_t send);
  bool prepare_up_to(std::int64_t pieces);
  bool start_receives();
  bool start_sends();
  bool complete_receive();
  bool complete_send();
  void combine(const Message& message, std::byte* arrived);
  void combine_rounded(const Message& message, std::byte* arrived);
  // Adds the held values and this rank's own, in the order of the tree.
  void add_in_tree(const TreeOfMessages& tree, Range range);

  std::byte* values_;
  DType type_;
  ReduceOp op_;
  const MessagePlan& plan_;
  MPI_Comm comm_;
  PieceWork work_;
  int rank_ = 0;
  std::optional<RoundedVector> rounded_;  // the values, if they travel rounded
  std::size_t prepared_ = 0;              // pieces
  Line sends_, receives_;
  // Rooms, each for the longest message: for messages that arrive and messages that are held. If
  // values are rounded, also for messages that leave, and for this rank's own values beside the
  // held ones.
  std::int64_t room_bytes_, arrivals_;
  std::unique_ptr<std::byte[]> rooms_;  // NOLINT(modernize-avoid-c-arrays): not initialised
  std::vector<Held> held_;
};

}  // namespace tasuki
