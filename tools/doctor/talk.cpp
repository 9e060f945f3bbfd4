#include "tools/doctor/talk.hpp"

#include "communicator/mpi/transfer.hpp"
#include "core/error.hpp"
#include "core/polite_wait.hpp"

namespace tasuki::doctor {

Talk::Talk(const Communicator& communicator, MPI_Comm comm, int other, int turn)
    : comm_(comm),
      other_(other),
      own_host_(communicator.topology().host_of[static_cast<std::size_t>(communicator.rank())]),
      other_host_(communicator.topology().host_of[static_cast<std::size_t>(other)]),
      longest_(10 + turn) {}

void Talk::send(std::span<const std::byte> bytes) {
  MpiRequests requests;
  start_send(requests, bytes, other_, 0, comm_);
  wait(requests);
}

void Talk::receive(std::span<std::byte> bytes) {
  MpiRequests requests;
  start_recv(requests, bytes, other_, 0, comm_);
  wait(requests);
}

void Talk::wait(MpiRequests& requests) const {
  const auto end = std::chrono::steady_clock::now() + longest_;
  const WaitCheck check([&] {
    if (std::chrono::steady_clock::now() > end)
      fail(ErrorKind::io,
           "{} and {} do not get each other's messages within {} s: a firewall, or a network that "
           "does not connect them; allow TCP between them, or name the right network: tasuki-run "
           "--mpirun-args \"--mca btl_tcp_if_include NETWORK\"",
           own_host_, other_host_, longest_.count());
  });
  requests.wait();
}

}  // namespace tasuki::doctor
