// Talk: short messages between two ranks, with a limit of time.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "communicator/communicator.hpp"
#include "communicator/mpi/mpi.hpp"

namespace tasuki::doctor {

// One conversation of this rank with another one, the `turn`-th of conversations (from 0) that
// ranks have one after the other. A message that takes longer than 10 s, and a second more for each
// turn, is an error of kind io: MPI cannot take a message back, so the job must end. By the longer
// limits of later turns, the pair that is silent reports, and not one that waits for it.
class Talk {
 public:
  Talk(const Communicator& communicator, MPI_Comm comm, int other, int turn);

  void send(std::span<const std::byte> bytes);
  void receive(std::span<std::byte> bytes);

 private:
  MPI_Comm comm_;
  int other_;
  std::string own_host_, other_host_;
  std::chrono::seconds longest_;

  void wait(MpiRequests& requests) const;
};

}  // namespace tasuki::doctor
