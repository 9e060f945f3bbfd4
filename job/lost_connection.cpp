#include "job/lost_connection.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

namespace tasuki {
namespace {

// The whole text as a number.
template <typename Number>
std::optional<Number> to_number(std::string_view text, int base) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Removes and returns the first word.
std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

// Parses an address like "0702E70A:1F90", words of 32 bits in this machine's byte order; IPv4
// mapped to IPv6.
std::optional<in6_addr> to_address(std::string_view text) {
  constexpr std::size_t digits = 8;
  const std::string_view words = text.substr(0, text.find(':'));
  if (words.size() != digits && words.size() != 4 * digits) return std::nullopt;
  in6_addr address{};
  address.s6_addr[10] = address.s6_addr[11] = 0xff;
  std::uint8_t* out = std::end(address.s6_addr) - words.size() / 2;
  for (std::size_t at = 0; at < words.size(); at += digits, out += sizeof(std::uint32_t)) {
    const auto word = to_number<std::uint32_t>(words.substr(at, digits), 16);
    if (!word) return std::nullopt;
    std::memcpy(out, &*word, sizeof *word);
  }
  return address;
}

bool is_own_host(const in6_addr& local, const in6_addr& remote) {
  constexpr int loopback_network = 127;
  return IN6_ARE_ADDR_EQUAL(&local, &remote) || IN6_IS_ADDR_LOOPBACK(&remote) ||
         (IN6_IS_ADDR_V4MAPPED(&remote) && remote.s6_addr[12] == loopback_network);
}

std::string to_text(const in6_addr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (IN6_IS_ADDR_V4MAPPED(&address))
    inet_ntop(AF_INET, &address.s6_addr[12], text.data(), text.size());
  else
    inet_ntop(AF_INET6, &address, text.data(), text.size());
  return text.data();
}

std::optional<UnansweredConnection> parse_line(std::string_view line) {
  constexpr std::string_view established = "01";
  constexpr int fewest = 3;
  take_word(line);  // number of the line
  const auto local = to_address(take_word(line)), remote = to_address(take_word(line));
  if (take_word(line) != established || !local || !remote || is_own_host(*local, *remote))
    return std::nullopt;
  take_word(line);  // queues
  take_word(line);  // timer
  const auto retransmissions = to_number<int>(take_word(line), 16);
  take_word(line);  // user
  const auto probes = to_number<int>(take_word(line), 10);
  if (!retransmissions || !probes) return std::nullopt;
  const int attempts = *retransmissions + *probes;
  if (attempts < fewest) return std::nullopt;
  const auto inode = to_number<std::uint64_t>(take_word(line), 10);
  if (!inode) return std::nullopt;
  return UnansweredConnection{to_text(*remote), *inode, attempts};
}

// Reads in pieces of whole lines, because there may be thousands.
void read_unanswered(const char* path, std::vector<UnansweredConnection>& found) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  std::array<char, 4096> buffer;
  std::size_t held = 0;
  for (;;) {
    const ssize_t size = read(file, buffer.data() + held, buffer.size() - held);
    if (size <= 0) break;
    const std::string_view text(buffer.data(), held + static_cast<std::size_t>(size));
    const std::size_t whole = text.rfind('\n') + 1;
    std::ranges::move(parse_unanswered(text.substr(0, whole)), std::back_inserter(found));
    held = text.size() - whole;
    std::copy(text.begin() + static_cast<std::ptrdiff_t>(whole), text.end(), buffer.begin());
  }
  close(file);
}

bool owns_socket(pid_t process, std::uint64_t inode) {
  const std::string wanted = fmt::format("socket:[{}]", inode);
  std::error_code error;
  for (std::filesystem::directory_iterator each(fmt::format("/proc/{}/fd", process), error), end;
       !error && each != end; each.increment(error)) {
    std::error_code closed;
    if (std::filesystem::read_symlink(each->path(), closed) == wanted) return true;
  }
  return false;
}

}  // namespace

std::vector<UnansweredConnection> parse_unanswered(std::string_view text) {
  std::vector<UnansweredConnection> found;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (auto unanswered = parse_line(line)) found.push_back(std::move(*unanswered));
  }
  return found;
}

std::vector<UnansweredConnection> add_time(std::vector<UnansweredConnection> now,
                                           std::span<const UnansweredConnection> before,
                                           double seconds) {
  for (UnansweredConnection& each : now) {
    const auto earlier = std::ranges::find(before, each.inode, &UnansweredConnection::inode);
    if (earlier != before.end() && earlier->attempts <= each.attempts)
      each.seconds = earlier->seconds + seconds;
  }
  return now;
}

std::optional<std::string> ConnectionWatch::find_lost(double seconds, double limit) {
  std::vector<UnansweredConnection> now;
  for (const char* const path : {"/proc/net/tcp", "/proc/net/tcp6"}) read_unanswered(path, now);
  unanswered_ = add_time(std::move(now), unanswered_, seconds);
  for (const UnansweredConnection& each : unanswered_)
    if (each.seconds >= limit)
      for (const pid_t process : processes_)
        if (process > 0 && owns_socket(process, each.inode)) return each.peer;
  return std::nullopt;
}

}  // namespace tasuki
