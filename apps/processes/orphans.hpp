// Processes that a program leaves behind: children of its children, whose parents have ended.
#pragma once

namespace tasuki::processes {

// From now on processes that lose their parent become children of this one. Children that it has
// already, of a shell that became this program, do not count as orphans.
void adopt_orphans();

// Kills all orphans, and those that become orphans by that, until none is left. After a second it
// gives up and returns false: what is left waits in the kernel, for example for a disk.
bool end_orphans();

}  // namespace tasuki::processes
