"""What schedulers say of a job: kubectl (describe, get events, get pods, -o yaml), sacct, scontrol, squeue, sinfo."""

import re
from bisect import bisect_right
from typing import Final

from nccl_insight.readers.host_tools import shapes, vocabulary
from nccl_insight.readers.host_tools.model import Found, Output, count, listed, slug


def _describe(out: Output, found: Found) -> str:
    """A pod or node: its state, that of its containers, its events."""
    pod, says = "", []
    for item in shapes.tree(out.lines):
        above = "/".join(item.above)
        if item.key == "Name" and not item.above:
            pod = item.value
        elif item.above == ("Containers",):
            found.fact(item.line, pod, "pod.container", item.key)
        elif "State" in item.key and item.value:
            found.fact(item.line, pod, f"pod.{slug(item.key)}", item.value)
            says += [f"{item.key} {item.value}"] if item.value == "Terminated" else []
        elif item.key in ("Reason", "Exit Code", "Signal", "Finished", "Message") and "State" in above:
            which = "last_state" if "Last State" in above else "state"
            read = found.fact(item.line, pod, f"pod.{which}.{slug(item.key)}", item.value)
            says += [f"{item.key} {item.value}"] if read and item.key in ("Reason", "Exit Code") else []
        elif item.key in vocabulary.table("pod") and item.value:
            found.fact(item.line, pod, vocabulary.table("pod")[item.key], item.value)
        elif item.value and (part := re.search(r"Limits|Requests|Capacity|Allocatable", above)):
            found.fact(item.line, pod, f"pod.{part[0].lower()}.{slug(item.key)}", item.value)
    for line, row in shapes.table(out.lines, r"Type\s+Reason\s+Age\s+From\s+Message"):
        _event(found, line, pod, row, says)
    for line, row in shapes.table(out.lines, r"Type\s+Status\s+LastHeartbeatTime"):
        found.fact(line, pod, f"node.condition.{slug(row.get('Type', ''))}", row.get("Status", ""))
    return "; ".join([pod, *dict.fromkeys(says)][:8])


def _event(found: Found, line: int, object_: str, row: dict[str, str], says: list[str]) -> None:
    kind, reason = row.get("Type") or row.get("TYPE") or "", row.get("Reason") or row.get("REASON") or ""
    message = row.get("Message") or row.get("MESSAGE") or ""
    if set(reason) <= {"-"}:
        return
    found.fact(line, object_, f"event.{slug(kind)}.{slug(reason)}", message or reason)
    if kind == "Warning":
        says.append(f"{object_} {reason}: {message[:80]}")


def _events(out: Output, found: Found) -> str:
    says: list[str] = []
    rows = 0
    for line, row in shapes.table(out.lines, r"(?:NAMESPACE\s+)?LAST SEEN\s+TYPE\s+REASON"):
        rows += 1
        object_ = row.get("OBJECT", "")
        _event(found, line, object_.split("/", 1)[-1], row, says)
    return "; ".join([count(rows, "event"), *says[:4]])


def _pods(out: Output, found: Found) -> str:
    states: dict[str, list[str]] = {}
    for line, row in shapes.table(out.lines, r"(?:NAMESPACE\s+)?NAME\s+(?:READY\s+)?STATUS\s+"):
        name, state = row.get("NAME", ""), row.get("STATUS", "")
        found.fact(line, name, "pod.status" if "READY" in row else "node.status", state)
        found.fact(line, name, "pod.restarts", row.get("RESTARTS", ""))
        found.fact(line, name, "pod.node", row.get("NODE", ""))
        states.setdefault(state, []).append(name)
    return "; ".join(
        f"{count(len(names), 'object')} {state} ({listed(names, 3)})" for state, names in sorted(states.items())
    )


_OF_PODS: Final = {"nodeName": "pod.node", "phase": "pod.status", "restartCount": "pod.restarts"}


def _yaml(out: Output, found: Found) -> str:
    """``kubectl get -o yaml`` of pods: what the status says; only lines, so a cut file is read to its cut."""
    pod, says = "", []
    begun = [n for n, t in out.lines if t.lstrip().startswith(("- ", "{"))]
    for item in shapes.tree([(n, _unquoted(t)) for n, t in out.lines]):
        above = "/".join(item.above)
        value = item.value.strip("\"'")
        if item.key == "name" and re.search(r"(?:^|/)metadata$", above):
            pod = value
        elif item.key == "name" and re.search(r"(?:^|/)(?:containers|containerStatuses)$", above):
            # An earlier state of the container stands in front of its name.
            found.fact(begun[bisect_right(begun, item.line) - 1] if begun else item.line, pod, "pod.container", value)
        elif item.key.endswith(".com/gpu") and above.endswith("/limits"):
            found.fact(item.line, pod, f"pod.limits.{slug(item.key)}", value)
        elif name := _OF_PODS.get(item.key):
            found.fact(item.line, pod, name, value)
            says += [f"{pod} {value}"] if item.key == "phase" else []
        elif item.key in ("reason", "exitCode", "signal", "message") and re.search(
            r"[sS]tate|terminated|waiting|status", above
        ):
            which = "last_state" if "lastState" in above else "state" if "tate" in above else "status"
            key = {"exitCode": "exit_code"}.get(item.key, item.key)
            found.fact(item.line, pod, f"pod.{which}.{key}", value)
            says += [f"{item.key} {value}"] if item.key in ("reason", "exitCode") else []
    return "; ".join(dict.fromkeys(says)) or count(len(out.lines), "line")


def _unquoted(text: str) -> str:
    """A line of JSON or YAML as the key and value it is, without quotes and marks of lists."""
    return re.sub(r"^(\s*)- ", r"\1  ", re.sub(r'^(\s*)"([\w.-]+)": ?', r"\1\2: ", text)).rstrip(",{[ ")


def _sacct(out: Output, found: Found) -> str:
    says = []
    for line, row in shapes.table(out.lines, r"JobID(?:Raw)?[\s|]"):
        row = {slug(k): v for k, v in row.items()}
        job = row.get("jobid") or row.get("jobidraw") or ""
        if not re.match(r"[0-9]", job):
            continue
        for key in vocabulary.words("sacct"):
            if row.get(key):
                found.fact(line, f"job {job}", f"job.{key}", row[key])
        says.append(f"{job} {row.get('state', '')} {row.get('exitcode', '')}".strip())
    return listed(says, 4)


def _scontrol(out: Output, found: Found) -> str:
    job, says = "", []
    for line, text in out.lines:
        for key, value in re.findall(r"([A-Za-z][A-Za-z/:]*)=(\S*(?: (?![A-Za-z][A-Za-z/:]*=)\S+)*)", text):
            if key in ("JobId", "NodeName"):
                job = f"job {value}" if key == "JobId" else value
            prefix = "job" if job.startswith("job ") else "node"
            if key in vocabulary.words("scontrol"):
                name = slug(key).replace("jobstate", "state")
                read = value and found.fact(line, job, f"{prefix}.{name}", value)
                told = key in ("JobState", "Reason", "ExitCode", "State", "NodeList")
                says += [f"{key} {value}"] if read and told else []
    return "; ".join([job, *says[:5]])


def _queue(out: Output, found: Found) -> str:
    says = []
    for line, row in shapes.table(out.lines, r"(?:JOBID|PARTITION|NODELIST|HOSTNAMES|REASON)\s"):
        row = {slug(k): v for k, v in row.items()}
        who = row.get("jobid") or row.get("nodelist") or row.get("hostnames") or ""
        device = f"job {who}" if "jobid" in row else who
        state = row.get("st") or row.get("state") or ""
        found.fact(line, device, "job.state" if "jobid" in row else "node.state", state)
        for key in ("reason", "nodelist_reason", "nodelist(reason)"):
            if row.get(key):
                found.fact(line, device, "job.reason" if "jobid" in row else "node.reason", row[key])
        says.append(" ".join(filter(None, (who, state, row.get("reason")))))
    return listed(says, 5)
