// WatchedFolder: what happens to the files in a folder meanwhile.
#pragma once

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

namespace tasuki::testing {

class WatchedFolder {
 public:
  // `mask`: of inotify(7), such as IN_OPEN.
  WatchedFolder(const std::filesystem::path& folder, std::uint32_t mask)
      : descriptor_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    EXPECT_GE(inotify_add_watch(descriptor_, folder.c_str(), mask), 0) << folder;
  }
  ~WatchedFolder() { close(descriptor_); }
  WatchedFolder(const WatchedFolder&) = delete;
  WatchedFolder& operator=(const WatchedFolder&) = delete;

  // The names of the files since the last call, once for each event. (The system counts events as
  // one that are equal and follow each other.)
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    alignas(inotify_event) std::array<char, 1 << 16> events;
    for (ssize_t bytes; (bytes = read(descriptor_, events.data(), events.size())) > 0;)
      for (std::size_t at = 0; at < static_cast<std::size_t>(bytes);) {
        const auto* const event = reinterpret_cast<const inotify_event*>(&events.at(at));
        if (event->len > 0) found.emplace_back(event->name);
        at += sizeof(inotify_event) + event->len;
      }
    return found;
  }

 private:
  int descriptor_;
};

}  // namespace tasuki::testing
