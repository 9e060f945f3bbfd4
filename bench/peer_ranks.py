"""Ranks of the programs that stand for PyTorch: processes of this machine, exchanging over gloo."""
import torch
import torch.distributed

PORT = 29871


def run(work, ranks):
    """Calls work(rank) in as many processes as there are ranks; in this one if there is one."""
    if ranks == 1:
        work(0)
    else:
        torch.multiprocessing.spawn(_member, (work, ranks), nprocs=ranks)


def _member(rank, work, ranks):
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{PORT}", rank=rank,
                                         world_size=ranks)
    work(rank)
    torch.distributed.destroy_process_group()


def barrier():
    """Waits for all ranks; nothing with one."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()


def exchanging(model, **options):
    """The model as DistributedDataParallel; itself with one rank."""
    if not torch.distributed.is_initialized():
        return model
    return torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, **options)
