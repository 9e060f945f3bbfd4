/* What tasuki.h is for a compiler of C99. */
#pragma once

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Trains y = 2 a - b for so many steps; returns the code of the first function that failed, and the
   prediction for a = 0.5, b = 0.25. */
int train_in_c(MPI_Comm comm, int steps, float* prediction);

#ifdef __cplusplus
}
#endif
