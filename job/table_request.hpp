// SIGUSR2: asks a running job for a table of what its ranks are doing (Watchdog).
#pragma once

namespace tasuki {

// Makes SIGUSR2 a request instead of the end of this process. Does nothing if the program handles
// or ignores the signal already. The handler only sets a flag and wakes the watchdog, so the table
// is printed whatever the process is stuck in. A request before there is a watchdog waits for it.
void listen_for_table_requests();

// A file descriptor that is readable while a request waits; -1 until listen_for_table_requests().
int table_request_wake();

// Whether there were requests since the last call.
bool take_table_requests();

}  // namespace tasuki
