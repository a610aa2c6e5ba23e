"""Source trees of a NCCL that prints and reads what a test says."""

from __future__ import annotations

from pathlib import Path

SOURCE = r"""
// WARN("in a comment %d", 1);
#define HINT " see \"here\""
#define CHECKED(x) do { \
    if (x) { WARN("Checked %d" HINT, x); } \
  } while (0)
NCCL_PARAM(NewThing, "BRAND_NEW_THING", 3);
NCCL_PARAM(IbTimeout, "IB_TIMEOUT", 20);
ncclResult_t ncclNewFunction(struct ncclComm* comm) {
  const char* env = ncclGetEnv("NCCL_NEW_FROM_ENV");
  INFO(NCCL_INIT, "Channel %02d/%02d : %d[%d] -> %d[%d] via P2P/%s%s", a, b, c, d, e, f, "IPC", "/read");
  INFO(NCCL_INIT, "Fresh value 0x%" PRIx64 " of "
       "%s, share %g%%", hash, name, x);
  WARN("Fresh trouble at %s:%d (%s)", __FILE__, __LINE__, f(a, "b,c"));
  TRACE(NCCL_INIT, "traces are left out %d", 1);
  INFO(NCCL_INIT, comm ? "Either fresh" : "Or fresh too %d", 1);
  WARN(message, 1);
  return ncclSuccess;
}
"""


def tree_at(path: Path, text: str = SOURCE) -> Path:
    (path / "src").mkdir()
    (path / "src" / "fresh.cc").write_text(text, encoding="utf-8")
    (path / "src" / "windows.cc").write_text('void f() { WARN("Windows only"); }', encoding="utf-8")
    (path / "makefiles").mkdir()
    (path / "makefiles" / "version.mk").write_text("NCCL_MAJOR := 2\nNCCL_MINOR := 40\nNCCL_PATCH := 1\n")
    return path
