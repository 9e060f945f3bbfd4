// Departures: how the ranks of a communicator learn that one of them takes part in nothing more.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "communicator/mpi/mpi.hpp"

namespace tasuki {

// A rank that leaves sends the others one small message each. They look for it only while they
// wait, so that a step without an error costs nothing. Once a departure is known the communicator
// is over: its operations throw, and MPI's handles stay until the process ends, because messages
// of ranks that knew nothing of it may still arrive there (MpiComm::keep).
class Departures {
 public:
  // `comm` outlives this object.
  explicit Departures(const MpiComm& comm) : comm_(comm) {}
  // A message that carries another id is not for this communicator: it came too late for the one
  // that had this one's number in MPI before.
  void set_id(std::uint64_t id) { id_ = id; }
  Departures(const Departures&) = delete;
  Departures& operator=(const Departures&) = delete;

  // Sends them, once. Waits for no other rank.
  void announce(std::string_view why) noexcept;
  // Whether this or another rank is known to have left.
  bool is_over() const { return is_over_; }
  // Throws an error of kind io if so. Makes no MPI call.
  void refuse_if_over() const;
  // Looks for departures of other ranks, then refuse_if_over().
  void look();
  // look() before the handles are freed: a departure that has arrived is noted, and nothing thrown.
  void look_last() noexcept;

 private:
  void note(std::string text);
  void receive();

  const MpiComm& comm_;
  std::uint64_t id_ = 0;
  std::atomic<bool> is_over_ = false;
  bool is_announced_ = false;
  mutable std::mutex mutex_;
  std::string text_;  // who left and why
};

}  // namespace tasuki
