#include "dataset/images/image_check.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <mutex>
#include <new>
#include <thread>

#include "core/activity.hpp"
#include "core/environment.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/printable.hpp"
#include "dataset/images/image.hpp"

namespace tasuki {
namespace fs = std::filesystem;

namespace {

// Why a file must not be opened; empty if it may be. Opening a FIFO would wait for a writer.
std::string problem_of_kind(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) return error.message();
  return fs::is_regular_file(status) ? "" : "not a regular file";
}

void look_at(const ImageFile& file, ImageProblem& problem) {
  problem.what = problem_of_kind(file.path);
  if (!problem.what.empty()) return;
  std::array<char, 8> start{};
  std::ifstream opened(file.path, std::ios::binary);
  if (!opened) {
    problem.what = std::strerror(errno);
    return;
  }
  opened.read(start.data(), start.size());
  const auto bytes =
      std::as_bytes(std::span(start)).first(static_cast<std::size_t>(opened.gcount()));
  if (bytes.empty())
    problem.what = "an empty file";
  else if (!starts_image(bytes))
    problem.what = "something else";
}

// Returns whether the file lacks its end.
bool decode(const ImageFile& file, ImageProblem& problem) {
  problem.what = problem_of_kind(file.path);
  if (!problem.what.empty()) return false;
  try {
    const std::string contents = read_file(file.path);
    // As small as possible: all data are still checked, with less computation.
    return decode_image(std::as_bytes(std::span(contents)), problem.name, 1, Exif::ignore)
        .lacks_end;
  } catch (const ImageError& error) {
    problem.what = error.what_was_found();
  } catch (const Error& error) {
    problem.what = error.what();
  } catch (const std::bad_alloc&) {  // says nothing about the file
    fail(ErrorKind::unavailable, "{}: there is not enough memory to decode it", problem.name);
  }
  return false;
}

// Calls `work` for each file, in several threads. `work` sets ImageProblem::what if the file cannot
// be read, and returns whether the file lacks its end. An exception ends the work on all files.
ImageFindings find_problems(std::span<const ImageFile> files, std::size_t threads,
                            const std::function<bool(const ImageFile&, ImageProblem&)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  ImageFindings findings;
  std::exception_ptr failure;
  const auto work_on_some = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++) {
      ImageProblem problem{static_cast<std::int64_t>(i), printable(files[i].path.string()), ""};
      const bool lacks_end = work(files[i], problem);
      report_progress();
      if (problem.what.empty() && !lacks_end) continue;
      const std::lock_guard lock(mutex);
      (lacks_end ? findings.without_end : findings.unreadable).push_back(std::move(problem));
    }
  };
  const auto work_or_fail = [&] {
    try {
      work_on_some();
    } catch (...) {
      next = files.size();
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(threads, files.size()); ++i)
      others.emplace_back(work_or_fail);
    work_or_fail();
  }
  if (failure) std::rethrow_exception(failure);
  for (auto* const list : {&findings.unreadable, &findings.without_end})
    std::ranges::sort(*list, {}, &ImageProblem::number);
  return findings;
}

}  // namespace

// In several threads, because disks and servers deliver files sooner when many are requested.
ImageFindings look_at_images(std::span<const ImageFile> files) {
  constexpr std::size_t most_threads = 16;
  return find_problems(files, most_threads, [](const ImageFile& file, ImageProblem& problem) {
    look_at(file, problem);
    return false;
  });
}

ImageFindings decode_images(std::span<const ImageFile> files, int threads) {
  return find_problems(files, static_cast<std::size_t>(std::max(1, threads)), decode);
}

std::string text_of(std::span<const ImageProblem> problems, std::size_t most) {
  std::string text;
  for (const ImageProblem& each : problems.first(std::min(most, problems.size())))
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", each.name, each.what);
  return text + (problems.size() > most ? ", ..." : "");
}

void fail_if_unreadable(const ImageFindings& findings, std::int64_t count, std::size_t most_shown) {
  const std::size_t bad = findings.unreadable.size();
  if (bad == 0) return;
  fail(
      ErrorKind::data,
      "{} of {} files on {} cannot be read as JPEG or PNG images: {}; get them again, remove them, "
      "or give --skip-damaged",
      bad, count, host_name(), text_of(findings.unreadable, most_shown));
}

}  // namespace tasuki
