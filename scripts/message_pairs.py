#!/usr/bin/env python3
"""Makes a parallel text of programs' translated messages, for train_seq2seq.

Reads catalogs of gettext (.mo files) and Debian packages that contain some, and writes a message on
each line of messages.en, and its translation on the same line of messages.LANGUAGE: in lower case,
with blanks around punctuation, each message once (with the translation of the first file that has
it), in an order that does not depend on the files'.

  apt-get download coreutils bash dpkg tar gnupg-l10n
  scripts/message_pairs.py --language de --out messages *.deb
  mpirun -np 2 build/apps/train_seq2seq --source messages/messages.en --target messages/messages.de
"""
import argparse
import gettext
import hashlib
import io
import pathlib
import re
import struct
import subprocess
import sys
import tarfile

TOKEN = re.compile(r"%[-#0-9.*$lh]*[a-zA-Z]|\w+|[^\w\s]")


def catalogs(path, language):
    """The catalogs in a file as streams."""
    if path.suffix != ".deb":
        yield path.open("rb")
        return
    unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], stdout=subprocess.PIPE, check=True)
    with tarfile.open(fileobj=io.BytesIO(unpacked.stdout)) as files:
        for member in files:
            if member.isfile() and re.search(rf"/{language}/LC_MESSAGES/[^/]*\.mo$", member.name):
                yield files.extractfile(member)


def messages(stream):
    """The messages of a catalog with their translations; of plural forms the first ones."""
    try:
        catalog = gettext.GNUTranslations(stream)._catalog
    except struct.error as error:  # shorter than its header
        raise OSError(f"no catalog: {error}") from error
    for message, translation in catalog.items():
        if isinstance(message, tuple):
            message, form = message
            if form != 0:
                continue
        message = message.rpartition("\4")[2]  # without its context
        if message and translation:
            yield message, translation


def sentence(text):
    return " ".join(TOKEN.findall(text.lower()))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE", help=".mo or .deb")
    parser.add_argument("--language", default="de", help="code of the translations' language")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), metavar="FOLDER")
    parser.error = lambda message: parser.exit(64, f"message_pairs.py: {message}; --help says more\n")
    options = parser.parse_args()
    if not options.files:
        parser.error("expected .mo files or Debian packages, found none")
    pairs = {}
    for path in options.files:
        try:
            for stream in catalogs(path, options.language):
                for message, translation in messages(stream):
                    pairs.setdefault(sentence(message), sentence(translation))
        except (OSError, ValueError, tarfile.TarError, subprocess.CalledProcessError) as error:
            sys.exit(f"message_pairs.py: {path}: expected a .mo file or a Debian package: {error}")
    pairs = {source: target for source, target in pairs.items() if source and target}
    if not pairs:
        sys.exit(f"message_pairs.py: no messages in the language {options.language} in these files")
    order = sorted(pairs, key=lambda source: hashlib.sha256(source.encode()).digest())
    options.out.mkdir(parents=True, exist_ok=True)
    for suffix, lines in (("en", order), (options.language, [pairs[source] for source in order])):
        (options.out / f"messages.{suffix}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(order)} pairs in {options.out}")


if __name__ == "__main__":
    main()
