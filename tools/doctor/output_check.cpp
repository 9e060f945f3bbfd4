#include "tools/doctor/output_check.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "communicator/objects.hpp"
#include "core/descriptor.hpp"
#include "core/file.hpp"
#include "core/own_file.hpp"
#include "core/stopwatch.hpp"
#include "core/system_error.hpp"
#include "core/temporary_name.hpp"
#include "tools/doctor/bounded.hpp"

namespace tasuki::doctor {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* output_title = "output";
constexpr double longest_look = 20;  // seconds

// A file of this process's own, which is removed with the object.
class OwnTemporary {
 public:
  explicit OwnTemporary(const fs::path& folder)
      : path_(temporary_name(folder / "tasuki-doctor")),
        file_(::open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600)) {
    if (!file_)
      fail_because(last_system_error(), ErrorKind::cannot_write, "cannot write in {}",
                   folder.string());
  }
  ~OwnTemporary() { ::unlink(path_.c_str()); }
  OwnTemporary(const OwnTemporary&) = delete;
  OwnTemporary& operator=(const OwnTemporary&) = delete;

  const fs::path& path() const { return path_; }
  void write(const std::string& bytes) { write_to(file_, bytes, path_); }
  void sync() {
    if (::fsync(file_.get()) != 0) refuse();
  }

 private:
  [[noreturn]] void refuse() const {
    fail_because(last_system_error(), ErrorKind::cannot_write, "cannot write in {}",
                 path_.parent_path().string());
  }

  fs::path path_;
  Descriptor file_;
};

fs::path nearest_existing(const fs::path& folder) {
  std::error_code ignored;
  fs::path place = fs::absolute(folder, ignored);
  while (!fs::exists(place, ignored) && place.has_relative_path()) place = place.parent_path();
  return place;
}

// As checkpoints are written: long files, which are synced once. At most about a second.
double bytes_per_second(const fs::path& place, double free) {
  OwnTemporary file(place);
  const std::string block(std::size_t{4} << 20, '\x55');
  const std::size_t most = std::min(std::size_t{64} << 20, static_cast<std::size_t>(free / 4));
  Stopwatch watch;
  double passed = 0;
  std::size_t bytes = 0;
  while (bytes + block.size() <= most && passed < 0.5) {
    file.write(block);
    bytes += block.size();
    passed += watch.lap();
  }
  file.sync();
  passed += watch.lap();
  return static_cast<double>(bytes) / passed;
}

// Of a small file; the median.
double seconds_of_sync(const fs::path& place) {
  OwnTemporary file(place);
  std::vector<double> times;
  double total = 0;
  while (times.size() < 5 && total < 2) {
    file.write(std::string(4096, '\x55'));
    Stopwatch watch;
    file.sync();
    times.push_back(watch.lap());
    total += times.back();
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

json write_here(const fs::path& folder, bool is_quick) {
  // The same errors as a training's, before anything is measured.
  check_output_folder(folder);
  const fs::path place = nearest_existing(folder);
  std::error_code error;
  const fs::space_info space = fs::space(place, error);
  const auto free = error ? 0. : static_cast<double>(space.available);
  json facts = {{"place", place.string()}, {"free", free}, {"sync", seconds_of_sync(place)}};
  if (!is_quick) facts["rate"] = bytes_per_second(place, free);
  return facts;
}

void judge_writing(const json& facts, const std::string& folder, Report& report) {
  const std::set<int> host = report.host_of(0);
  if (const std::string problem = failure_of(facts); !problem.empty()) {
    report.fail(
        output_title, host, problem,
        fmt::format("give {} to this user (chown, chmod), free space on its disk, or choose "
                    "another folder with --out",
                    folder));
    return;
  }
  const double free = facts.at("free"), sync = facts.at("sync");
  std::string text = fmt::format("{} free in {}, a sync takes {}", size_text(free),
                                 facts.at("place").get<std::string>(), time_text(sync));
  double rate = 0;
  if (facts.contains("rate")) {
    rate = facts.at("rate");
    text += fmt::format(", {}/s", size_text(rate));
  }
  constexpr double enough = double{1 << 30}, slow_sync = 0.5, slow_rate = double{10 << 20};
  if (free < enough)
    report.warn(output_title, host, text,
                "free space, or keep fewer checkpoints (--keep), or choose another folder");
  else if (sync > slow_sync || (facts.contains("rate") && rate < slow_rate))
    report.warn(output_title, host, text,
                "choose a faster disk, or save less often (--checkpoint-every)");
  else
    report.ok(output_title, host, text);
}

}  // namespace

void check_output(Communicator& communicator, const std::string& folder, bool is_quick,
                  Report& report) {
  json written, marker;
  std::unique_ptr<OwnTemporary> file;
  if (communicator.rank() == 0) {
    written = bounded(longest_look, [=] { return write_here(folder, is_quick); });
    if (failure_of(written).empty()) {
      file = std::make_unique<OwnTemporary>(fs::path(written.at("place").get<std::string>()));
      marker = file->path().string();
    }
  }
  marker = bcast_object(communicator, marker);
  json seen;
  if (!marker.is_null() && communicator.rank() != 0 && communicator.intra_rank() == 0)
    seen = bounded(longest_look, [path = marker.get<std::string>()]() -> json {
      std::error_code ignored;
      return fs::exists(path, ignored);
    });
  const auto all = gather_object(communicator, seen);
  if (communicator.rank() != 0) return;
  judge_writing(written, folder, report);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::set<int> host = report.host_of(static_cast<int>(rank));
    if (const std::string problem = failure_of(all[rank]); !problem.empty())
      report.fail(output_title, host, fmt::format("{}: {}", folder, problem),
                  "mount it again, or choose another folder with --out");
    else if (all[rank] == false)
      report.warn(output_title, host,
                  fmt::format("does not see {} of {}", folder, report.topology().host_of[0]),
                  "share it (NFS), or a run that goes on without that host loses its checkpoints");
  }
}

}  // namespace tasuki::doctor
