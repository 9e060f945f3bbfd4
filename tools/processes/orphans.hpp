// Processes that a program leaves behind: descendants whose parents have ended.
#pragma once

namespace tasuki::processes {

// Makes this process the new parent of descendants that lose their parent (a subreaper). The
// children that it has at this call do not count as orphans: a shell that became this program by
// `exec` started them. An error of kind io if the kernel refuses.
void adopt_orphans();

// Kills all orphans, and the children that they leave, until none is left. Returns false if some
// are left after a second: a process that waits in the kernel, for a disk for example, cannot be
// killed before the wait ends.
bool end_orphans();

}  // namespace tasuki::processes
