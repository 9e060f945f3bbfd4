#include "job/mpi_settings.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "communicator/mpi/open_mpi.hpp"
#include "job/heartbeat_paths.hpp"

namespace tasuki {
namespace {

void set_default(const char* variable, const char* value) {
  constexpr int keep_users = 0;
  setenv(variable, value, keep_users);
}

// In many containers a process may not read another one's memory. Open MPI then prints an error for
// every message instead of using another way.
bool may_read_others_memory() {
  char from = 0, to = 0;
  const iovec local{&to, 1}, remote{&from, 1};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) >= 0;
}

bool has_ipv4_network() {
  const HostAddresses addresses = own_addresses();
  return std::ranges::any_of(
      addresses, [](const HostAddress& one) { return one.address != 0 && !is_loopback(one); });
}

constexpr const char* transports = "OMPI_MCA_btl";

}  // namespace

void configure_mpi() {
  set_default("OMPI_MCA_mpi_yield_when_idle", "1");
  // With the send buffers that Linux grows, acknowledgements queue behind megabytes of a rank's
  // data: at 1 Gbit/s an exchange in both directions took a quarter longer than the link needs.
  // This size fills 10 Gbit/s up to a round trip of 0.4 ms (Linux uses twice the number).
  set_default("OMPI_MCA_btl_tcp_sndbuf", "262144");
  if (!may_read_others_memory()) {
    set_default("OMPI_MCA_btl_vader_single_copy_mechanism", "none");  // version 4's name
    set_default("OMPI_MCA_smsc", "^cma");                             // version 5's
  }
  // Hosts with addresses of both kinds do not reach each other with Open MPI 5.0.7: "Unable to find
  // reachable pairing" (its issue 14079).
  if (open_mpi_version >= 5 && has_ipv4_network())
    set_default("OMPI_MCA_btl_tcp_disable_family", "6");
}

OneProcessScope::OneProcessScope(bool is_alone)
    : is_set_(is_alone && open_mpi_version >= 5 && std::getenv(transports) == nullptr) {
  if (is_set_) set_default(transports, "self");
}

OneProcessScope::~OneProcessScope() {
  if (is_set_) unsetenv(transports);
}

}  // namespace tasuki
