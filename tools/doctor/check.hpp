// A check of tasuki-doctor: each rank looks at its process or its host, and rank 0 judges what all
// have seen.
//
// Looking sends no message and takes a bounded time (bounded.hpp), so that a hanging disk or driver
// becomes a line of the report. The checks of a rank look at once. What is seen travels as JSON.
// Checks that need messages are functions of their own: links.hpp, clocks.hpp, output_check.hpp.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/doctor/report.hpp"

namespace tasuki::doctor {

struct Settings {
  bool is_quick = false, wants_json = false;
  std::optional<std::string> data, out;  // --data, --out
};

// What a rank looks with.
struct Place {
  const Settings& settings;
  const Topology& topology;
};

// What a rank has seen. Of checks of hosts, the first rank of each.
struct Seen {
  int rank = 0;
  nlohmann::json facts;
};

struct Check {
  const char* name;
  bool is_of_host;  // the first rank of each host looks
  nlohmann::json (*look)(const Place& place);
  // On rank 0; `seen` leaves out ranks that could not look.
  void (*judge)(const std::vector<Seen>& seen, const Settings& settings, Report& report);
  // Before the others begin: their threads and libraries change what it sees.
  bool looks_first = false;
};

// In the order of the report.
std::span<const Check> all_checks();

// Each in the source of its subject.
extern const Check version_check, gpu_check, processor_check, binding_check, load_check,
    memory_check, shared_memory_check, limit_check, environment_check, interface_check,
    host_name_check, data_check;

// Raises this process's limit of open files where MPI could not start with it; limit_check reports
// what it was. An error of kind config if it cannot be raised. Called before MPI_Init.
void make_room_for_mpi();

}  // namespace tasuki::doctor
