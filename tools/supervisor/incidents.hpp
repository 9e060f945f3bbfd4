// The events of a job: each is a line on standard error and one in incidents.jsonl.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tasuki::supervisor {

inline constexpr const char* incidents_file = "incidents.jsonl";

// Prints "tasuki-run: ..." on standard error, over a progress bar if there is one.
void say(const std::string& line);

class Incidents {
 public:
  // Adds the event, an object, with the time (UTC) and `event` before its own entries. It is
  // written at once, or when the folder becomes known.
  void add(const std::string& event, const nlohmann::ordered_json& entries);

  // Sets the output folder, and appends earlier events to the file there. Reports once if that file
  // cannot be written.
  void write_to(const std::filesystem::path& folder);

 private:
  void flush();

  std::string kept_;              // events not yet in the file
  std::filesystem::path folder_;  // empty: not known
  bool has_failed_ = false;
};

}  // namespace tasuki::supervisor
