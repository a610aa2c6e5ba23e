"""Interfaces and addresses that no other host can reach: loopback, bridges, tunnels, and what containers make."""

import re
from typing import Final

VIRTUAL: Final = (
    r"^(?:lo[0-9]*|docker[0-9]+|br-[0-9a-z]+|veth[0-9a-z]*|virbr[0-9]+|vnet[0-9]+|cni[0-9]+|flannel.*"
    r"|podman[0-9]+|lxcbr[0-9]+|tun[0-9]+|CloudflareWARP|ip6tnl[0-9]+|tunl[0-9]+|sit[0-9]+|gre[0-9]+|gretap[0-9]+"
    r"|cali[0-9a-f]+|cilium_.*|nodelocaldns|kube-ipvs[0-9]+|dummy[0-9]+)$"
)
"""Full names, for polars and re."""
INTERFACE: Final = r"(?:lo|docker[0-9]+|(?:eth|bond|wlan|wlp|eno|ens|enp|enP)[0-9a-zA-Z]*)(?::[0-9]+)?"
RDMA_DEVICE: Final = r"(?:mlx[45]|bnxt_re|irdma|i40iw|hfi1|qedr|hns|efa|erdma|ionic|roce[pP]|rdmap)_?[0-9a-z_]*"
"""How interfaces are called, and RDMA devices; names that may be both (``ib0``) are neither."""
_BEGINNING: Final = re.compile(
    r"lo[0-9]*|docker|br-|veth|virbr|vnet|cni|flannel|podman|lxc|lxcbr|tun|tunl|ip6tnl|sit|gre|gretap|cali|cilium|"
    r"nodelocaldns|kube-ipvs|dummy"
)
_LOOPBACK: Final = re.compile(r"(?:(?:ip6-)?(?:localhost|loopback)\d?|127(?:\.\d+){3}|\[?::1\]?)(?::\d+)?")


def is_loopback(address: str) -> bool:
    """Whether a name or address, with a port or without, is that of whichever host reads it."""
    return _LOOPBACK.fullmatch(address) is not None


def is_virtual(asked: str) -> bool:
    """Whether a word of NCCL_SOCKET_IFNAME (a whole name, or how names begin) asks for such interfaces."""
    word = asked.strip()
    return bool(_BEGINNING.fullmatch(word) or re.fullmatch(VIRTUAL, word))
