// Where a zip file has its members that are stored as they are, so that they can be mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace tasuki {

struct StoredMember {
  std::uint64_t begin = 0, bytes = 0;
};

// The members of a zip file (APPNOTE 6.3.10, with ZIP64) that are neither compressed nor encrypted,
// by name. For files that libzip has accepted: a member that is not plainly found is left out, and
// so are all if the directory is not.
std::map<std::string, StoredMember> stored_members(std::span<const std::byte> zip);

}  // namespace tasuki
