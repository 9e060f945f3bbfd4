// Alternate signal stacks.
//
// Before 3.11.2, oneDNN's generated sgemm (on x86-64; issue 4845) runs with the stack pointer
// inside a block of the heap. The kernel writes a signal's frame below the stack pointer, so there
// it overwrites the block's neighbours, unless the handler was installed with SA_ONSTACK and the
// thread has an alternate stack.
#pragma once

namespace tasuki {

// Gives the calling thread an alternate signal stack until the thread ends; an existing one is
// kept. Cheap when called again. Without memory for it the thread keeps running without one.
void use_alternate_stack();

// Adds SA_ONSTACK to all handlers of this process that lack it. For handlers that libraries have
// installed: MPICH wraps the one of SIGUSR1 in its own, UCX has one for SIGHUP.
void use_alternate_stacks_in_handlers();

}  // namespace tasuki
