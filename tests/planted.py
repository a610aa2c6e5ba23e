"""Logs of an invented job of four hosts with four GPUs each, healthy or with chosen faults planted.

The wording follows three eras of NCCL. Nothing here is computed by the code under test: a test names what it
plants and what it expects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

HOSTS = ("ember-01", "ember-02", "ember-03", "ember-04")
PER_HOST = 4
RANKS = len(HOSTS) * PER_HOST
ERAS = ("2.19.4", "2.24.3", "2.28.9")
OPS = 64

SOCKET_HOST, NO_GDR_HOST, FEW_CHANNELS_HOST = 1, 2, 3
STOPPED_RANK, P2P_OFF_RANK, SHM_RANK, SLOW_RANK, REFUSED_RANK = 1, 2, 3, 6, 7
IB_OLD_RANK, IB_NEW_RANK, SHM_FULL_RANK, WATCHDOG_RANK = 9, 13, 14, 0

CONDITIONS = (
    "socket-host",
    "no-gdr-host",
    "p2p-off-rank",
    "shm-rank",
    "few-channels-host",
    "slow-init-rank",
    "stops-after-op-50",
    "ib-old",
    "ib-new",
    "refused",
    "shm-full",
    "watchdog",
)
_FATAL = {"stops-after-op-50", "ib-old", "ib-new", "refused", "shm-full", "watchdog"}
_COMM_ID = "0x5b1f0c77a2d94e36"
_BUS = ("7000", "f000", "47000", "4e000")


@dataclass(frozen=True)
class Rank:
    """A process of the job and the era it speaks."""

    number: int
    era: str

    @property
    def host_index(self) -> int:
        return self.number // PER_HOST

    @property
    def device(self) -> int:
        return self.number % PER_HOST

    @property
    def host(self) -> str:
        return HOSTS[self.host_index]

    @property
    def address(self) -> str:
        return f"10.44.0.{11 + self.host_index}"

    @property
    def pid(self) -> int:
        return 41200 + 17 * self.number

    @property
    def comm(self) -> str:
        return f"0x55d0c{self.number:02x}e1a40"

    def info(self, text: str, tid: int = 0) -> str:
        return f"{self.host}:{self.pid}:{self.pid + tid} [{self.device}] NCCL INFO {text}"

    def warn(self, site: str, text: str) -> Iterator[str]:
        stamp = "[2026-03-04 10:31:07] " if self.era >= "2.26" else ""
        yield ""
        yield f"{stamp}{self.host}:{self.pid}:{self.pid + 64} [{self.device}] {site} NCCL WARN {text}"


def log(era: str, plants: Collection[str] = ()) -> str:
    """The whole job in one file: phases in order, ranks one after another within a phase."""
    unknown = set(plants) - set(CONDITIONS)
    assert not unknown, unknown
    ranks = [Rank(number, era) for number in range(RANKS)]
    phases: list[Callable[[Rank, Collection[str]], Iterator[str]]] = [_start, _layout]
    phases += [_connections, _complete] if era < "2.23" else [_complete, _connections]
    lines = [line for phase in phases for rank in ranks for line in phase(rank, plants)]
    for op in range(OPS):
        lines += [line for rank in ranks for line in _operation(rank, op, plants)]
    lines += [line for rank in ranks for line in _end(rank, plants)]
    return "\n".join(lines) + "\n"


def _start(rank: Rank, plants: Collection[str]) -> Iterator[str]:
    old, version = rank.era < "2.22", f"NCCL version {rank.era}+cuda12.8"
    if rank.number == 0 or not old:
        yield version if old else rank.info(version)
    yield rank.info("cudaDriverVersion 12080")
    yield rank.info(f"Bootstrap{' ' if old else ''}: Using eth0:{rank.address}<0>")
    if "p2p-off-rank" in plants and rank.number == P2P_OFF_RANK:
        yield rank.info("NCCL_P2P_DISABLE set by environment to 1")
    yield rank.info(
        "NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin "
        "found (libnccl-net.so), using internal implementation"
        if old
        else "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin."
    )
    if _on_sockets(rank, plants):
        yield rank.info("NET/IB : No device found.")
        yield rank.info(f"NET/Socket : Using [0]eth0:{rank.address}<0>")
        yield rank.info("Using network Socket")
    else:
        yield rank.info(f"NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:{rank.address}<0>")
        yield rank.info("Using network IB")
    function = "" if old else "ncclCommInitRank "
    yield rank.info(f"{function}{_identity(rank)} commId {_COMM_ID} - Init START")


def _layout(rank: Rank, plants: Collection[str]) -> Iterator[str]:
    yield rank.info(f"Setting affinity for GPU {rank.device} to ffffffff")
    if rank.era >= "2.20":
        yield rank.info(
            f"comm {rank.comm} rank {rank.number} nRanks {RANKS} nNodes {len(HOSTS)} localRanks {PER_HOST} "
            f"localRank {rank.device} MNNVL 0"
        )
    channels = range(_channels(rank, plants))
    if rank.number == 0:
        order = "".join(f"{number:>4}" for number in range(RANKS))
        yield from (rank.info(f"Channel {c:02}/{len(channels):02} :{order}") for c in channels)
    below = rank.number + 1 if rank.number + 1 < RANKS else -1
    trees = " ".join(f"[{c}] {below}/-1/-1->{rank.number}->{rank.number - 1}" for c in channels)
    yield rank.info(f"Trees {trees}")
    yield rank.info("P2P Chunksize set to 131072")


def _connections(rank: Rank, plants: Collection[str]) -> Iterator[str]:
    before, after = (rank.number - 1) % RANKS, (rank.number + 1) % RANKS
    for channel in range(_channels(rank, plants)):
        if rank.device == 0:
            via = _net(rank, channel, plants)
            pair = f"{before}[{before % PER_HOST}] -> {rank.number}[{rank.device}]"
            yield rank.info(f"Channel {channel:02}/0 : {pair} [receive] via {via}", tid=9)
        pair = f"{rank.number}[{rank.device}] -> {after}[{after % PER_HOST}]"
        if rank.device == PER_HOST - 1:
            yield rank.info(f"Channel {channel:02}/0 : {pair} [send] via {_net(rank, channel, plants)}", tid=9)
        elif _by_memory(rank, plants):
            yield rank.info(f"Channel {channel:02} : {pair} via SHM/direct/direct", tid=9)
        else:
            how = "P2P/IPC/read" if rank.era < "2.20" else "P2P/CUMEM"
            yield rank.info(f"Channel {channel:02}/0 : {pair} via {how}", tid=9)
        # A ring that turns back inside the host, so that every rank has a neighbour by P2P.
        if rank.device == PER_HOST - 1:
            pair = f"{rank.number}[{rank.device}] -> {before}[{before % PER_HOST}]"
            if _by_memory(rank, plants):
                yield rank.info(f"Channel {channel:02} : {pair} via SHM/direct/direct", tid=9)
            else:
                how = "P2P/IPC/read" if rank.era < "2.20" else "P2P/CUMEM"
                yield rank.info(f"Channel {channel:02}/0 : {pair} via {how}", tid=9)
    yield rank.info("Connected all rings" + (", use ring PXN 0 GDR 1" if rank.era >= "2.22" else ""), tid=9)
    yield rank.info("Connected all trees", tid=9)


def _complete(rank: Rank, plants: Collection[str]) -> Iterator[str]:
    coll = _channels(rank, plants)
    collnet = "0 collnet channels, " if rank.era >= "2.20" else ""
    yield rank.info("threadThresholds 8/8/64 | 128/8/64 | 512 | 512")
    yield rank.info(f"{coll} coll channels, {collnet}0 nvls channels, {coll} p2p channels, 1 p2p channels per peer")
    function = "" if rank.era < "2.22" else "ncclCommInitRank "
    yield rank.info(f"{function}{_identity(rank)} commId {_COMM_ID} - Init COMPLETE")
    if rank.era >= "2.22":
        slow = "slow-init-rank" in plants and rank.number == SLOW_RANK
        total, kernels = ("94.63", "92.41") if slow else ("2.31", "0.09")
        yield rank.info(
            f"Init timings - ncclCommInitRank: rank {rank.number} nranks {RANKS} total {total} (kernels {kernels}, "
            "alloc 0.21, bootstrap 0.48, allgathers 0.12, topo 0.88, graphs 0.19, connections 0.31, rest 0.03)"
        )


def _operation(rank: Rank, op: int, plants: Collection[str]) -> Iterator[str]:
    if "stops-after-op-50" in plants and rank.number == STOPPED_RANK and op >= 50:
        return
    yield rank.info(
        f"AllReduce: opCount {op:x} sendbuff 0x7f1a40000000 recvbuff 0x7f1a80000000 count 8388608 datatype 7 op 0 "
        f"root 0 comm {rank.comm} [nranks={RANKS}] stream 0x55d0c2b7f310"
    )


def _end(rank: Rank, plants: Collection[str]) -> Iterator[str]:
    peer = Rank((rank.number + PER_HOST) % RANKS, rank.era)
    if "ib-old" in plants and rank.number == IB_OLD_RANK:
        yield from rank.warn(
            "transport/net_ib.cc:1333",
            f"NET/IB : Got completion from peer {peer.address}<53121> with error 12, opcode 0, len 0, vendor err 129 "
            "(Send)",
        )
    if "ib-new" in plants and rank.number == IB_NEW_RANK:
        how = (
            "status=transport retry counter exceeded(12) opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 req_type=Send"
            if rank.era >= "2.28"
            else "status=12 opcode=0 len=0 vendor err 129 (Send)"
        )
        hca = " hca mlx5_0" if rank.era >= "2.22" else ""
        yield from rank.warn(
            "transport/net_ib.cc:2244",
            f"NET/IB{' ' if rank.era < '2.22' else ''}: Got completion from peer {peer.address}<38806> with {how} "
            f"localGid fe80::a288:c2ff:fe14:{rank.number:x} remoteGidsfe80::a288:c2ff:fe14:{peer.number:x}{hca}",
        )
    if "refused" in plants and rank.number == REFUSED_RANK:
        target = f"{Rank(0, rank.era).address}<40963>"
        text = (
            f"connect to {target} returned Connection refused, exceeded error retry count after 35 attempts"
            if rank.era >= "2.26"
            else f"Connect to {target} failed : Connection refused"
        )
        yield from rank.warn("misc/socket.cc:484", f"socketStartConnect: {text}")
    if "shm-full" in plants and rank.number == SHM_FULL_RANK:
        errno = ", error: No space left on device (28)" if rank.era >= "2.22" else ""
        yield from rank.warn(
            "misc/shmutils.cc:87", f"Error: failed to extend /dev/shm/nccl-Xk2f9Q to 9637892 bytes{errno}"
        )
        yield from rank.warn(
            "misc/shmutils.cc:131",
            f"Error while creating shared memory segment /dev/shm/nccl-Xk2f9Q (size 9637888){errno}",
        )
    if "watchdog" in plants and rank.number == WATCHDOG_RANK:
        yield (
            "[rank0]:[E304 10:41:09.118402133 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation "
            "timeout: WorkNCCL(SeqNum=51, OpType=ALLREDUCE, NumelIn=8388608, NumelOut=8388608, Timeout(ms)=600000) "
            "ran for 600029 milliseconds before timing out."
        )
    if not _FATAL & set(plants):
        yield rank.info(
            f"comm {rank.comm} rank {rank.number} nranks {RANKS} cudaDev {rank.device} busId {_BUS[rank.device]} - "
            "Destroy COMPLETE"
        )


def _identity(rank: Rank) -> str:
    return (
        f"comm {rank.comm} rank {rank.number} nranks {RANKS} cudaDev {rank.device} nvmlDev {rank.device} "
        f"busId {_BUS[rank.device]}"
    )


def _on_sockets(rank: Rank, plants: Collection[str]) -> bool:
    return "socket-host" in plants and rank.host_index == SOCKET_HOST


def _by_memory(rank: Rank, plants: Collection[str]) -> bool:
    return ("shm-rank" in plants and rank.number == SHM_RANK) or (
        "p2p-off-rank" in plants and rank.number == P2P_OFF_RANK
    )


def _channels(rank: Rank, plants: Collection[str]) -> int:
    return 2 if "few-channels-host" in plants and rank.host_index == FEW_CHANNELS_HOST else 4


def _net(rank: Rank, channel: int, plants: Collection[str]) -> str:
    if _on_sockets(rank, plants):
        return "NET/Socket/0"
    gdr = "" if "no-gdr-host" in plants and rank.host_index == NO_GDR_HOST else "/GDRDMA"
    return f"NET/IB/{channel % 2}{gdr}"
