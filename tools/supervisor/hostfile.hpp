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
  std::optional<int> slots;  // ranks that it takes; nothing: mpirun asks the host
  std::string lines;         // of the file

  // By its name. If only one of the two names has a domain, or none, the first label decides, and
  // the addresses of a full name, as far as they are known.
  bool is_this_machine() const;
};

// Open MPI's format: a host and "slots=N" on each line, comments from '#'. Several lines of one
// host add up. Text that Windows has written (a byte order mark, line ends with CR) is understood,
// but not by mpirun. An error of kind config names `file` if there is no host, if N is no number,
// or if mpirun would take no such name ("node1:2", "::1").
std::vector<Host> parse_hostfile(std::string_view text, std::string_view file);

// A file of these hosts alone.
std::string hostfile_text(const std::vector<Host>& hosts);

// Whether mpirun can read a file with this text, which parse_hostfile() does.
bool is_plain_hostfile(std::string_view text);

// Whether hosts with different names have the same first label ("worker.a.net", "worker.b.net"),
// which is all that mpirun looks at unless it is told otherwise.
bool need_domains(const std::vector<Host>& hosts);

// "node1, node2"
std::string names_of(const std::vector<Host>& hosts);

// The sum of slots; nothing if one is not known.
std::optional<int> slots_of(const std::vector<Host>& hosts);

// How many of `np` ranks, which `all` hosts take, the hosts in `left` take. Where hosts were given
// more ranks than slots, or slots are not known, the ranks that are left are as dense as before.
// With `shards` it is a number that divides them. 0 if that is fewer than `least`.
int ranks_on(const std::vector<Host>& left, const std::vector<Host>& all, int np,
             std::optional<std::int64_t> shards, int least);

}  // namespace tasuki::supervisor
