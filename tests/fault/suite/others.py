"""What others do about the faults of the table, by their numbers (docs/reliability.md)."""

OTHERS = {
    "1":
        "torchrun: all workers are restarted, if restarts are allowed. ChainerMN: hangs, "
        "unless the user turns on a hook, which is off by default",
    "2":
        "torchrun: the agent sees the exit and restarts all workers. Horovod elastic: the "
        "others go back to the last commit in memory. ChainerMN: mpirun ends the job",
    "3":
        "as 2. ChainerMN's hook is said to hang on SIGSEGV",
    "4":
        "Open MPI alone never notices",
    "5":
        "torchrun with NCCL: ended after 10 minutes. Horovod: a warning after 60 s that "
        "lists which ranks wait, and no end by default. ChainerMN, Open MPI: never noticed",
    "7":
        "as 5; PyTorch's flight recorder shows afterwards which collective each rank was in",
    "8":
        "Open MPI's defaults: not noticed for 8 minutes, and mpirun then stays. torchrun, "
        "Horovod elastic: a change of membership, with a restart or fewer workers",
    "14":
        "PyTorch's distributed checkpoints: the writer's exception; a partial folder stays, "
        "which cannot be loaded",
    "15":
        "PyTorch's distributed checkpoints: overwriting in place has a moment without a "
        "valid checkpoint; folders are not synced. Chainer: moved into place, not synced",
    "16":
        "PyTorch's zip files: truncation is an error, contents have no hash. safetensors: "
        "sizes are checked, contents have no hash. None goes back to the one before",
    "17":
        "ChainerMN: resumes at the newest iteration that all ranks have",
    "18":
        "PyTorch's distributed checkpoints: any number of ranks. ChainerMN: since its "
        "multi_node_snapshot",
    "20":
        "an exception on one rank; ChainerMN then hangs",
    "21":
        "PyTorch: Join, on request. Horovod: join(). ChainerMN: repeats examples",
    "22":
        "PyTorch's gradient scaler: leaves the step out",
    "27":
        "torchrun: --max-restarts. Horovod elastic: a reset limit, and hosts "
        "are left out for a while",
    "29":
        "torchrun: NCCL's errors are polled, or 10 minutes",
}


def others(number):
    """For the case with this number; variants such as 5b have no entry of their own."""
    return OTHERS.get(number, "")
