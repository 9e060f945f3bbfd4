"""Kernels in object files that nvcc has made, as ptxas left them for sm_90: their stacks, and the
instructions that the checks know. NVIDIA's own tools for this are not in every CUDA (cuobjdump,
nvdisasm), so it reads the files itself: the fat binary, the ELF files in it, and of an instruction's
128 bits the operation, the width and the target.
"""
import re
import struct
import subprocess
from dataclasses import dataclass, field

ARCHITECTURE = 90
INSTRUCTION = 16  # bytes
# The operation in the lowest 9 bits; the next 3 say what kinds of operands it has.
NAMES = {
    0x023: "FFMA", 0x141: "BSYNC", 0x142: "BREAK", 0x144: "CALL", 0x145: "BSSY", 0x147: "BRA", 0x148: "WARPSYNC",
    0x149: "BRX", 0x14A: "JMP", 0x14C: "JMX", 0x14D: "EXIT", 0x150: "RET", 0x158: "BRXU",
    0x159: "JMXU", 0x180: "LD", 0x181: "LDG", 0x183: "LDL", 0x184: "LDS", 0x185: "ST",
    0x186: "STG", 0x187: "STL", 0x188: "STS",
}
WIDTHS = {0: 8, 1: 8, 2: 16, 3: 16, 4: 32, 5: 64, 6: 128}
ALWAYS = 7  # the predicate of what is done in any case


@dataclass
class Instruction:
    place: int
    name: str  # "" for all others
    width: int = 0  # bits that a load or a store moves
    target: int = -1  # where it may jump
    is_conditional: bool = False
    barrier: int = -1  # of BSSY and BSYNC
    loop: int | None = None  # the outermost one that it is in, by number

    def is_in_loop(self):
        return self.loop is not None


@dataclass
class Kernel:
    source: str  # file name
    name: str  # without namespaces and parameters
    stack: int  # bytes of local memory: spilled registers and arrays that are not in registers
    instructions: list
    calls: dict = field(default_factory=dict)  # the routine at each address

    def routine(self, call):
        return self.calls.get(call.target, f"routine at {call.target:#x}")

    def count(self, name, width):
        return sum((each.name, each.width) == (name, width) for each in self.instructions)


def cubins(data):
    """The ELF files for sm_90 in an object file."""
    at = 0
    while (at := data.find(struct.pack("<I", 0xBA55ED50), at)) >= 0:
        _, _, header, size = struct.unpack_from("<IHHQ", data, at)
        entry, at = at + header, at + header + size
        while entry < at:
            kind, _, header, size = struct.unpack_from("<HHIQ", data, entry)
            architecture = struct.unpack_from("<I", data, entry + 28)[0]
            begin = entry + header
            if kind == 2 and architecture == ARCHITECTURE:
                if data[begin : begin + 4] != b"\x7fELF":
                    raise ValueError("a fat binary with compressed code, which this cannot read")
                yield data[begin : begin + size]
            entry = begin + size


@dataclass
class Section:
    name: str
    bytes: bytes
    info: int


class Elf:
    def __init__(self, data):
        begin = struct.unpack_from("<Q", data, 40)[0]
        size, count, names = struct.unpack_from("<HHH", data, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, begin + i * size) for i in range(count)]

        def content(header):
            return b"" if header[1] == 8 else data[header[4] : header[4] + header[5]]

        texts = content(headers[names])
        self.sections = [Section(text_at(texts, h[0]), content(h), h[7]) for h in headers]
        table = next(i for i, section in enumerate(self.sections) if section.name == ".symtab")
        texts = content(headers[headers[table][6]])
        symbols = self.sections[table].bytes
        # (name, section, address, size)
        self.symbols = []
        for at in range(0, len(symbols), 24):
            name, _, _, section, value, bytes_ = struct.unpack_from("<IBBHQQ", symbols, at)
            self.symbols.append((text_at(texts, name), section, value, bytes_))

    def stacks(self):
        """Bytes of stack by the number of a function's symbol."""
        info = next(section.bytes for section in self.sections if section.name == ".nv.info")
        found, at = {}, 0
        while at < len(info):
            form, attribute, value = struct.unpack_from("<BBH", info, at)
            at += 4
            if form != 4:  # the value is in its two bytes
                continue
            if attribute == 0x11:  # the size of a frame
                symbol, size = struct.unpack_from("<II", info, at)
                found[symbol] = size
            at += value
        return found


def text_at(texts, begin):
    return texts[begin : texts.index(b"\0", begin)].decode()


def decode(place, low, high):
    name = NAMES.get(low & 0x1FF, "")
    predicate = low >> 12 & 0xF
    each = Instruction(place, name, is_conditional=predicate != ALWAYS)
    if name in ("LD", "LDG", "LDL", "LDS", "ST", "STG", "STL", "STS"):
        each.width = WIDTHS.get(high >> 9 & 7, 0)
    elif name in ("BRA", "CALL", "BSSY", "WARPSYNC"):
        offset = (low | high << 64) >> 34 & (1 << 48) - 1
        offset -= (offset & 1 << 47) * 2
        if name != "BSSY":  # the lowest bits are where BSSY has its barrier
            offset = offset << 8 | low >> 16 & 0xFF
        each.target = place + INSTRUCTION + 4 * offset
        # Either kind of branch has a second condition.
        each.is_conditional |= high >> 23 & 0xF != ALWAYS
    if name in ("BSSY", "BSYNC"):
        each.barrier = low >> 16 & 0xF
    return each


def successors(instructions):
    """Of each instruction, the numbers of those that may follow it; a routine returns behind its CALL.
    BSYNC goes on where the BSSY says that was the last one for its barrier on the way there."""
    number = {each.place: i for i, each in enumerate(instructions)}
    follow = [set() for _ in instructions]
    arrived = {}  # with which (barrier, place to go on)
    ahead = [(0, frozenset())]
    while ahead:
        i, joined = ahead.pop()
        joined |= arrived.get(i, frozenset())
        if arrived.get(i) == joined:
            continue
        arrived[i] = joined
        each = instructions[i]
        if each.name in ("BRX", "JMP", "JMX", "BRXU", "JMXU"):
            raise ValueError(f"{each.name} at {each.place:#x}: a jump that this cannot follow")
        if each.name == "BSSY":
            joined = frozenset(pair for pair in joined if pair[0] != each.barrier)
            joined |= {(each.barrier, number[each.target])}
        if each.name in ("BRA", "WARPSYNC") and each.target in number:
            follow[i].add(number[each.target])
        if each.name == "BSYNC":
            follow[i] |= {place for barrier, place in joined if barrier == each.barrier}
        ends = each.name in ("BRA", "EXIT", "RET", "BSYNC") and not each.is_conditional
        if not ends and i + 1 < len(instructions):
            follow[i].add(i + 1)
        ahead.extend((j, joined) for j in follow[i])
    return [sorted(each) for each in follow]


def mark_loops(instructions):
    """Finds the instructions that may run again after themselves (Tarjan's components, without recursion)."""
    follow = successors(instructions)
    order, low, on_stack, stack, loops = {}, {}, set(), [], 0
    for root in range(len(instructions)):
        if root in order:
            continue
        work = [(root, iter(follow[root]))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            i, rest = work[-1]
            new = next((j for j in rest if j not in order or j in on_stack), None)
            if new is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[i])
                if low[i] == order[i]:
                    members = [stack.pop()]
                    while members[-1] != i:
                        members.append(stack.pop())
                    on_stack.difference_update(members)
                    if len(members) > 1 or i in follow[i]:
                        for member in members:
                            instructions[member].loop = loops
                        loops += 1
            elif new in order:
                low[i] = min(low[i], order[new])
            else:
                order[new] = low[new] = len(order)
                stack.append(new)
                on_stack.add(new)
                work.append((new, iter(follow[new])))


def short_names(mangled):
    """Names as in the source: `map_kernel<float, Exp, float>`."""
    result = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True,
                            check=True)
    for name in result.stdout.splitlines():
        name = re.sub(r"\(anonymous namespace\)::|\b(tasuki|kernels)::", "", name)
        name = name.removeprefix("void ")
        depth = 0
        for end, letter in enumerate(name):  # the parameters begin outside of <>
            depth += {"<": 1, ">": -1}.get(letter, 0)
            if letter == "(" and depth == 0:
                name = name[:end]
                break
        yield name


def source_of(mangled):
    """The file whose kernels these are, which names in its unnamed namespace contain."""
    for name in mangled:
        if found := re.search(r"_GLOBAL__N__[0-9a-f]{8}_\d+_(\w+)_cu_", name):
            return found[1] + ".cu"
    return "?"


def kernels(path):
    """All kernels of an object file or a library."""
    with open(path, "rb") as file:
        data = file.read()
    for cubin in cubins(data):
        elf = Elf(cubin)
        stacks = elf.stacks()
        mangled = [section.name[6:] for section in elf.sections if section.name.startswith(".text.")]
        source, short = source_of(mangled), dict(zip(mangled, short_names(mangled)))
        for index, section in enumerate(elf.sections):
            if not section.name.startswith(".text."):
                continue
            name = section.name[6:]
            calls = {}
            for number, (symbol, where, value, size) in enumerate(elf.symbols):
                if where != index or not symbol or symbol.startswith("."):
                    continue
                if symbol == name:
                    own, stack = size, stacks.get(number, 0)
                else:
                    calls[value] = symbol.rsplit("$", 1)[-1]
            end = min([own, *calls])
            instructions = [decode(at, *struct.unpack_from("<QQ", section.bytes, at))
                            for at in range(0, end, INSTRUCTION)]
            mark_loops(instructions)
            yield Kernel(source, short[name], stack, instructions, calls)
