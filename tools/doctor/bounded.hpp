// bounded: work that may block, with a limit of time.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace tasuki::doctor {

using Work = std::function<nlohmann::json()>;

// The results of these works by their names; of each that throws or takes longer than `seconds`,
// {"failed": why}. All begin at once, each in a thread of its own. The call takes `seconds` at
// most. A thread that is late stays behind until the process ends, so a work must own what it uses.
nlohmann::json bounded(double seconds, const std::map<std::string, Work>& works);
// The same for a single one.
nlohmann::json bounded(double seconds, Work work);

// Why it failed; empty if it did not.
std::string failure_of(const nlohmann::json& result);

}  // namespace tasuki::doctor
