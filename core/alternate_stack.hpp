// Alternate signal stacks.
//
// oneDNN's generated sgemm (all x86-64 releases so far; issue 4845, fixed in its sources by pull
// request 4855) runs with the stack pointer inside a block of the heap. The kernel writes a
// signal's frame below the stack pointer, so there it overwrites the block's neighbours, unless the
// handler was installed with SA_ONSTACK and the thread has an alternate stack.
#pragma once

namespace tasuki {

// Gives the calling thread an alternate signal stack until the thread ends; an existing one is
// kept. Cheap when called again. Without memory for it the thread keeps running without one.
void use_alternate_stack();

}  // namespace tasuki
