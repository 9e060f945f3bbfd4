// Whether two runs ended alike.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/hash.hpp"
#include "saving/npz.hpp"

namespace tasuki::testing {

// Of the weights and states in a snapshot.
inline std::uint64_t hash_of_weights(const std::filesystem::path& path) {
  const NpzFile file(path);
  std::uint64_t hash = 0;
  for (const std::string& name : file.names())
    if (name.starts_with("updater/")) {
      const NpzValue value = file.read(name);
      if (const auto* const tensor = std::get_if<Tensor>(&value))
        hash =
            hash * 31 + hash_bytes({static_cast<const std::byte*>(tensor->raw()), tensor->bytes()});
    }
  return hash;
}

}  // namespace tasuki::testing
