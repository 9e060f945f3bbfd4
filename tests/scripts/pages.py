#!/usr/bin/env python3
"""Manual pages and completion for bash, as the programs write them (--help man, --help bash).

    pages.py BUILD

Pages are read by man, and by mandoc where that is installed; completion runs in a real bash.
"""
import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(sys.argv[1])
PROGRAMS = sorted(path for path in (BUILD / "apps").iterdir()
                  if path.is_file() and re.fullmatch(r"(train|tasuki)[-_a-z0-9]+", path.name))


# The date of manual pages.
os.environ["SOURCE_DATE_EPOCH"] = "86400"


@functools.cache
def output(program, *flags):
    return subprocess.run([program, *flags], check=True, capture_output=True, text=True, timeout=60).stdout


class Completion:
    """A shell that has read a program's file."""

    def __init__(self, program, folder):
        self.program = program.name
        self.folder = folder
        self.file = folder / f"{program.name}.bash"
        self.file.write_text(output(program, "--help", "bash"))

    def __call__(self, *words):
        """What completes the last word; "--a=b" is three words, as readline splits them."""
        script = f"""
            source {shlex.quote(str(self.file))}
            COMP_WORDS=({' '.join(shlex.quote(word) for word in (self.program, *words))})
            COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            function=$(complete -p {self.program}); function=${{function#*-F }}; ${{function%% *}}
            printf '%s\\n' "${{COMPREPLY[@]}}" """
        ran = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, cwd=self.folder,
                             check=False, timeout=60)
        assert ran.returncode == 0 and not ran.stderr, (words, ran)
        return ran.stdout.split("\n")[:-1] if ran.stdout != "\n" else []


def flags_of(program):
    """The flags that --help all lists."""
    return re.findall(r"^  (?:-.,|   ) --([a-z0-9-]+)", output(program, "--help", "all"), re.M)


def check_page(program, folder):
    page = output(program, "--help", "man")
    file = folder / f"{program.name}.1"
    file.write_text(page)
    assert ' 1 1970-01-02 "Tasuki ' in page, page[:200]
    assert max(map(len, page.split("\n"))) <= 100, program
    flags = flags_of(program)
    for flag in flags:
        assert "\\-\\-" + flag.replace("-", "\\-") + "\\fR" in page, (program, flag)
    shown = None
    if shutil.which("man"):
        ran = subprocess.run(["man", "--warnings", "-l", file], capture_output=True, text=True, check=True, timeout=60,
                             env={**os.environ, "MANWIDTH": "200", "LC_ALL": "C"})
        assert not ran.stderr, (program, ran.stderr)
        shown = re.sub(".\x08", "", ran.stdout)
        assert f"--{flags[0]}" in shown, (program, shown[:2000])
    if shutil.which("mandoc"):
        ran = subprocess.run(["mandoc", "-Tlint", file], capture_output=True, text=True, check=False, timeout=60)
        assert not ran.stdout + ran.stderr, (program, ran.stdout + ran.stderr)
    return shown


def check_flags(program, complete):
    flags = flags_of(program)
    assert sorted(complete("--")) == sorted(f"--{flag}" for flag in flags), program
    assert complete("--hel") == ["--help"]
    assert complete("--no-such-flag") == []


def check_values(folder):
    complete = Completion(BUILD / "apps/train_mnist", folder)
    (folder / "some.npz").touch()
    (folder / "some folder").mkdir()
    kinds = complete("--communicator", "")
    assert {"auto", "naive", "hierarchical", "two_dimensional", "pure_nccl", "help"} <= set(kinds), kinds
    assert complete("--communicator", "hi") == ["hierarchical"]
    assert complete("--optimizer", "ad") == ["adam", "adamw", "adagrad", "adadelta"]
    assert complete("--dtype", "=", "b") == ["bf16"]
    assert complete("--dtype", "=") == ["fp32", "tf32", "bf16", "fp16"]
    assert complete("--quiet", "=", "t") == ["true"]
    # Files, folders, or words and files; names with blanks stay whole.
    assert complete("--trace", "some.") == ["some.npz"]
    assert complete("--data", "some") == ["some folder"]
    assert sorted(complete("-o", "some")) == ["some folder"]
    assert sorted(complete("--init", "some")) == ["some folder", "some.npz"]
    assert complete("--resume", "au") == ["auto"]
    assert complete("--init-map", "g") == ["gpt2"]
    # After a switch, and after a flag whose value may miss, comes the next flag.
    assert complete("--quiet", "--verb") == ["--verbose"]
    assert complete("--gpu", "--verb") == ["--verbose"]
    assert complete("--gpu", "a") == ["auto"]
    # A number is not completed; words of Chainer's names are.
    assert complete("--epoch", "1") == []
    assert complete("--help", "b") == ["bash"]
    imagenet = Completion(BUILD / "apps/train_imagenet", folder)
    assert imagenet("--arch", "resnet5") == ["resnet50"]
    predict = Completion(BUILD / "apps/tasuki-predict", folder)
    assert predict("--model", "some.") == ["some.npz"]
    cifar = Completion(BUILD / "apps/train_cifar", folder)
    assert "cifar100" in cifar("--dataset", ""), cifar("--dataset", "")


def check_programs_after_tasuki_run(folder):
    complete = Completion(BUILD / "apps/tasuki-run", folder)
    assert complete("--max-re") == ["--max-restarts"]
    assert "bash" in complete("bas")
    assert complete("--launcher", "s") == ["srun"]
    # What follows the program's name is its own: bash-completion's function is called with its place.
    stub = folder / "tasuki-run.bash"
    stub.write_text('_command_offset() { COMPREPLY=("offset $1"); }\n' + stub.read_text())
    assert complete("-np", "4", "train_mnist", "--comm") == ["offset 3"]
    assert complete("--np", "=", "4", "train_mnist", "") == ["offset 4"]
    assert complete("--stdin", "train_mnist", "") == ["offset 2"]


def main():
    assert len(PROGRAMS) >= 15, PROGRAMS
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for program in PROGRAMS:
            shown = check_page(program, folder)
            check_flags(program, Completion(program, folder))
        check_values(folder)
        check_programs_after_tasuki_run(folder)
    # What cmake --install takes.
    pages = BUILD / "pages"
    if pages.is_dir():
        for program in PROGRAMS:
            assert (pages / "completions" / program.name).read_text() == output(program, "--help", "bash"), program
            assert (pages / "man1" / f"{program.name}.1").is_file(), program
    print(f"pages: {len(PROGRAMS)} programs{'' if shown else '; man is not installed and read none'}")


main()
