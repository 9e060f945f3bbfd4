#include "tools/doctor/bounded.hpp"

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace tasuki::doctor {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr const char* failed = "failed";

std::future<json> start(Work work) {
  std::packaged_task<json()> task([work = std::move(work)]() -> json {
    try {
      return work();
    } catch (const std::exception& error) {
      return {{failed, error.what()}};
    }
  });
  std::future<json> result = task.get_future();
  std::thread(std::move(task)).detach();
  return result;
}

}  // namespace

json bounded(double seconds, const std::map<std::string, Work>& works) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  json results = json::object();
  std::map<std::string, std::future<json>> started;
  for (const auto& [name, work] : works) {
    try {
      started[name] = start(work);
    } catch (const std::system_error& error) {  // a limit of threads
      results[name] = {{failed, error.what()}};
    }
  }
  for (auto& [name, result] : started) {
    if (result.wait_until(end) == std::future_status::ready)
      results[name] = result.get();
    else
      results[name] = {{failed, fmt::format("no answer within {:.0f} s", seconds)}};
  }
  return results;
}

json bounded(double seconds, Work work) {
  return bounded(seconds, std::map<std::string, Work>{{"", std::move(work)}}).at("");
}

std::string failure_of(const json& result) {
  return result.is_object() && result.contains(failed) ? result.at(failed).get<std::string>() : "";
}

}  // namespace tasuki::doctor
