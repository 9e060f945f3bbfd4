// bounded: work that may block, with a limit of time.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

namespace tasuki::doctor {

// The result of `work`, which runs in a thread of its own; or {"failed": why} if it throws or takes
// longer than `seconds`. The thread then stays behind until the process ends, so `work` must own
// what it uses.
nlohmann::json bounded(double seconds, std::function<nlohmann::json()> work);

// Why it failed; empty if it did not.
std::string failure_of(const nlohmann::json& result);

}  // namespace tasuki::doctor
