// What tasuki-doctor has found, and how it says so.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "communicator/topology.hpp"

namespace tasuki::doctor {

enum class Mark : std::uint8_t { ok, warning, error };

struct Finding {
  std::string check;  // "shared memory"
  Mark mark = Mark::ok;
  std::set<int> ranks;  // that it concerns
  std::string found;
  std::string remedy = "";  // what to do; empty if it is ok
};

// The findings of one check that differ only in their ranks are one line: "ok       memory (node1,
// node2): ...". Checks appear in the order of their first findings.
class Report {
 public:
  explicit Report(const Topology& topology) : topology_(topology) {}

  void add(Finding finding);
  void ok(const std::string& check, std::set<int> ranks, std::string found);
  void warn(const std::string& check, std::set<int> ranks, std::string found, std::string remedy);
  void fail(const std::string& check, std::set<int> ranks, std::string found, std::string remedy);

  int count(Mark mark) const;
  // Lines that were not yet returned; each ends with a line break.
  std::string next_lines();
  // "no errors, 2 warnings"
  std::string summary() const;
  // {"check", "mark", "where", "ranks", "found", "remedy"} of each finding.
  nlohmann::ordered_json findings() const;

  // "node1, node2" for whole hosts, "rank 3 on node2" for others.
  std::string where(const std::set<int>& ranks) const;
  // All ranks of the job; of the same host as `rank`.
  std::set<int> all() const;
  std::set<int> host_of(int rank) const;
  const Topology& topology() const { return topology_; }

 private:
  std::string line(const Finding& finding) const;

  Topology topology_;
  std::vector<Finding> findings_;
  std::size_t printed_ = 0;
};

const char* name_of(Mark mark);
// "1.5 GiB", "300 MiB".
std::string size_text(double bytes);
// "12 us", "3.4 ms", "1.5 s".
std::string time_text(double seconds);
// "1 rank", "2 ranks"
std::string counted(std::int64_t count, const std::string& what);

}  // namespace tasuki::doctor
