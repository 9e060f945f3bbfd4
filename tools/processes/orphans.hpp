// Processes that a program leaves behind: children of its children, whose parents have ended.
#pragma once

namespace tasuki::processes {

// Makes this process the new parent of all its descendants that lose theirs. The children that it
// has at this call do not count as orphans: a shell that became this program by `exec` started
// them. An error of kind io if the kernel refuses.
void adopt_orphans();

// Kills all orphans, and the children that they leave, until none is left. Returns false if some
// are left after a second: a process that waits in the kernel, as for a disk, cannot be killed
// before that wait ends.
bool end_orphans();

}  // namespace tasuki::processes
