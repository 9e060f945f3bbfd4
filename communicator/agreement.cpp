#include "communicator/agreement.hpp"

#include <algorithm>
#include <string_view>

#include "communicator/text_bytes.hpp"
#include "core/error.hpp"
#include "core/hash.hpp"

namespace tasuki {
namespace {

// The line that begins here, without its end; empty after the last one.
std::string_view first_line(std::string_view text) {
  return text.empty() ? "nothing more" : text.substr(0, text.find('\n'));
}

}  // namespace

void check_agreement(Communicator& communicator, const std::vector<std::string>& lines,
                     const std::string& rule) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  const std::uint64_t hash = hash_text(text);
  const std::vector<Bytes> hashes =
      allgather_bytes(communicator, std::as_bytes(std::span(&hash, 1)));
  if (std::equal(hashes.begin() + 1, hashes.end(), hashes.begin())) return;

  const std::vector<Bytes> texts = allgather_bytes(communicator, text_to_bytes(text));
  const auto other = std::find_if(texts.begin(), texts.end(),
                                  [&](const Bytes& candidate) { return candidate != texts[0]; });
  const auto rank = static_cast<std::size_t>(other - texts.begin());
  std::string_view here = bytes_to_text(texts[0]), there = bytes_to_text(*other);
  while (first_line(here) == first_line(there)) {
    here.remove_prefix(here.find('\n') + 1);
    there.remove_prefix(there.find('\n') + 1);
  }
  const Topology& topology = communicator.topology();
  throw Error(ErrorKind::disagreement,
              fmt::format("rank {} on {} has \"{}\" where rank 0 has \"{}\"; {}", rank,
                          topology.host_of[rank], first_line(there), first_line(here), rule),
              topology.shared_error_scope);
}

}  // namespace tasuki
