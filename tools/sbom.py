"""Writes the bill of materials of an installation as CycloneDX 1.5 JSON: the tool and what it needs, with licenses.

    python tools/sbom.py > nccl-insight.cdx.json

Run it with the Python that the tool is installed in; only what is really there is listed.
"""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from typing import Any

ROOT = "nccl-insight"
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
#: Classifiers and free texts of licenses -> SPDX identifiers.
_SPDX = {
    "mit": "MIT", "mit license": "MIT", "bsd-3-clause": "BSD-3-Clause", "bsd license": "BSD-3-Clause",
    "bsd 3-clause license": "BSD-3-Clause", "apache-2.0": "Apache-2.0", "apache software license": "Apache-2.0",
    "apache 2.0": "Apache-2.0", "isc license": "ISC", "isc license (iscl)": "ISC", "psf-2.0": "PSF-2.0",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0", "mpl-2.0": "MPL-2.0", "bsd-2-clause": "BSD-2-Clause",
}  # fmt: skip


def normal(name: str) -> str:
    """A project's name as it is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needs(name: str) -> list[str]:
    """Installed projects that one needs by itself, without those of its extras."""
    found = set()
    for text in metadata.requires(name) or ():
        match = _NAME.match(text)
        if match is None or re.search(r";.*\bextra\b", text):
            continue
        try:
            metadata.version(match[1])
        except metadata.PackageNotFoundError:
            continue  # for another platform or Python
        found.add(normal(match[1]))
    return sorted(found)


def license_of(name: str) -> str:
    """The SPDX expression of a project; ``NOASSERTION`` where its metadata say nothing known."""
    found = metadata.metadata(name)
    expression = found.get("License-Expression")
    if expression:
        return expression
    classified = [c.rsplit(" :: ", 1)[-1] for c in found.get_all("Classifier") or () if c.startswith("License ::")]
    for text in (*classified, (found.get("License") or "").splitlines()[0] if found.get("License") else ""):
        if text.lower() in _SPDX:
            return _SPDX[text.lower()]
    return "NOASSERTION"


def document(root: str = ROOT) -> dict[str, Any]:
    """The bill of materials of an installed project."""
    order, queue = [], [normal(root)]
    while queue:
        name = queue.pop(0)
        if name not in order:
            order.append(name)
            queue += needs(name)

    def component(name: str) -> dict[str, Any]:
        version = metadata.version(name)
        spdx = license_of(name)
        kind = {"expression": spdx} if re.search(r"\b(AND|OR|WITH)\b", spdx) else {"license": {"id": spdx}}
        return {
            "type": "application" if name == normal(root) else "library", "name": name, "version": version,
            "bom-ref": f"{name}@{version}", "purl": f"pkg:pypi/{name}@{version}",
            **({"licenses": [kind]} if spdx != "NOASSERTION" else {}),
        }  # fmt: skip

    made = {name: component(name) for name in order}
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": made[order[0]]},
        "components": [made[name] for name in sorted(order[1:])],
        "dependencies": [
            {"ref": made[name]["bom-ref"], "dependsOn": [made[n]["bom-ref"] for n in needs(name)]}
            for name in sorted(order)
        ],
    }  # fmt: skip


if __name__ == "__main__":
    sys.stdout.write(json.dumps(document(), indent=2) + "\n")
