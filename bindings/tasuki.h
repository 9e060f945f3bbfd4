/* Tasuki for programs in C, and in any language that calls C: trains and uses a network inside a
   program that has an MPI of its own. The module for Fortran, tasuki.f90, calls these functions.

     tasuki_model *model;
     tasuki_create(comm, "mlp 3-64-64-1 tanh", "mean_squared_error", "adam alpha=0.003", &model);
     for (...) tasuki_train_step(model, &x, &t, &loss);
     tasuki_predict(model, &x, &y);
     tasuki_destroy(model);

   All functions return TASUKI_OK or another code below, and tasuki_error() has the line to print.
   No C++ exception leaves them. "Collective" functions are called by all ranks of the communicator,
   in the same order, and by the thread that may call MPI; the others need no other rank. A null
   pointer where none is allowed is TASUKI_USAGE.

   MPI must be initialised (MPI_THREAD_FUNNELED is enough), and all models destroyed before
   MPI_Finalize. What Tasuki does in a program that is not its own: docs/in-situ.md. */
#ifndef TASUKI_H
#define TASUKI_H

#include <mpi.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- errors --- */

/* The numbers are those of sysexits.h where it has a fitting one, and exit codes of Tasuki's
   programs. */
enum tasuki_code {
  TASUKI_OK = 0,
  TASUKI_USAGE = 64,        /* an argument */
  TASUKI_DATA = 65,         /* a file with wrong contents */
  TASUKI_MISSING = 66,      /* a missing file or folder */
  TASUKI_UNAVAILABLE = 69,  /* a device or library that this machine or build lacks */
  TASUKI_INTERNAL = 70,     /* a defect in Tasuki or in the program */
  TASUKI_NO_MEMORY = 71,    /* this rank has too little memory; others get TASUKI_UNAVAILABLE */
  TASUKI_CANNOT_WRITE = 73, /* an output file or folder */
  TASUKI_IO = 74,           /* reading or communicating failed; another rank has failed */
  TASUKI_HANG = 75,         /* another rank has not answered for too long */
  TASUKI_DISAGREEMENT = 76, /* ranks differ where they must not */
  TASUKI_CONFIG = 78        /* settings that do not fit the machine or each other */
};

/* The message of the last function that failed in this thread, one line: what was expected, what
   was found, what to do; "rank 2 on node7: ..." if it is an error of this rank alone. Empty before
   the first failure. Valid until the thread's next call of a function of this header. */
const char *tasuki_error(void);

/* Of the library: "0.1.0". */
const char *tasuki_version(void);

/* --- arrays of the program --- */

enum tasuki_type { TASUKI_FLOAT32, TASUKI_FLOAT64, TASUKI_INT32, TASUKI_INT64 };

enum tasuki_order {
  TASUKI_C_ORDER,      /* the first axis numbers the examples, and the last one is contiguous */
  TASUKI_FORTRAN_ORDER /* the last axis numbers the examples, and the first one is contiguous */
};

enum { TASUKI_MAX_AXES = 6 };

/* An array in the program's memory (of the host, not of a GPU), which is neither kept nor freed. 100
   examples of 3 numbers:
     tasuki_array x = {.data = values, .axes = 2, .shape = {100, 3}};
   Images are examples x channels x height x width in C's order, and width x height x channels x
   examples in Fortran's. Axes of size 1, other than that of the examples, may be left out or added:
   {100} is 100 examples of one number. A rank may pass 0 examples (and then a null pointer). */
typedef struct tasuki_array {
  void *data; /* only read, but for the results of tasuki_predict */
  enum tasuki_type type;
  enum tasuki_order order;
  int axes; /* 1 to TASUKI_MAX_AXES */
  int64_t shape[TASUKI_MAX_AXES];
  /* Elements from a value to the next one along each axis, for an array that is a part of another
     one; negative ones go backward. All 0: the array is contiguous. */
  int64_t strides[TASUKI_MAX_AXES];
} tasuki_array;

/* --- a model --- */

/* A network on all ranks of a communicator, with its loss and its optimizer. Only one thread at a
   time may use it. */
typedef struct tasuki_model tasuki_model;

/* Makes a model; all ranks have the same weights. `comm` is duplicated. Collective.

   `network`: a line,
     "mlp 3-64-64-1 tanh"    fully connected layers of these sizes, and the function between them:
                             relu (if none is given), tanh, sigmoid, gelu, silu, elu or softplus
     "resnet18 classes=10 image=3x32x32"
                             a network of the catalogue that tasuki-predict and train_cifar know by
                             --arch, or that a C++ source of the program adds (register_model in
                             models/catalog.hpp); image: channels x height x width

   `loss`, the mean over the examples of all ranks:
     "mean_squared_error", "mean_absolute_error", "huber_loss"
                              of targets of the result's shape, floating-point
     "softmax_cross_entropy"  of labels, integers from 0; -1: does not count
     "sigmoid_cross_entropy"  of labels 0 and 1 (-1: does not count), or probabilities

   `settings`: the optimizer (sgd, momentum_sgd, nesterov, adam, adamw, lamb, rmsprop, adagrad,
   adadelta), then any of
     alpha=0.003 ...    the optimizer's hyper-parameters, by Chainer's names
     clip=1             the largest L2 norm of the gradient
     weight_decay=1e-4  adds this multiple of the weights to the clipped gradient; with adamw and
                        lamb it is their weight_decay_rate
     seed=0             of the initial weights, and of dropout
     threads=1          that each rank computes with
     communicator=auto  how gradients travel (a name of README's table)
     device=cpu         or gpu: each rank of a machine takes one
   `*model` is null after an error. */
int tasuki_create(MPI_Comm comm, const char *network, const char *loss, const char *settings,
                  tasuki_model **model);
/* The same with Fortran's handle of a communicator (MPI_VAL of a type(MPI_Comm)). */
int tasuki_create_f(MPI_Fint comm, const char *network, const char *loss, const char *settings,
                    tasuki_model **model);

/* Frees it. A null pointer is allowed. All ranks call it, in the same order as other collective
   functions; none waits for the others. */
int tasuki_destroy(tasuki_model *model);

/* --- training --- */

/* One update with the examples of all ranks, of which each may have any number: the gradient is that
   of the mean over all of them. float64 values are rounded to float32, in which the network
   computes. `x` and `t` have the same number of examples. `*loss` becomes the mean over this rank's
   examples, before the update, or NaN without any; after an error it stays as it was. `loss` may be
   null. Collective.

   Ranks agree on each step first: if an array or a label of one rank is wrong, all ranks get its
   error, and the model is as before. After an error of one rank alone in the step itself (such as
   TASUKI_NO_MEMORY), the others get TASUKI_IO in this step or in the next one, with that rank's
   message; with the communicators flat and naive and on GPUs they may wait until the rank ends. The
   model can then only predict and be destroyed. */
int tasuki_train_step(tasuki_model *model, const tasuki_array *x, const tasuki_array *t,
                      double *loss);

/* The mean loss over the examples of all ranks, without training (as tasuki_predict computes); the
   same number on all ranks, NaN if there are no examples. Collective. */
int tasuki_evaluate(tasuki_model *model, const tasuki_array *x, const tasuki_array *t,
                    double *loss);

/* What the network computes for `x`, with dropout off and running statistics as they are: writes
   `y->data`, float32 or float64. `y` has as many examples as `x`. */
int tasuki_predict(tasuki_model *model, const tasuki_array *x, const tasuki_array *y);

/* A number by name: the optimizer's hyper-parameters ("alpha", "lr", ...), which may change between
   any two steps, to the same value on all ranks (the next step checks that); and, to read only, "steps" (updates so far),
   "parameters" (how many numbers the network learns), "rank" and "ranks" of the communicator. */
int tasuki_set(tasuki_model *model, const char *name, double value);
int tasuki_get(tasuki_model *model, const char *name, double *value);

/* --- files --- */

/* Writes the weights to one file, which rank 0 replaces when it is complete: .npz (Chainer's
   names), .safetensors or .onnx. Collective. */
int tasuki_save(tasuki_model *model, const char *path);

/* Loads weights from a file of tasuki_save (.npz, .safetensors), a checkpoint or a snapshot, which
   rank 0 reads. The optimizer's states stay as they are. Collective. */
int tasuki_load(tasuki_model *model, const char *path);

/* Writes all that training needs to go on: weights, optimizer, number of steps, seed. Rank 0
   replaces the file when it is complete. Collective. */
int tasuki_checkpoint(tasuki_model *model, const char *path);

/* Goes on from such a file: with the same batches on as many ranks with as many threads, the next
   steps have the bits of a run that was not interrupted. TASUKI_MISSING if there is no file; the model is then as before. Collective. */
int tasuki_resume(tasuki_model *model, const char *path);

#ifdef __cplusplus
}
#endif

#endif
