#include "tools/doctor/talk.hpp"

#include <fmt/format.h>

#include <utility>

#include "communicator/mpi/transfer.hpp"

namespace tasuki::doctor {
namespace {

constexpr std::chrono::seconds longest_message{20};

// Waits for the requests. A message that has not come is given up with the job.
void wait(MpiRequests& requests, const std::string& silence) {
  const auto end = std::chrono::steady_clock::now() + longest_message;
  const WaitCheck check([&] {
    if (std::chrono::steady_clock::now() > end) fail(ErrorKind::io, "{}", silence);
  });
  requests.wait();
}

}  // namespace

Talk::Talk(MPI_Comm comm, int other, std::string silence)
    : comm_(comm), other_(other), silence_(std::move(silence)) {}

void Talk::send(std::span<const std::byte> bytes) {
  MpiRequests requests;
  start_send(requests, bytes, other_, 0, comm_);
  wait(requests, silence_);
}

void Talk::receive(std::span<std::byte> bytes) {
  MpiRequests requests;
  start_recv(requests, bytes, other_, 0, comm_);
  wait(requests, silence_);
}

std::string silence_between(const std::string& host, const std::string& other) {
  return fmt::format(
      "{} and {} do not get each other's messages within {} s: a firewall, or a network that does "
      "not connect them; allow TCP between them, and name the right network: tasuki-run "
      "--mpirun-args \"--mca btl_tcp_if_include NETWORK\"",
      host, other, longest_message.count());
}

}  // namespace tasuki::doctor
