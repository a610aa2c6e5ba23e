"""Traffic between hosts goes through an interface that other hosts cannot reach."""

import polars as pl

from nccl_insight.advise.settings.interfaces import VIRTUAL
from nccl_insight.base.model import Confidence, Hit, Severity
from nccl_insight.facts.fabric.reach import spans_hosts
from nccl_insight.facts.setup.settings import hosts_of, refs, value_of
from nccl_insight.rules._errors import Trouble, trouble
from nccl_insight.rules._init import waiting
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.declared import frame
from nccl_insight.tables.run import Run

# Docker and libvirt (of later bridges of Docker the host's own end), loopback, and link-local.
_BRIDGE = r"^(172\.(1[78]\.|(19|2[0-9]|30)\.0\.1(<|$))|192\.168\.122\.|127\.|169\.254\.)[0-9.]*"
_LINK_LOCAL = "169.254."
# The USB interface of a BMC: by driver, by the address that systemd names it after, or by its maker.
_MANAGED = r"^(?:usb|enx|idrac|bmc|ilo)"


def check(ctx: Context) -> Hits:
    """The interface in use, then addresses of container bridges that cannot be reached."""
    run = ctx.run
    if spans_hosts(run) is False:
        return
    listed = _listed(run)
    wrong = pl.col("name").str.contains(VIRTUAL) | pl.col("address").fill_null("").str.starts_with(_LINK_LOCAL)
    # A container may call its only interface veth0; with a global IPv6 address it is reached all the same.
    wrong &= ~pl.col("address").fill_null("").str.contains(r"^[23][0-9a-fA-F]{3}:")
    virtual = listed.filter(wrong)
    several = spans_hosts(run) is True
    failed = trouble(run, *ctx.names("beside"))
    if failed is None and not waiting(run):
        # Two hosts that are cabled to each other may have no other addresses.
        virtual = virtual.filter(pl.col("name").str.contains(VIRTUAL) | pl.col("name").str.contains(_MANAGED))
    only = virtual.join(listed.filter(~wrong), on=["host", "pid", "of"], how="anti", nulls_equal=True).filter(
        pl.col("alone")
    )
    if only.height and (several or failed is not None):
        yield _hit(ctx, only, "the only interface that NCCL uses on a job over several hosts", Severity.ERROR, None)
    elif virtual.height and (failed is not None or (several and _used(run, virtual))):
        yield _hit(
            ctx, virtual, "listed as a network device beside a real one, and used", Severity.WARNING, Confidence.MEDIUM
        )
    elif only.height and spans_hosts(run) is None and (_asked(run) or (only["name"] != "lo").any()):
        yield _hit(ctx, only, "the only interface listed here", Severity.INFO, Confidence.LOW)
    elif virtual.height and (several or (spans_hosts(run) is None and _sockets(run))):
        beside = " beside a real one" * (listed.height > virtual.height)
        yield _hit(ctx, virtual, f"listed as a network device{beside}", Severity.INFO, Confidence.LOW)
    elif failed is not None:
        yield from _to_bridge(ctx, failed, listed)


def _listed(run: Run) -> pl.DataFrame:
    """Interfaces of bootstrap and sockets: host, pid, name, address, alone, of (the message), input_id, line.

    ``alone``: the line lists all interfaces that are used; a line about the speed of one does not.
    """
    columns = frame("host str, pid i64, name str, address str, alone bool, of str, input_id u16, line u64")
    # NCCL asks for the speed of the interfaces that it uses, and of no others.
    read = pl.col("device_path").str.extract(r"^/sys/class/net/([^/]+)/speed$")
    listed = run.table("interfaces").with_columns(
        name=pl.coalesce("interface", read), alone=pl.col("interface").is_not_null()
    )
    devices = run.table("net_devices").filter(pl.col("network").str.contains("(?i)socket"))
    # Up to 2.3 each interface has a line of its own; one message lists them all.
    parts = [
        frame.with_columns(of="message").select(pl.col(c).cast(t) for c, t in columns.items())
        for frame in (listed, devices.with_columns(alone=pl.lit(True)))
    ]
    return pl.concat(parts).filter(pl.col("name").is_not_null())


def _asked(run: Run) -> bool:
    """Whether the user named loopback."""
    names = (value_of(run, "NCCL_SOCKET_IFNAME") or "").lstrip("=").split(",")
    return any(name.startswith("lo") for name in names)


def _sockets(run: Run) -> bool:
    """Whether NCCL's traffic may go over sockets, as far as the log tells."""
    chosen = run.table("processes")["network"].drop_nulls()
    return not len(chosen) or bool(chosen.str.contains("(?i)socket").any())


def _used(run: Run, virtual: pl.DataFrame) -> bool:
    """Whether a socket connection uses the device number of a virtual interface."""
    devices = run.table("net_devices").filter(pl.col("network").str.contains("(?i)socket"))
    numbers = devices.join(virtual.select("host", "name").unique(), on=["host", "name"], how="semi", nulls_equal=True)[
        "index"
    ].drop_nulls()
    links = run.table("connections").filter(pl.col("network").str.contains("(?i)socket").fill_null(False))
    return bool(links["net_dev"].is_in(numbers.unique().to_list()).any())


def _hit(ctx: Context, rows: pl.DataFrame, role: str, severity: Severity, confidence: Confidence | None) -> Hit:
    names = rows["name"].unique(maintain_order=True).to_list()
    return ctx.says(
        "found",
        refs(rows),
        whom=hosts_of(rows),
        observed=f"{names[0]} {rows['address'][0] or ''}".strip(),
        severity=severity,
        confidence=confidence,
        first_names=", ".join(names[:3]),
        role=role,
    )


def _behind(run: Run, reporters: tuple[str, ...]) -> tuple[str, ...]:
    """The host that gave out the address: the only one that does not complain, else those that do."""
    every = set(run.table("processes")["host"].drop_nulls())
    others = sorted(every - set(reporters))
    return tuple(others) if len(others) == 1 else reporters


def _to_bridge(ctx: Context, failed: Trouble, listed: pl.DataFrame) -> Hits:
    """The lines whose peer has the address of a bridge, unless NCCL uses that interface itself."""
    rows = failed.rows.filter(pl.col("peer").cast(pl.String).str.contains(_BRIDGE).fill_null(False))
    if rows.is_empty():
        return
    bridge, address = Trouble(rows), str(rows["peer"][0]).partition("<")[0]
    if listed["address"].fill_null("").str.starts_with(f"{address}<").any():
        return
    kind = "a link-local" if address.startswith(_LINK_LOCAL) else "a container bridge's or loopback"
    behind = _behind(ctx.run, bridge.hosts)
    yield ctx.says(
        "found-each-host",
        bridge.evidence,
        whom=(*(bridge.ranks if behind == bridge.hosts else ()), *behind),
        title=bridge.titled(f"NCCL tries to reach a peer at {address}, {kind} address"),
        observed=bridge.text,
    )
