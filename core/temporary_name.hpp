// Names of files and folders that exist only while a process writes or removes something.
//
// "log.tasuki-node1-77c0d1e53f2a91c0f0000000-4711-9b2d11aa5c03e7f1.tmp": for `log`, by process 4711
// on node1, with the machine, its boot, the namespace of the process number, and a random number.
// So leftovers of a killed process differ from files that are being written, and from files that
// people have named.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace tasuki {

// A new name beside `path`, which no other call returns.
std::filesystem::path temporary_name(const std::filesystem::path& path);

// The name that a temporary name stands for (cut if it is long); nothing for other names.
std::optional<std::string> name_of_temporary(std::string_view name);
// The path with the original name in place of each temporary name, for messages.
std::filesystem::path final_path(const std::filesystem::path& path);

// Whether a name is temporary_name()'s, and its process has ended: it ran on this host, in this
// boot and namespace, and no longer exists; or it ran before this host was booted. Of other hosts
// and namespaces this is unknown, so the answer is false. Two hosts may have one name, so another
// boot counts as earlier only if the machine is known (/etc/machine-id) and is this one.
bool is_leftover(std::string_view name);

}  // namespace tasuki
