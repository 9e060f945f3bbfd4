// The hosts that a job runs on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tasuki::supervisor {

struct Host {
  std::string name;          // as in the file, without "user@"
  std::string address;       // as in the file: what ssh is given
  std::optional<int> slots;  // ranks that it has room for; nothing: mpirun asks the host
  std::string lines;         // of the file

  // Compares names. If at most one of the two names has a domain, the first label decides, together
  // with the addresses of a full name, if known.
  bool is_this_machine() const;
};

// Open MPI's format: a host and "slots=N" on each line, comments from '#'. Several lines of one
// host add up. Unlike mpirun, it also reads text from Windows (a byte order mark, line ends with
// CR). An error of kind config names `file` if there is no host, if N is not a number, or if mpirun
// would refuse a name ("node1:2", "::1").
std::vector<Host> parse_hostfile(std::string_view text, std::string_view file);

// The text of a file with only these hosts.
std::string hostfile_text(const std::vector<Host>& hosts);

// Whether mpirun can read a file with this text, which parse_hostfile() can.
bool is_plain_hostfile(std::string_view text);

// Whether hosts with different names have the same first label ("worker.a.net", "worker.b.net"); by
// default mpirun compares only the first labels.
bool need_domains(const std::vector<Host>& hosts);

// "node1, node2"
std::string names_of(const std::vector<Host>& hosts);

// The sum of slots; nothing if one is unknown.
std::optional<int> slots_of(const std::vector<Host>& hosts);

// How many ranks the hosts in `left` take, if `all` hosts take `np`. Where hosts had more ranks
// than slots, or slots are unknown, the density of ranks stays the same. With `shards`, the number
// divides them. 0 if it would be less than `least`.
int ranks_on(const std::vector<Host>& left, const std::vector<Host>& all, int np,
             std::optional<std::int64_t> shards, int least);

}  // namespace tasuki::supervisor
