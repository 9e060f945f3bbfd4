#include "tools/doctor/bounded.hpp"

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>

namespace tasuki::doctor {
namespace {

constexpr const char* failed = "failed";

}  // namespace

nlohmann::json bounded(double seconds, std::function<nlohmann::json()> work) {
  std::packaged_task<nlohmann::json()> task([work = std::move(work)]() -> nlohmann::json {
    try {
      return work();
    } catch (const std::exception& error) {
      return {{failed, error.what()}};
    }
  });
  std::future<nlohmann::json> result = task.get_future();
  std::thread(std::move(task)).detach();
  if (result.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready)
    return result.get();
  return {{failed, fmt::format("no answer within {:.0f} s", seconds)}};
}

std::string failure_of(const nlohmann::json& result) {
  return result.is_object() && result.contains(failed) ? result.at(failed).get<std::string>() : "";
}

}  // namespace tasuki::doctor
