// Names of files and folders that are there only while a process writes or removes something.
//
// "log.tasuki-node1-77c0d1e53f2a91c0f0000000-4711-9b2d11aa5c03e7f1.tmp": of `log`, of process 4711
// on node1, with the machine, its boot and the process namespace in which it has that number, and a
// random number.
// What a process that was killed has left can so be told from what one is writing, and from files
// that people have named.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace tasuki {

// A new name beside `path`, which no other call gives.
std::filesystem::path temporary_name(const std::filesystem::path& path);

// Of a temporary name: the name it stands for (cut if it is long); nothing for other names.
std::optional<std::string> name_of_temporary(std::string_view name);
// The path with the names that the temporary ones in it stand for: for messages.
std::filesystem::path final_path(const std::filesystem::path& path);

// Whether a name is temporary_name's, of a process that is over: it ran on this host, in this boot
// and namespace, and is not there; or before this host was booted. What is of other hosts and
// namespaces is not known to be over. Two hosts may have one name: only a known machine's
// (/etc/machine-id) other boot is an earlier one.
bool is_leftover(std::string_view name);

}  // namespace tasuki
