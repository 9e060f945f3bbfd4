// What happened to a job: a line on standard error for each event, and one in incidents.jsonl.
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
  // Keeps the event, an object, with the time (UTC) and `event` before its own entries. It is
  // written at once if the folder is known, else when it becomes known.
  void add(const std::string& event, const nlohmann::ordered_json& entries);

  // The output folder; appends to the file there what was kept. That it cannot be written is said
  // once.
  void write_to(const std::filesystem::path& folder);

 private:
  void flush();

  std::string kept_;              // what is not in the file yet
  std::filesystem::path folder_;  // empty: not known
  bool has_failed_ = false;
};

}  // namespace tasuki::supervisor
