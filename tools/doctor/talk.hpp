// Talk: short messages between two ranks, with a limit of time.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "communicator/mpi/mpi.hpp"
#include "core/polite_wait.hpp"

namespace tasuki::doctor {

// One conversation of this rank with another one. A message that takes longer than the limit is an
// error of kind io, `silence`: MPI cannot take a message back, so the job must end.
class Talk {
 public:
  Talk(MPI_Comm comm, int other, std::string silence);

  void send(std::span<const std::byte> bytes);
  void receive(std::span<std::byte> bytes);

 private:
  MPI_Comm comm_;
  int other_;
  std::string silence_;
};

// The error for two hosts that do not answer each other.
std::string silence_between(const std::string& host, const std::string& other);

}  // namespace tasuki::doctor
