#include "tools/doctor/clocks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "communicator/mpi/mpi.hpp"
#include "core/activity.hpp"
#include "tools/doctor/talk.hpp"

namespace tasuki::doctor {
namespace {

constexpr int most_hosts = 64, exchanges = 10;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

ClockOffset offset_by(std::span<const TimeStamps> exchanges) {
  const auto& fastest = *std::ranges::min_element(
      exchanges, {}, [](const TimeStamps& each) { return each.received - each.sent; });
  return {0, fastest.answered - (fastest.sent + fastest.received) / 2,
          (fastest.received - fastest.sent) / 2};
}

std::vector<ClockOffset> measure_clocks(const Communicator& communicator) {
  const Topology& topology = communicator.topology();
  const MpiComm comm = MpiComm::duplicate(communicator.mpi().get());
  const int hosts = std::min(topology.inter_size, most_hosts);
  std::vector<ClockOffset> offsets;
  for (int node = 1; node < hosts; ++node) {
    const int other = topology.ranks_of_node(node).front();
    if (topology.rank != 0 && topology.rank != other) continue;
    Talk talk(communicator, comm.get(), topology.rank == 0 ? other : 0, node);
    std::array<TimeStamps, exchanges> stamps;
    report_progress();
    for (TimeStamps& each : stamps) {
      double time = 0;
      const auto bytes = std::as_writable_bytes(std::span(&time, 1));
      if (topology.rank == 0) {
        each.sent = now();
        talk.send(bytes);
        talk.receive(bytes);
        each.received = now();
        each.answered = time;
      } else {
        talk.receive(bytes);
        time = now();
        talk.send(bytes);
      }
    }
    if (topology.rank != 0) continue;
    offsets.push_back(offset_by(stamps));
    offsets.back().rank = other;
  }
  return offsets;
}

void judge_clocks(const std::vector<ClockOffset>& offsets, Report& report) {
  constexpr const char* check = "clocks";
  constexpr double most = 0.5;  // seconds: times of files and logs of different hosts still compare
  double largest = 0, uncertainty = 0;
  bool is_off = false;
  for (const ClockOffset& each : offsets) {
    if (std::abs(each.offset) + each.uncertainty > largest + uncertainty) {
      largest = std::abs(each.offset);
      uncertainty = each.uncertainty;
    }
    if (std::abs(each.offset) - each.uncertainty < most) continue;
    is_off = true;
    report.warn(
        check, report.host_of(each.rank),
        fmt::format("its clock is {} {} {}'s (+- {})", time_text(std::abs(each.offset)),
                    each.offset > 0 ? "ahead of" : "behind", report.topology().host_of[0],
                    time_text(each.uncertainty)),
        "set the clocks by the network: apt-get install chrony, or timedatectl set-ntp true");
  }
  if (is_off) return;
  const Topology& topology = report.topology();
  const auto compared = std::ssize(offsets) + 1;
  report.ok(check, report.all(),
            offsets.empty() ? "there is one host"
                            : fmt::format("at most {} from {}'s (+- {}){}", time_text(largest),
                                          topology.host_of[0], time_text(uncertainty),
                                          compared < topology.inter_size
                                              ? fmt::format("; {} of {} hosts were compared",
                                                            compared, topology.inter_size)
                                              : ""));
}

}  // namespace tasuki::doctor
