"""Ranks of the programs that stand for PyTorch: processes of this machine, exchanging over gloo."""
import pathlib
import tempfile

import torch
import torch.distributed


def run(work, ranks):
    """Calls work(rank) in as many processes as there are ranks; in this one if there is one."""
    if ranks == 1:
        work(0)
        return
    with tempfile.TemporaryDirectory() as folder:
        meeting_point = (pathlib.Path(folder) / "meeting_point").as_uri()
        torch.multiprocessing.spawn(_member, (work, ranks, meeting_point), nprocs=ranks)


def _member(rank, work, ranks, meeting_point):
    torch.distributed.init_process_group("gloo", meeting_point, rank=rank, world_size=ranks)
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
