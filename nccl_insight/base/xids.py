"""What the driver's Xid numbers mean (NVIDIA's Xid catalog, https://docs.nvidia.com/deploy/xid-errors/)."""

from typing import Final, Literal

#: Number -> meaning, for those that say something about a job of many GPUs.
MEANINGS: Final = {
    13: "graphics engine exception, usually an illegal access by a kernel",
    31: "GPU memory page fault, usually an illegal access by a kernel",
    43: "GPU stopped processing; the process was at fault or was killed",
    45: "preemptive cleanup after an earlier error or a killed process",
    46: "GPU stopped processing; it has to be reset",
    48: "double-bit ECC error",
    54: "auxiliary power is not connected to the GPU board",
    61: "internal microcontroller error",
    62: "internal microcontroller halt",
    63: "a memory row remapping is recorded; it takes effect at the next reset",
    64: "memory row remapping or page retirement failed",
    69: "graphics engine class error",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "high rate of single-bit ECC errors",
    94: "contained memory error: the program that had the page ended",
    95: "uncontained memory error",
    109: "context switch time-out",
    110: "security fault, uncommon without a hardware failure",
    119: "GSP firmware time-out",
    120: "GSP firmware error",
    121: "errors on the link to the Grace CPU that were corrected",
    136: "NVLink training failed",
    137: "NVLink privilege error, usually a peer or program that accessed memory it may not",
    140: "unrecovered ECC error",
    143: "GPU initialization error",
    144: "NVLink SAW error", 145: "NVLink RLW error", 146: "NVLink TLW error", 147: "NVLink TREX error",
    148: "NVLink NVLPW_CTRL error", 149: "NVLink NETIR error", 150: "NVLink MSE error",
    154: "the recovery action that the GPU needs changed",
    155: "NVLink went down", 156: "a resource is retired at the next reset", 157: "no resource is left to retire to",
    158: "GPU fatal time-out", 167: "PCIe fatal time-out", 169: "internal microcontroller halt",
    171: "uncorrectable error in DRAM", 172: "uncorrectable error in SRAM",
    8: "GPU stopped processing; the program has to start again",
    **dict.fromkeys((11, 25, 32), "invalid or corrupted push buffer"), 80: "corrupted data was sent to the GPU",
    **dict.fromkeys((37, 38), "driver firmware error, to be ignored"), 78: "vGPU did not start: update the software",
    **dict.fromkeys((39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)), "copy engine exception"),
    **dict.fromkeys((60, 68, *range(82, 85), 86, 88, 89, *range(96, 106), 139, 142), "video engine exception"),
    44: "graphics engine fault during a context switch", **dict.fromkeys((66, 67), "illegal access by the driver"),
    93: "the InfoROM is written often", **dict.fromkeys((106, 107), "test message of the board's controller"),
    141: "CUDA fast path error, to be ignored", 151: "key rotation error: restart the virtual machine",
    152: "DLA SMMU error", 153: "DLA time-out", 159: "error on the CHI link to the Grace CPU",
    160: "a memory channel is retired at the next reset", 161: "a memory channel could not be retired",
    162: "power smoothing is engaged again", 163: "power smoothing is disengaged",
    164: "the power smoothing circuit is near its end of life", 165: "the power smoothing circuit is worn out",
    166: "traffic before the link was set up for encryption", 168: "errors in the write-protected region",
    170: "interrupt in confidential computing mode", 173: "the link to the Grace CPU failed",
    **dict.fromkeys((27, 28, 29, 33, 34, 35, 36, 42, 47, 65, 73), "video engine exception"),
    58: "error of the GPU's memory", 59: "power management unit error", 90: "level 2 cache error",
    108: "NVLink address translation error", **dict.fromkeys((122, 123, 124), "the board's flash memory failed"),
    125: "the InfoROM's file system is damaged", 138: "DLA error", 175: "memory subsystem error",
    174: "a process was ended because its channel was reset", 176: "too many corrected PCIe errors",
}  # fmt: skip
#: Usually the program's fault: the GPU goes on.
BY_PROGRAM: Final = (
    8, 11, 13, 25, 31, 32, 39, 40, 41, 43, 45, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89,
    *range(96, 106), *range(126, 136), 137, 139, 27, 28, 29, 33, 34, 35, 36, 42, 47, 65, 73, 138, 174,
)  # fmt: skip
#: Recorded for the next reset or corrected; nothing is wrong now.
WAITING: Final = (37, 38, 44, 63, 66, 67, 92, 93, 106, 107, 121, 141, 152, 153, 157, 160, 161, 162, 163, 164)
#: Errors of NVLink 5, which say themselves whether they are fatal.
NVLINK5: Final = (144, 145, 146, 147, 148, 149, 150, 155)


def weight(xid: int | None, word: str | None, *, switch: bool = False) -> Literal["error", "warning", "info"]:
    """``error`` where hardware needs service, ``warning`` where a program is at fault, ``info``: nothing is wrong now.

    ``word`` is what the line says of itself: ``non-fatal``, ``hard`` (a recovery is needed) or None. ``switch``: an
    SXid of an NVSwitch.
    """
    if switch:
        return "info" if word == "non-fatal" else "error"
    if xid in WAITING:
        return "info"
    if xid in BY_PROGRAM:
        return "warning"
    if xid == 154:
        return "error" if word == "hard" else "info"
    if xid in NVLINK5:
        return "info" if word == "non-fatal" else "error"
    return "error" if xid in MEANINGS else "warning"
