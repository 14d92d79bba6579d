"""An interpreter of classic BPF that follows the kernel's documentation (networking/filter.rst)."""

from __future__ import annotations

from collections.abc import Sequence

Program = Sequence[tuple[int, int, int, int]]


class Rejected(Exception):
    """The kernel's verifier would refuse the program."""


def run(program: Program, packet: bytes) -> int:
    """Run the program on a packet. Returns 0 on a read beyond its end, as the kernel does."""
    a = x = 0
    memory = [0] * 16
    position = 0

    def load(offset: int, size: int) -> int | None:
        if offset + size > len(packet):
            return None
        return int.from_bytes(packet[offset : offset + size], "big")

    sizes = {0x00: 4, 0x08: 2, 0x10: 1}
    while True:
        if position >= len(program):
            raise Rejected("runs past its end")
        code, true, false, k = program[position]
        position += 1
        kind = code & 0x07
        if kind in (0x00, 0x01) and code & 0xE0 in (0x20, 0x40):  # absolute, indirect
            loaded = load(k + (x if code & 0xE0 == 0x40 else 0), sizes[code & 0x18])
            if loaded is None:
                return 0
            a = loaded
        elif code == 0x00:  # ld imm
            a = k
        elif code == 0x60:  # ld mem
            a = memory[k]
        elif code == 0x01:  # ldx imm
            x = k
        elif code == 0x61:  # ldx mem
            x = memory[k]
        elif code == 0xB1:  # ldx msh
            loaded = load(k, 1)
            if loaded is None:
                return 0
            x = 4 * (loaded & 0x0F)
        elif code == 0x02:  # st
            memory[k] = a
        elif code == 0x54:  # and k
            a &= k
        elif code == 0xAC:  # xor x
            a ^= x
        elif code == 0x0C:  # add x
            a = (a + x) & 0xFFFFFFFF
        elif code == 0x05:  # ja
            position += k
        elif code == 0x15:  # jeq k
            position += true if a == k else false
        elif code == 0x06:  # ret k
            return k
        elif code == 0x16:  # ret a
            return a
        else:
            raise Rejected(f"unknown operation {code:#x}")
