"""What programs beside NCCL say around a name: a host after words of place, a user after ``by`` and ``for user``.

Names are learned here from lines of schedulers, launchers, daemons, fabrics, file systems and version control, and
then replaced wherever they stand. Behind a plain word of place (``on``, ``from``, ``to``) only a word that looks like
a host counts: letters and a number, where the letters are no part of a machine, a program or a training.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from nccl_insight.share.redact.patterns import PUBLIC_OWNERS
from nccl_insight.share.redact.shapes import as_series

# Letters before a number that name a part of a machine, a format, a program or a step, and no host.
_PARTS: Final = (
    "gpus?|cpus?|nodes?|hosts?|ranks?|local[_-]?ranks?|cudadev|nvmldev|workers?|devices?|dev|stages?|layers?|steps?"
    "|global[_-]?step|iter(?:ation)?s?|epochs?|lines?|procs?|process|threads?|channels?|ch|eth|ens|enp|eno|enx|ib|ibp"
    "|ibs|mlx|mlan|hsn|hca|hfi|opa|roce|rocep|rdma|rdmap|irdma|bnxt|bnxt[_-]re|qib|efa|bond|team|vlan|br|veth|virbr"
    "|docker|tun|tap|lo|lan|wlan|wlp|nvme|sd|sda|loop|dm|md|nic|nics|net|rails?|pci|pcie|numa|sockets?|cores?|lanes?"
    "|links?|nvlink|nvl|nvswitch|nvls|nvs|switch|swi|ports?|qps?|cqs?|mr|streams?|comms?|trees?|rings?|graphs?|cards?"
    "|slots?|bus|busid|dbdf|usb|tty|pts|cgroups?|tid|pid|uid|gid|batch(?:es)?|micro[_-]?batch|mb|gb|kb|tb|gh|shards?"
    "|parts?|partition|splits?|folds?|runs?|attempts?|rounds?|try|tries|cases?|tests?|tp|pp|dp|cp|ep|sp|vp|fsdp|ddp"
    "|zero|groups?|pgs?|versions?|ver|rev|release|sha|md|utf|base|crc|aes|rsa|ed|ecdsa|fp|bf|tf|int|uint|float|double"
    "|half|nf|mxfp|cu|cuda|cudnn|cublas|sm|gfx|mi|rtx|gtx|xe|epyc|xeon|amd|intel|arm|aarch|power|python|py|cpython|pip"
    "|torch|pytorch|triton|numpy|jax|tensorflow|nccl|rccl|ucx|ucc|ofi|libfabric|openmpi|mpi|ompi|prrte|pmix|hpcx|mofed"
    "|ofed|rocm|hip|gcc|glibc|clang|llvm|cmake|bash|ubuntu|debian|rhel|centos|rocky|alma|suse|sles|linux|kernel|windows"
    "|win|http|https|ipv|ip|tcp|udp|ssh|tls|ssl|nfs|smb|ext|xfs|zfs|cgroup|systemd|log|level|phase|chunk|block|bucket"
    "|expert|head|tokens?|seed|err|errno|error|code|status|exit|signal|sig|index|idx|id|no|num|nr|count|size|len|max|min"
    "|top|bottom|row|col|column|page|section|chapter|figure|fig|table|appendix|item|point|question|issue|bug|pr|commit"
    "|ckpt|checkpoint|model|config|conf|exp|experiment|trial|replica|pod|container|task|job|session|user|client|server"
    "|master|slave|proxy|agent|actor|trainer|learner|envs?|gpt|llama|qwen|bert|mixtral|mistral|gemma|deepseek|phi|falcon"
    "|opt|bloom|palm|vit|resnet|yolo|whisper|xid|sxid|year|month|week|day|hour|minute|second|ms|us|ns|hz|mhz|ghz|gbps"
    "|mbps|gt|gen|dgx[abh]?|hgx[abh]?|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|utc|gmt|cet|pst|zone|az|region"
    "|us-east|us-west|eu-west|eu-central|ap-south|ap-northeast|ap-southeast|ascii|latin|iso|ieee|rfc|pep|cve|adam|adamw"
    "|ll|p2p|pxb|pix|phb|sys|nv|pat|nvlstree|collnet|lr|beta|alpha|gamma|sdpa|flash|fa|te|xla|hlo|op|fn|func|arg|argn|var|tmp"
)
_HOST: Final = r"[A-Za-z][\w.-]{0,252}"
_NAME: Final = r"[A-Za-z_][\w.-]{0,63}"
# A word that looks like a host: two letters or more and a number in its first label, and no hexadecimal number.
_LIKE_HOST: Final = (
    rf"(?!(?i:{_PARTS})[_.-]?[0-9])(?![0-9a-fA-F]{{4,64}}(?![\w-]))(?=[A-Za-z-]{{2,60}}[0-9])"
    r"[A-Za-z][A-Za-z0-9-]{1,62}(?:\.[A-Za-z][A-Za-z0-9-]{0,62}){0,6}(?![\w-]|\.[A-Za-z0-9]|[/=(\[@])"
)
# Before the port of tcpdump: name.40022.
_LIKE_HOST_PORT: Final = r"[A-Za-z][\w-]{0,200}?(?:\.[A-Za-z][\w-]{0,62}){0,6}"
_ALONE: Final = re.compile(_LIKE_HOST)
_DASHED: Final = r"[a-z][a-z0-9]{0,30}(?:-[a-z0-9]{1,30}){1,6}"
_LISTED: Final = r"[A-Za-z][\w.,:+/*\[\]-]{0,2000}"
_TOOLS: Final = (
    "ib_(?:write|read|send|atomic)_(?:bw|lat)|iperf3?|ping6?|ssh|scp|rsync|nc|telnet|nslookup|dig|traceroute|tracepath"
    "|mtr|qperf|pdsh|clush|ibtracert|ucx_perftest|fi_pingpong"
)
_DID: Final = (
    "submitted|created|started|owned|requested|launched|drained|cancell?ed|reserved|authored|committed|triggered|run"
    "|scheduled|approved|reported|rebooted|killed|stopped|uploaded|pushed|shared|written|opened|logged|trained"
)
_PLACE_WORDS: Final = (
    "(?i:on|from|at|to|into|against|v?nodes?|checknode|agents?|clients?|backends?|instances?|switch|leaf|spine|hosts?|servers?|machines?|systems?|peer|hostname|drain(?:ed|ing)?"
    "|reboot(?:ed|ing)?|reach|lost|ping|node:)"
)

# What else stands behind "node", "host" and "machine".
_NO_NODES: Final = (
    r"(?!(?i:fail\w*|errors?|levels?|types?|names?|ids?|count|numbers?|memory|buffers?|pointers?|side|list|groups?"
    r"|restarts?|reboots?|boot|down|up|out|only|itself|code|interfaces?|networks?|address\w*|port|ports|local|remote"
    r"|ranks?|affinity|topology|pool|pools|cpus?|gpus?|device|devices|driver|kernel|state|status|health|problem"
    r"|issues?|allocation|ssh|key|keys|file|files|path|is|was|has|had|and|or|with|to|in|for|because|where|which|that"
    r"|when|if|not|cannot|unknown|none|null|localhost|agent|agents|selector|label|labels|exporter|configuration|config"
    r"|resource|resources|setup|launch|crash\w*|maintenance|replacement|drain\w*|usage|bandwidth|at|on)\b)"
)
# What a shell prints before a command: environment, user and host.
_PROMPT: Final = re.compile(
    rf"^[ \t]{{0,8}}(?:\(({_NAME})\)[ \t]?)?\[?({_NAME})@({_HOST}?)[: ][^\n\]#$]{{0,200}}\]?[#$%](?:[ \t]|$)"
)

_HOSTS: Final = re.compile(
    rf"(?:(?<=[\s(\[,;\"'])|^){_PLACE_WORDS}[ \t]{{1,4}}"
    rf"(?:(?i:the|hosts?|nodes?|machine|server|system|compute|worker)[ \t])?[\[(<\"']?({_LIKE_HOST})"
    rf"|\bPong from ({_HOST}?)(?=\.\(none\)|[ \t]\(Lid\b)|\(CapMask: 0x[0-9A-Fa-f]{{1,16}}\)[ \t]({_HOST})"
    rf"|\bport [0-9]{{1,3}} \(({_HOST})(?= )|\bErrors for (?:0x[0-9a-f]{{1,16}} )?\"({_HOST})"
    rf"|\bSysName:[ \t]{{1,20}}({_HOST})"
    rf"|\bConnection to ({_HOST})(?= (?:closed|timed|reset|refused|lost|was)\b| port [0-9])"
    rf"|\b(?i:connect(?:ing|ed)? to) host ({_HOST})|\bPING ({_HOST})(?= \()|\bbytes from ({_HOST})(?= \()"
    rf"|^From ({_HOST})(?= (?:\([0-9a-f.:]{{3,40}}\) )?icmp_seq)"
    rf"|\b(?i:address|addr|endpoint|head(?: node)?|rendezvous)[:=][ \t]?[\"']?({_HOST})(?=:[0-9]{{2,5}}(?![0-9]))"
    rf"|\b[Nn]ode[ _][Nn]ame:[ \t]{{1,4}}({_HOST})|\bNode(?:Addr|Host[Nn]ame|Name)=({_HOST})(?![\w.-]|\[)"
    rf"|\bpbsnodes: ({_HOST})|;pbs_\w{{3,10}};\w{{1,10}};[0-9]{{1,12}}(?:\[[0-9]{{0,9}}\])?\.({_HOST})"
    rf"|^({_HOST})(?=:/\S{{0,1000}} on /)|\bmounted from ({_HOST})|\bmgmtd:? ({_HOST})"
    rf"|\b(?:kubelet|default-scheduler|node-controller), ({_HOST})|\bassigned \S{{1,300}} to ({_HOST})"
    rf"|[ \t][a-z_][\w.-]{{0,63}}[ \t]{{1,8}}[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T[0-9:]{{8}}[ \t]{{1,8}}"
    rf"({_LIKE_HOST})[ \t]*$"
    rf"|\bhost <({_HOST})(?=>)|\b[Nn]ode [0-9.]{{7,15}} \(({_HOST})(?=\))|\bDGX System ({_HOST})(?= health)"
    rf"|^({_LIKE_HOST})(?= [\w.@-]{{1,64}}\[[0-9]{{1,8}}\]:)"
    rf"|\(({_LIKE_HOST})(?= (?:mlx|hfi|HCA|bnxt|irdma|efa)[\w-]{{1,20}}\))|\| ({_LIKE_HOST})(?= \|)"
    rf"|\bJob Id: [0-9]{{1,12}}\.({_HOST})"
    rf"|\bIP6? ({_LIKE_HOST_PORT})\.[\w-]{{1,16}} > |(?<= > )({_LIKE_HOST_PORT})\.[\w-]{{1,16}}: (?:Flags|UDP|ICMP)\b"
    rf"|\b[Hh]ost ({_DASHED})(?=[:,;)]|[ \t]*$|[ \t](?:failed|died|exited|is|was|has|did)\b)"
    rf"|\b(?i:on|from|to|of|for|node|by) (?i:node|host|machine) {_NO_NODES}({_HOST}?)(?=[:,;)\]]|\.?[ \t]*$)"
    rf"|\b(?i:node|host|machine|server) \\?[\"']({_HOST})(?=\\?[\"'])"
    rf"|\b[Nn]ode[Nn]ame=({_HOST})(?=\s)|\bservice not known: [\"']({_HOST})|\bcan't find ({_HOST})(?=: )"
    rf"|\b(?:{_TOOLS})\b[^\n]{{0,200}}?[ \t]({_LIKE_HOST})[ \t]*$|\b[Rr]unning on ({_DASHED})(?= with\b|[ \t]*$)"
)
# Lists of hosts behind options and names of fields, and a name or the beginning of several within one.
_LISTS: Final = re.compile(
    r"(?:(?<!\S)-[wxH] ?|(?<!\S)--(?:exclude|include|hosts?|nodelist|nodes)[= ]"
    r"|\bexec_v?host[ \t]{0,4}=[ \t]{0,4}|\bNodes? |node_regex[= ][\"']?|\b[Hh]osts? found: |\b[Nn]ode[Ll]ist[=: ]{1,2}"
    r"|[ \t](?:idle|alloc|mix|mixed|down|drain|drng|drained|draining|comp|maint|resv|fail|boot|unk|plnd|allocated)"
    rf"[*~#!%$@^-]{{0,2}}[ \t]{{1,20}})({_LISTED})"
)
_OF_LIST: Final = re.compile(
    r"(?<![\w.-])(?:([A-Za-z][\w.-]{0,200}?)-?\[(?:[0-9]:)?([0-9][0-9,-]{0,200})\]|([A-Za-z][A-Za-z-]{1,60}[0-9][\w.-]{0,190})"
    r"|([a-z][a-z-]{2,60})(?=[,@\"']|[ \t]*$|[ \t](?:not|are|is|state)\b))"
)
_NO_USERS: Final = (
    r"(?!(?i:the|an?|any|this|that|each|all|default|root|users?|buffers?|data|codes?|specified|provided|defined"
    r"|requests?|space|process(?:es)?|scripts?|streams?|programs?|functions?|levels?|mode|inputs?|kernels?|plugins?|tuner|memory"
    r"|config(?:uration)?|files?|ranks?|systemd?|slurm\w*|cron\w*|kubelet|kube\w*|docker\w*|containerd|torchrun|torch\w*"
    r"|mpi\w*|srun|sbatch|python\w*|deepspeed|accelerate|ray\w*|operator|scheduler|autoscaler|controller|nccl\w*|rccl\w*"
    r"|init|signals?|sig\w+|oom\w*|itself|others?|another|our|your|their|its|one|two|hand|name|id|uid|now|it|them|us|me"
    r"|you|hub|commit|git|pip|conda|cuda|gpu\w*|node\w*|host\w*|job\w*|step\w*|task\w*|admin\w*|operators?|watchdog"
    r"|monitor\w*|health\w*|automat\w*|agents?|workers?|master|main|launcher|framework|application|library|driver|daemon"
    r"|peers?|remote|hardware|firmware|software|proxy|network|switch\w*|nics?|hcas?|vendor|provider|platform|compiler"
    r"|versions?|v?bios|fabric\w*|nvlink|caller|parent|child|both|either|none|values?|bytes|lines|spaces|commas"
    r"|operations?|collectives?|calls?|events?|order|time|size|count|index|key|type|groups?|killer|supervisor|side"
    r"|service|server|client|thread|timeout|failure|error|exception|policy|design|request|setting|using)\b)"
)
_NO_BRANCHES: Final = (
    "(?!(?i:feature|feat|fix|bugfix|hotfix|releases?|dev|devel|develop|main|origin|users?|topic|tests?|docs|chore"
    "|refactor|experiments?|exp|wip)/)"
)
_USERS: Final = re.compile(
    rf"\bCRON\[[0-9]{{1,10}}\]: \(({_NAME})\)|\b[Ss]ession \S{{1,20}} of [Uu]ser ({_NAME}?)(?=[.,\s]|$)"
    rf"|\b(?i:for|of|from|as|by|authenticating|invalid)(?: invalid)? user[: ] ?[\"']?{_NO_USERS}({_NAME}?)"
    rf"(?=\.?[\"']?(?:[ \t]*$|[,;:()\"'\r]|[ \t](?:from|by|has|on|at|[0-9(])))"
    rf"|\b[Uu]ser ({_NAME})(?=\([0-9]{{2,10}}\))|\bby ({_NAME})(?=\(uid=)"
    rf"|\b(?:{_DID}) by (?:user )?{_NO_USERS}({_NAME}?)(?=[.,;:)]?(?:\s|$))"
    rf"|\bby {_NO_USERS}({_NAME}?)(?=\.?[\"']?[ \t]*$)"
    rf"|^({_NAME}) is not in the sudoers|\[({_NAME})@[0-9]{{4}}-|\buid [0-9]{{3,10}} \(({_NAME})\)"
    rf"|\bpull request \S{{1,12}} from ({_NAME})/|\bby @({_NAME})|, user ({_NAME})[ \t]*$"
    rf"|\bdenied to ({_NAME}?)(?=\.?\s*$)"
    rf"|\b(?:On )?branch:? {_NO_BRANCHES}({_NAME})(?=/)|^[ \t]{{1,8}}User ({_NAME})[ \t]*$"
    rf"|(?<!\S)--user[= ]({_NAME})|^({_NAME})[ \t]{{1,20}}(?:pts/[0-9]|tty[0-9S])"
)
_QUOTED: Final = (
    "secret|configmap|volume|pvc|persistentvolumeclaim|pods?|jobs?|context|container(?: name)?|bucket|deployment"
    "|statefulset|serviceaccount|namespace|claim|clusters?|experiments?|instances? of|(?:available|ready) for|entity"
    "|workflow|workspace|project|application|service|release|run|reservation|queue|partition|team|tenant|repository"
    "|remote|dataset|startcontainer. for|node ?pool|agent|alias|chart|rendezvous"
)
_KINDS_OF_K8S: Final = (
    "po|pods?|svc|services?|deploy(?:ments?)?|sts|statefulsets?|ds|daemonsets?|replicasets?|rs|jobs?|ns|namespaces?"
    "|pvc|cm|configmaps?|secrets?|[a-z]{2,12}jobs?|rayclusters?|podgroups?|workloads?|jobsets?|nodeclaims?|no|nodes?"
)
# Words that begin or end a compound word, which is no name then: run-time, multi-node, job re-queued.
_COMPOUND: Final = (
    "(?!(?:re|pre|multi|non|auto|self|co|sub|on|off|run|time|up|down|in|out|out-of|end|fail|warm|cold|single|cross"
    "|high|low|user|root|per|post|back|over|under|long|short|half|full|built|read|write|well|not|wide|level)-)"
)
_JOBS: Final = re.compile(
    rf"\bJob \S{{1,20}}: <({_NAME})>|\bcluster <({_NAME})>"
    rf"|\bkubectl\b[^\n]{{0,100}}?[ \t](?:-n|--namespace)[ =]({_NAME})"
    rf"|\bassigned (?:[\w.-]{{1,64}}/)?({_DASHED})(?= to )"
    rf"|\b(?i:{_QUOTED})(?: with)?(?: name)?[ \t]\\?[\"'`]/?({_NAME})\\?[\"'`]"
    rf"|\b(?i:experiment|cluster|project|workspace|training[- ]job|job|run|bucket"
    rf"|namespace)(?: with)? name:? ({_DASHED})"
    rf"|\b(?i:on|in|for|of|from|to) (?i:cluster|experiment|workflow|workspace|namespace|nodepool|project) {_COMPOUND}"
    rf"({_DASHED})(?=[.,:;)]|[ \t]*$)"
    rf"|\bin namespace (?!(?:aten|c10\w*|std|torch|default|prim)\b)({_NAME})"
    rf"|\b(?i:workflow|experiment|cluster|job|pod|pod ?group|deployment|application|trial|agent|run|workload|container)"
    rf" {_COMPOUND}({_DASHED})(?= (?:failed|is|was|has|succeeded|completed|started|exited|created|deleted|not|did)\b)"
    rf"|\bentity ({_NAME})(?= not found)|\bwandb: ({_DASHED})(?= https?://)|^Host ({_NAME})[ \t]*$"
    rf"|\bupload(?:ing|ed)? \S{{1,300}} to ({_DASHED})(?=/)|\bGroupName\\?[\"']:[ \t]?\\?[\"']({_DASHED})"
    rf"|\bbucket ({_DASHED})(?= (?:does|not|is|was|in)\b)"
    r"|\b(?:podman|docker|nerdctl) (?:start|stop|rm|logs|exec|attach|restart|inspect|kill)"
    rf"(?: -[\w-]{{1,30}}){{0,4}} ({_NAME})"
    rf"|\bCONDA_DEFAULT_ENV=({_NAME})|/envs/({_NAME})"
    rf"|^({_NAME})(?=[ \t]{{1,40}}(?:\*[ \t]{{1,40}})?/\S{{1,500}}/envs/)"
    r"|\b([a-z]\w{0,15}?)(?=-(?:OST|MDT)[0-9a-f]{4}(?:_UUID|\b))|@(?:o2ib|tcp)[0-9]{0,3}:/([\w-]{1,64})"
)
_KUBECTL: Final = re.compile(
    rf"(?<![\w./-])(?:{_KINDS_OF_K8S})(?:\.[a-z0-9.]{{1,60}})?/({_DASHED})(?![\w./-])"
    r"|[ \t](?:logs|exec|attach|cp|describe|delete)"
    rf"(?:[ \t](?:pods?|jobs?|pytorchjobs?|nodes?|-n [\w-]{{1,63}}|-[\w-]{{1,30}})){{0,4}}[ \t/]({_DASHED})"
)
# Two or more names at once: an owner and a repository or model, parts of a container's name.
_PAIRS: Final = re.compile(
    rf"\bPermission to ({_NAME})/({_NAME}?)(?=\.git\b| denied)"
    rf"|(?<![\w./-])({_NAME})/({_NAME}) is not a (?:local folder|valid model)"
    rf"|\benroot (?:start|remove|exec)(?: -[\w-]{{1,30}}){{0,4}} ({_NAME})\+({_NAME})"
    rf"|\b(?i:pods?|pod ?group|workload|pytorchjob|mpijob|trainjob|raycluster|jobset) "
    rf"\\?[\"']?({_NAME})/({_NAME})(?![\w./])|\brclone \w{{3,8}} ({_NAME}):/?({_NAME})"
    rf"|\\?\"([a-z0-9][a-z0-9.-]{{0,252}})_([a-z0-9-]{{1,63}})\([0-9a-f]{{8}}-"
    rf"|\bPushing to (?:the )?[Hh]ub:? ({_NAME})/({_NAME})"
)
# A number behind a part of a machine or program is no name: rank3, gpu07.
_NUMBERED_PART: Final = re.compile(rf"(?i:{_PARTS})[_.-]?[0-9]{{1,6}}")
_ENVIRONMENTS: Final = frozenset({"base", "env", "envs", "conda", "venv", "py"})

# Lines where one of the patterns can match, for Rust's engine and for a search for many words at once.
_FORMS: Final = (
    rf"(?:^|[\s(\[,;\"'])(?:{_PLACE_WORDS}|(?i:the|worker|compute))[ \t]{{1,4}}[\[(<\"']?[A-Za-z][A-Za-z-]+[0-9]"
    r"|(?:^|\s)-[wxHn] ?[A-Za-z]|@[0-9]{4}-|^[\w.-]+[ \t]+(?:pts/|tty)|\[[0-9]+[,-][0-9,-]+\]"
    r"| by [A-Za-z_][\w.-]*\.?[\"']?[ \t\r\n]*$|^[ \t]*(?:\([\w.-]+\)[ \t]?)?\[?[\w.-]+@[\w.-]+[: ]"
    r"|(?:^|[^\w./-])[a-z]{2,16}(?:\.[a-z0-9.]+)?/[a-z][a-z0-9]*-|[0-9]{2}T[0-9:]{8}[ \t]+[A-Za-z][\w.-]*[ \t\r\n]*$"
    r"|^[ \t]*(?:User|Host) [\w.-]+[ \t\r\n]*$"
)
_NCCL: Final = r"[NR]CCL (?:INFO|WARN|TRACE|CALL|ERROR|ATTN|ABORT|DIAG)\b"
_WORDS: Final = (
    "pong from", "capmask", "port ", "errors for", "sysname", "connection to", " to host", "ping ", "bytes from",
    "icmp_seq", "address:", "address=", "addr:", "endpoint", "node name", "nodeaddr", "nodehostname", "nodename", "pbs",
    ":/", "mounted", "mgmtd", "kubelet", "scheduler", "assigned ", "dgx system", "service not known", "can't find",
    "ib_write", "ib_read", "ib_send", "iperf", "ssh ", "exec_host", "exec_vhost", "--exclude", "--include", "--host",
    "nodelist", "cron[", " user", "user ", "submitted by", "created by", "started by", "(uid=", "sudoers", "denied to",
    "on branch", "job ", "cluster", "kubectl", "secret", "configmap", "volume", "pod", "context", "container", "bucket",
    "docker", "nerdctl", "conda_default", "/envs/", "-ost", "-mdt", "@o2ib", "@tcp", "permission to", "not a local",
    "enroot", "host ", "running on", "pushing to", "node ", "nodename", "machine ", "_regex", "host found",
    "hosts found",
    "experiment", "instances of", "available for", "ready for", "entity", "workflow", "workspace", "project", "run",
    "queue", "partition", "agent", "training-job", "training job", "upload", "groupname", "branch", "namespace",
    "dataset", "vnode", "checknode", "agent ", "client ", "backend ", "instance ", "switch ", "leaf ", "spine ",
    "]: ", " | ", " mlx", " > ", "job id", "pod group", "podgroup", "workload", "rclone",
    "uid ",
    "pull request", "by @", "trial", "deployment", "dataset", "startcontainer", "https", "syncing pod",
    "repository", "release", "service", "application", "remote",
)  # fmt: skip


def numbered_part(name: str) -> bool:
    """Whether a word is a part of a machine, a program or a training and its number: ``rank3``, ``gpu07``."""
    return _NUMBERED_PART.fullmatch(name) is not None


def others(lines: Sequence[str]) -> list[str]:
    """Lines that NCCL did not print, each once: its own say "set by environment to LL128" and name hosts elsewhere."""
    series = as_series(lines)
    return list(dict.fromkeys(series.filter((~series.str.contains(_NCCL)).fill_null(value=False))))


def names(lines: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Kind (``host``, ``series``, ``user`` or ``job``), name, and the numbers of a series.

    Args:
        lines: lines of other programs, none of them long.
    """
    series = as_series(lines)
    wanted = series.str.contains_any(list(_WORDS), ascii_case_insensitive=True) | series.str.contains(_FORMS)
    for raw in series.filter(wanted.fill_null(value=False)):
        line = raw.rstrip("\r\n")
        for match in _HOSTS.finditer(line):
            yield "host", match[match.lastindex or 0].rstrip(".-"), ""
        for match in _LISTS.finditer(line):
            yield from _listed(match[1])
        for match in _USERS.finditer(line):
            yield "user", match[match.lastindex or 0].rstrip(".-"), ""
        for match in _JOBS.finditer(line):
            name = match[match.lastindex or 0].rstrip(".-")
            if name.lower() not in _ENVIRONMENTS:
                yield "job", name, ""
        prompt = _PROMPT.match(line) if "@" in line else None
        for kind, found in zip(("job", "user", "host"), prompt.groups() if prompt else (), strict=False):
            if found and found.lower() not in _ENVIRONMENTS:
                yield kind, found, ""
        for match in _KUBECTL.finditer(line):
            yield "job", match[match.lastindex or 0], ""
        for match in _PAIRS.finditer(line):
            found = [group for group in match.groups() if group]
            if found[0].lower() not in PUBLIC_OWNERS:
                yield from (("job", name.rstrip(".-"), "") for name in found)


def _listed(text: str) -> Iterator[tuple[str, str, str]]:
    for match in _OF_LIST.finditer(text):
        if match[1]:
            yield "series", match[1], match[2]
        elif match[3] and _ALONE.fullmatch(match[3]):
            yield "host", match[3], ""
        elif match[4] and len(text) > len(match[0]):
            yield "host", match[4], ""
