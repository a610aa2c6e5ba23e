"""The topology that NCCL writes with NCCL_TOPO_DUMP_FILE (or reads with NCCL_TOPO_FILE)."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from nccl_insight.readers import graph_xml, topo_xml
from tests.readers.side_files import tables, write

# --- topology ------------------------------------------------------------------------------------------------

TOPO = """\
<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" host_hash="0x12">
    <pci busid="0000:4b:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:4e:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="5" gdr="1">
          <nvlink target="0000:c4:00.0" count="9" tclass="0x068000"/>
          <nvlink target="0000:c5:00.0" count="9" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:4f:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>
"""


def test_topology_xml(tmp_path: Path) -> None:
    assert topo_xml.FORMAT.sniff(TOPO.encode(), "t.xml") > 0.5
    assert graph_xml.FORMAT.sniff(TOPO.encode(), "t.xml") == 0
    found = tables(topo_xml.FORMAT, write(tmp_path, "t.xml", TOPO))
    nodes, links = found["topology_nodes"], found["topology_links"]
    gpu = nodes.filter(pl.col("kind") == "GPU").row(0, named=True)
    assert (gpu["node"], gpu["rank"], gpu["numa"], gpu["sm"]) == ("GPU/0-4e000", 5, 0, 90)
    assert nodes.filter(pl.col("kind") == "NET").select("device", "speed_gbit", "gdr").rows() == [("mlx5_0", 400, True)]
    nvlink = links.filter(pl.col("link") == "NVL").row(0, named=True)
    assert (nvlink["dst"], nvlink["count"]) == ("NVS/0", 18)
    assert nvlink["bw_gbps"] == pytest.approx(18 * 20.6)
    assert links.filter(pl.col("link") == "NET")["bw_gbps"].to_list() == [50.0]
    assert links.filter(pl.col("dst") == "PCI/0-4b000")["bw_gbps"].to_list() == [48.0]


@pytest.mark.parametrize(
    "attack",
    [
        '<!DOCTYPE system [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><system><cpu numaid="&b;"/></system>',
        '<!DOCTYPE system SYSTEM "file:///etc/passwd"><system version="1"><cpu numaid="0"/></system>',
        '<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]><system><cpu numaid="0">&x;</cpu></system>',
    ],
)
def test_document_types_and_entities_are_refused(tmp_path: Path, attack: str) -> None:
    found = tables(topo_xml.FORMAT, write(tmp_path, "t.xml", attack))
    assert set(found) == {"notes"}
    assert "not read" in found["notes"]["detail"][0]
    assert "root:" not in found["notes"]["detail"][0]


def test_deep_xml_is_read_to_the_limit(tmp_path: Path) -> None:
    found = tables(topo_xml.FORMAT, write(tmp_path, "t.xml", "<system>" + "<pci>" * 100_000))
    assert found["notes"]["kind"].to_list() == ["trace-truncated"]
    assert "xml-depth" in found["notes"]["detail"][0]


def test_cut_xml_keeps_what_came_before(tmp_path: Path) -> None:
    found = tables(topo_xml.FORMAT, write(tmp_path, "t.xml", TOPO[: TOPO.index("<nic>")]))
    assert "GPU/0-4e000" in found["topology_nodes"]["node"].to_list()
    assert found["notes"]["kind"].to_list() == ["trace-truncated"]
