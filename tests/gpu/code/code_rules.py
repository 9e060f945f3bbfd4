"""What machine code must and must not have; each rule returns lines about what is wrong. Kernels are named by
their source and a regular expression that must fit the whole name. An entry that fits no kernel, or
allows what is no longer there, is wrong, too."""
import re


def find(kernels, source, pattern):
    return [each for each in kernels
            if each.source == source and re.fullmatch(pattern, each.name)]


def named(source, pattern):
    return f"{source}: {pattern}"


def check_stacks(kernels, allowed):
    """`allowed`: (source, pattern, bytes, reason)."""
    excused = {}
    for source, pattern, size, _ in allowed:
        found = find(kernels, source, pattern)
        if not any(each.stack for each in found):
            yield f"{named(source, pattern)}: no local memory any more; remove the entry of STACKS"
        elif max(each.stack for each in found) < size:
            yield f"{named(source, pattern)}: less than {size} bytes of local memory; lower them in STACKS"
        excused.update({id(each): size for each in found})
    for each in kernels:
        if each.stack > excused.get(id(each), 0):
            yield f"{named(each.source, each.name)}: {each.stack} bytes of local memory"


def check_packs(kernels, expected):
    """`expected`: (source, pattern, loads, stores), the least number of instructions of 16 bytes in loops."""
    for source, pattern, *least in expected:
        found = find(kernels, source, pattern)
        if not found:
            yield f"{named(source, pattern)}: no such kernel; change or remove the entry of PACKS"
        for each in found:
            for name, count in zip(("LDG", "STG"), least):
                inside = [i for i in each.instructions if i.name == name and i.is_in_loop()]
                wide = sum(i.width == 128 for i in inside)
                if wide < count:
                    yield (f"{named(source, each.name)}: {wide} {name} of 128 bits in loops, at least {count} "
                           f"expected; others: {sorted({i.width for i in inside} - {128})}")


def check_calls(kernels, anywhere, allowed):
    """`anywhere`: routines that loops of any kernel may call; `allowed`: {reason: {source: {pattern: routines}}}."""
    made = {(each.source, each.name, each.routine(i))
            for each in kernels for i in each.instructions
            if i.name == "CALL" and i.is_in_loop()}
    excused = set()
    for source, pattern, routine in entries_of(allowed):
        fitting = {call for call in made
                   if (call[0], call[2]) == (source, routine) and re.fullmatch(pattern, call[1])}
        if not fitting:
            yield f"{named(source, pattern)}: no loop calls {routine} any more; remove it from CALLS"
        excused |= fitting
    for source, name, routine in sorted(made - excused):
        if routine not in anywhere:
            yield f"{named(source, name)}: a loop calls {routine}"


def entries_of(allowed):
    for sources in allowed.values():
        for source, patterns in sources.items():
            for pattern, routines in patterns.items():
                for routine in routines:
                    yield source, pattern, routine


def check_reuse(kernels, expected):
    """`expected`: (source, pattern, least), float32 multiplications for each load from shared memory, of what is
    in loops."""
    for source, pattern, least in expected:
        found = find(kernels, source, pattern)
        if not found:
            yield f"{named(source, pattern)}: no such kernel; change or remove the entry of REUSE"
        for each in found:
            loads, products = (sum(i.name == name and i.is_in_loop() for i in each.instructions)
                               for name in ("LDS", "FFMA"))
            if loads == 0 or products < least * loads:
                yield (f"{named(source, each.name)}: {products} multiplications for {loads} loads from shared "
                       f"memory in loops, at least {least} for each expected")


def check_shared_stores(kernels, expected):
    """`expected`: (source, pattern) of kernels whose loops over the device's memory keep sums in registers."""
    for source, pattern in expected:
        found = find(kernels, source, pattern)
        if not found:
            yield f"{named(source, pattern)}: no such kernel; change or remove the entry of SUMS_IN_REGISTERS"
        for each in found:
            loading = {i.loop for i in each.instructions if i.name == "LDG"} - {None}
            if not loading:
                yield f"{named(source, each.name)}: no loop loads anything"
            stores = sum(i.name == "STS" and i.loop in loading for i in each.instructions)
            if stores:
                yield f"{named(source, each.name)}: {stores} stores to shared memory in the loop that loads"
