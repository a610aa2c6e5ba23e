"""What names look like in text."""

import re
from typing import Final

from nccl_insight.share.redact.vocabulary import listed

COMMON: Final = listed("common")

SYSTEM_ROOTS: Final = listed("system_roots")
KNOWN_DOMAINS: Final = listed("known_domains")
FILE_SUFFIXES: Final = listed("file_suffixes")
PUBLIC_FILE: Final = re.compile(
    r"(?:lib[\w.+-]*\.so[\w.]*|[\w.+-]+\.(?:cc|cpp|cu|cuh|hpp|h|c)|(?:topo|graph)\.xml"
    r"|distributed_c10d\.py|nccl[\w.-]*\.conf)"
)

_HEX = "[0-9a-fA-F]"
UUID: Final = rf"{_HEX}{{8}}[-_]{_HEX}{{4}}[-_]{_HEX}{{4}}[-_]{_HEX}{{4}}[-_]{_HEX}{{12}}"
TOKEN: Final = re.compile(
    "|".join(
        (
            rf"(?P<uuid>(?<![\w-])(?:[A-Za-z0-9]{{1,20}}[-_]){{0,4}}?{UUID}(?!{_HEX}))",
            rf"(?P<mac>(?<![\w:.-])(?:{_HEX}{{2}}:){{5,19}}{_HEX}{{2}}(?![\w:-])"
            rf"|(?<![\w:.-])(?:{_HEX}{{2}}-){{5}}{_HEX}{{2}}(?![\w-])"
            rf"|(?<![\w.-])(?=[0-9.]{{0,13}}[a-fA-F])(?:{_HEX}{{4}}\.){{2}}{_HEX}{{4}}(?![\w.-]))",
            rf"(?P<v6>(?:(?<![\w:.])"
            rf"|(?<=[\w\]]:))(?:{_HEX}{{0,4}}:){{2,7}}(?:(?:[0-9]{{1,3}}\.){{3}}[0-9]{{1,3}}"
            rf"|{_HEX}{{1,4}})?(?![\w:]|\.[0-9]))",
            r"(?P<v4>(?<![\w.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?!\w|\.[0-9]))",
            r"(?P<url>\b[a-z][a-z0-9+]{1,9}://[^\s\"'<>]+)",
            r"(?P<path>(?:(?<![\w.\])])|(?<=-[A-Z]))(?:~[\w.-]{0,64}|\./|\.\./)?/(?:[\w.+@%~\x80-\U0010ffff-]+/?)+)",
            r"(?P<word>[A-Za-z0-9_](?:[\w-]|[.@](?=[A-Za-z0-9]))*)",
        )
    ),
    re.ASCII,
)
GUID: Final = re.compile(
    rf"(?i)(guid[\"'=:\s]{{0,4}}(?:0x)?|\b(?:ca|switch|rt)[ \t]{{1,8}}:[ \t]{{1,4}}0x"
    rf"|(?<![a-z0-9])[shr](?={_HEX}{{16}}/n)"
    rf"|\berrors for 0x|\bport 0x(?={_HEX}{{16}} \()"
    rf"|^[ \t]{{1,10}}0x(?={_HEX}{{16}}[ \t]{{1,8}}[0-9]{{1,6}}[ \t]{{1,8}}[0-9]{{1,4}}\[ ))"
    rf"({_HEX}{{12,16}}|{_HEX}{{4}}(?::{_HEX}{{4}}){{3}})(?!{_HEX}|:)",
    re.M,
)
# What stands between blanks, quotes and separators; most runs of a log repeat, so that they are looked up once.
RUN: Final = re.compile(r"[^\s\"'(,;<>=|{}]+")
# Stands for numbers that are masked, see shapes.
MASK: Final = "\x01"
# Words in lower case, one of which is in every match: looking for them is much faster than trying the pattern. They are
# in the line where the match begins. "head" has none.
HINTS: Final = {
    "user": (
        "/home/", "/users/", "\\users\\", "user", "logname", "uid=", "@", "owner", "login", "logged in", "accepted ",
        "failed ", "postponed ", "sudo:", "authenticating", "submitted",
    ),
    "place": (
        "pod", " device", "peer ", "master", "hostname", "tcp://", "ip-", "@", "rdzv", "nccl_comm_id",
        "nccl_ras_addr", "nccl_hostid", "on node ",
        "cancelled", "srun", "slurmstepd-", " kernel:", "]:", "host  ", "ode_desc", "ode desc", "mount", "host=",
        "host[",
        "nodename", "node_name", "computername", "host\"", "host'", "host_name", " host:", "connect to ",
        "connected to ", "connecting to ", "listen on ", "listening on ", "tcpstore(", "added '", "run-", "slots",
        " hca-", " mlx", "mf0;", "--name", "world_info", "dc=", "assigned ", " on ",
        # Hosts are called node0001 in many clusters: the word alone is in every line of theirs.
        "node ", "nodes ", "node=", "nodes=", "node:", "nodes:", "node(", "nodes(", "node\t", "node\"", "node'",
        "nodelist", "instance", "server", "machine", "compute", "displayname", "vmname", "vmscaleset", "host:",
        "hostname ", "authenticating", "resolve", "[rank", "lookup ", "addresses of", "exited with", "pbs_", "slurm",
        "][[", ":mpi_rank_", "startup(", "linux ", "-ost", "-mdt", "/n", "ca: ", "switch: ", "router: ", ":/",
        "\\\\", ">1 ",
    ),
    "places": (
        "nodelist", "worker_addrs", "slurm_", "-h ", "--host", "nodes allocated", "lsb_", "host(s)", "following",
        "world info", "world_info",
    ),
    "job": (
        "slurm_", "lsb_", "pbs_", "job", "torchelastic", "wandb", "rdzv_id", "run_id", "namespace", "#sbatch",
        "#pbs", "#bsub", "#$",
        "account", "arn:", "project", "resource-group", "resourcegroups/", "clustername", "cluster_name",
        "cluster-name", "container_name", "containername", "team", "workspace", "tenant", "queue", "experiment",
        "exp_name", "run_name", "cluster", "resource", "organization", "_org", "_comment", "_group", "_ce_name",
        "_jq_name", "controlled by", "service account", "was using", "groupid=", "gid=", "groups=", "user group <",
        "rendezvous", "cloning into", "logged in", "file system", "raysubmit_", "k8s_", "/pods/", "/containers/",
        "container-name", "\\\\",
    ),
    "number": (
        "job", "step", "] [", "slurm", "|failed", "|completed", "|cancelled", "|timeout", "|node_fail", "|running",
        "|out_of",
    ),
    "secret": ("token", "secret", "pass", "key", "cred", "auth", "bearer", "basic "),
    "keys": (
        "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_", "akia", "asia", "sk-", "xox",
        "nvapi-", "aiza", "ya29.", "eyj", "npm_", "pypi-",
    ),
    "marked": (
        "--", "sig", "token=", "key=", "ssh-", "ecdsa-", "-----begin", "sshpass", "ipmitool", "-u ", " password ",
        "cookie", "sha256:", "md5:",
    ),
    "numbers": (
        "erial", "asset", "arn:", "wwn-", "i-", "vol-", "subnet-", "vpc-", "sg-", "ami-", "eni-", "eipalloc-",
        "snap-", "lt-", "fs-", "fsap-", "uid=", "uid_", "gid=", "userid", "groupid", "sn:", "sn=", "s/n", "account",
        "instance/id", "ocid1.", "gpu-", "mig-", "/dev/nvme",
        "uid:", "uid ", "gid:", "gid ", "user-", "/run/user/", "user ", "unique id",
    ),
    "person": ("author:", "commit:", "committer:", "-by:", "tagger:"),
    "guid": ("guid", "port 0x", "errors for", "ca ", "switch ", "rt ", "ca\t", "switch\t", "rt\t", "/n", "[ "),
    "images": (
        "@", "github.", "gitlab.", ".io/", ".dev/", ".com/", "registry.", "image", "denied for", "pulling from",
        "://", "docker", "podman", "nerdctl", "apptainer", "singularity", "model", "pretrained", "repo_id",
        "models--", "datasets--",
    ),
}  # fmt: skip
# Words before a number that are no hosts, where a host could stand.
_NO_HOST: Final = (
    "rank|gpu|cpu|node|host|worker|device|dev|stage|layer|step|iter|iteration|epoch|line|trainer|default|proc|process"
    "|thread|channel|eth|ens|enp|eno|ib|mlx|bond|nvme|sd|loop|lo|veth|br|version|v|test|case|tp|pp|dp|cp|ep|group|pg"
)
_NO_PLACE: Final = (
    _NO_HOST
    + "|cuda|hca|rail|nic|pci|numa|socket|lane|link|switch|qp|cq|stream|comm|tree|ring|rdmap|efa|em|usb|tty|pts|cgroup"
    "|tid|pid|batch|shard|part|split|fold|run|sha|utf|py|cu|sm|h|a|b|gb|gh|l|t|mi|rtx|v|x|ipv|http|tcp|udp|port|attempt|round|try"
)
# A name with a number that is none of a part of a machine, a program or a training.
_NAMED: Final = rf"(?!(?i:{_NO_PLACE})[_-]?[0-9])(?i:(?!rank|gpu|local))[A-Za-z][A-Za-z_-]{{0,200}}[0-9][\w.-]{{0,200}}"
_TOOL_PREFIX: Final = (
    rf"^(?!(?i:{_NO_HOST})[_-]?[0-9])[A-Za-z][A-Za-z-]{{1,40}}[0-9]{{2,5}}(?:\.[A-Za-z][\w.-]{{0,200}})?"
)
# What else a line with a place can hold, for Rust's engine: [host:123] and nodes[1-4], and host07: before all others.
FORMS: Final = (
    r"\[[A-Za-z][^\s\[\]]*:[0-9]|[A-Za-z][^\s\[\]]*\[[0-9]"
    r"|^[A-Za-z][A-Za-z-]+[0-9]{2,5}(?:\.[A-Za-z][^\s:]*)?: "
)
HEAD: Final = re.compile(
    r"(?:^|(?<=[\s:>\]='\"(,;]))([^\s:<>\[\]|='\"(,;]+|<[\w.-]+>)(?=:(?:[0-9]+:[0-9]+|" + MASK + r") (?:\[|NCCL ))",
    re.M,
)
_NUMBERED_HOST = r"[A-Za-z][\w-]{0,200}[0-9][\w.-]{0,200}"
_MONTH_TIME = r"[A-Z][a-z]{2} [ 0-9]?[0-9] [0-9:]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.,]{6,20}(?:Z|[+-][0-9:]{4,6})?"
PLACE: Final = re.compile(
    r"\bPid[ \t]+[0-9]+ on[ \t]{1,20}(\S+)(?= device\b)|\bpeer ([^\s<]+)(?=<[0-9]+>)"
    r"|\bMASTER_ADDR[\"']?\s?[=:]\s?[\"']?([\w.-]+)|--(?:master[-_]addr|rdzv[-_]endpoint)[= ]([\w.-]+)"
    r"|\brdzv_endpoint[\"']?\s?[=:]\s?[\"']?([\w.-]+)"
    r"|\bNCCL_(?:COMM_ID|RAS_ADDR|HOSTID)(?: set by environment to |=)([\w.-]+)"
    rf"|\bon node ({_NUMBERED_HOST})|\bON ([\w.-]+)(?= CANCELLED\b)|\bsrun: error: ([\w.-]+)(?=: tasks? )"
    rf"|\[([A-Za-z][\w.-]{{0,200}})(?=:[0-9]{{2,8}}\] "
    r"(?:\*\*\*|\[|mca|pml|btl|PMIX|ORTE|PRTE|opal|[0-9]{1,6} more proc|Set MCA))"
    r"|\bslurmstepd-([\w.-]{1,255})(?=: )"
    rf"|(?:{_MONTH_TIME}) ([\w.-]+)(?= (?:kernel|[\w.@-]{{1,64}}\[[0-9]{{1,8}}\]):)|\bhost {{2,12}}: ([\w.-]+)"
    rf"|^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[ T][0-9:.,]{{6,20}}Z?[ \t]{{1,4}}([a-z][\w.-]{{0,60}}-[\w.-]{{0,60}}[0-9])"
    r"(?=[ \t]{1,4}\[rank[0-9])"
    r"|\b(?:on|[Nn]odes?|[Hh]osts?|[Nn]ode[Ll]ist|NODELIST)[=: (]{1,3}([A-Za-z][\w.-]{0,200}?)(?=-?\[[0-9])"
    r"|\b[Nn]ode[_ ][Dd]esc(?:ription)?[\"':= ]{1,4}([\w.-]+)|\bmount(?:ed from)? ([\w.-]+)(?=:/)"
    r"|\bHOSTNAME=([^\s\"',;]+)|tcp://([^\s:/\"'\[\]]+)|\b(ip-[0-9]+-[0-9]+-[0-9]+-[0-9]+)\b"
    r"|\"hostname\": \"([^\"\n]+)|@([A-Za-z][\w-]*[0-9][\w.-]*)"
    r"|(?<![A-Za-z])(?:[A-Z]{1,20}_){0,3}(?:HOST|NODENAME|NODE_NAME|COMPUTERNAME)=([A-Za-z][\w.-]*)"
    r"|[\"'](?:host|hostname|host_name|nodename|node_name|nodeName|master_addr)[\"']\s?:\s?[\"']([A-Za-z][\w.-]*)"
    r"|\b(?:Local|Remote|Peer) host:[ \t]{1,12}([A-Za-z][\w.-]*)|\b[Hh]ost[Nn]ame\s?[:=]\s?([A-Za-z][\w.-]*)"
    r"|\b(?:BatchHost|SlurmctldHost(?:\[[0-9]\])?)=([\w.-]+)|\bTCPStore\(([A-Za-z][\w.-]*)(?=[:,])"
    r"|\b(?:connect(?:ed|ing)? to|listen(?:ing)? on)(?: host)? [\[(]?([A-Za-z][\w.-]*)"
    r"(?=\]?:[0-9]{2,5}(?![0-9])|, [0-9]{2,5}\)| port [0-9])"
    rf"|\[(?!(?i:{_NO_HOST})[0-9])([A-Za-z][\w.-]*)(?=\]:[0-9]{{4,5}}(?![\w:.-]))|({_TOOL_PREFIX})(?=: )"
    r"|(?<![\w.-])(?P<series>[A-Za-z][\w.-]{0,200}?)(?=-?\[[0-9]{1,6}-[0-9]{1,6}[0-9,-]{0,200}\])"
    r"|\badded '([\w.-]+)(?=[,'])|\b(?:prterun|orterun|mpirun)-([\w.-]{1,255}?)(?=-[0-9]{1,10}@[0-9])"
    r"|^[ \t]{0,8}([A-Za-z][\w.-]*)(?=[ \t]{1,12}slots[ =])|\"([A-Za-z][\w.-]*)(?= (?:HCA-|mlx)[\w-]{1,20}\")"
    r"|\"MF0;([\w.-]+)(?=:)|--(?:host)?name[= ]([A-Za-z][\w.-]*)|\bworld_info=\{[\"']([\w.-]+)"
    r"|\b[dD][cC]=(?!(?:com|org|net|edu|gov|io|ai|local|de|fr|uk|eu|ch|cn|jp|kr)\b)([A-Za-z][\w-]*)"
    r"|\bassigned ([\w.-]+)(?=/[\w.-]+ to )"
    # fields of monitoring, clouds and descriptions
    r"|[\"'](?:instance(?:Name)?|[Cc]omputerName|displayName|vmName|vmScaleSetName|machine|node"
    r"|server|kubernetes_node"
    r"|exported_instance)[\"']\s?:\s?[\"']([A-Za-z][\w.-]*)"
    r"|\"compute\":\s?\{[^{}\n]{0,2000}?\"name\":\s?\"([A-Za-z][\w.-]*)"
    r"|\b(?:node|instance|[Hh]ost(?:[Nn]ame)?|nodename|server|machine|kubernetes_node"
    r"|exported_instance)=\"([A-Za-z][\w.-]*)"
    rf"|\bhost:({_NAMED})|\binstance/name: ([A-Za-z][\w.-]*)|\bNode(?: [Nn]ame)?[ \t]?[:=]\s{{0,20}}({_NAMED})"
    # what schedulers, launchers and daemons say about a host
    rf"|\b(?:[Nn]odes?|[Tt]asks?|task\(s\)|process(?:es)?|daemons?|jobs?|agents?|workers?|pods?"
    rf"|containers?|running|started"
    rf"|launched|spawned|executed|exited|died|failed|killed|lost|down) on (?:the )?(?:host |machine "
    rf"|server )?({_NAMED})"
    rf"|\bnodes? ({_NAMED})|\bnode '([\w.-]+?)(?=(?:_[0-9]+_[0-9]+)?')"
    r"|\bslurm(?:d|stepd|ctld)\[([A-Za-z][\w.-]*)(?=\])|\bslurm_([A-Za-z][\w.-]{0,254})(?=/uid_)"
    r"|\bPBS_(?:JOBID=|NODEFILE=\S{1,255}/)[0-9]{1,12}(?:\[[0-9]{0,9}\])?\.([A-Za-z][\w.-]*)"
    r"|\[([A-Za-z][\w.-]*)(?=\]\[\[[0-9]+,[0-9]+\])|\[([A-Za-z][\w.-]*)(?=:mpi_rank_[0-9])"
    r"|\bMPI startup\(\): {1,12}[0-9]{1,8} {1,12}[0-9]{1,8} {1,12}([A-Za-z][\w.-]*)"
    r"|(?<=: )([A-Za-z][\w.-]*)(?=: (?:ssh|rsh|mrsh) exited with)"
    r"|^<[0-9]{1,3}>1 [0-9T:.Z+-]{10,40} ([A-Za-z][\w.-]*)(?= )"
    r"|\bLinux (?!version\b)([A-Za-z][\w.-]*)(?= [0-9]+\.[0-9]+\.[0-9])"
    # names that could not be looked up
    r"|\bAuthenticating to ([\w.-]+)(?=:[0-9])|\bhostname ([A-Za-z][\w.-]*)(?=: (?:Name|Temporary|No"
    r"|nodename|Try|Unknown))"
    r"|\b(?:[Ff]ailed to|[Cc]ould not) resolve(?: host)?:? '?(?!host(?:name)?\b)([A-Za-z][\w.-]*)"
    r"|\blookup ([A-Za-z][\w.-]*)(?= on [0-9.:\[\]]+|: no such host)|\baddresses of \(([A-Za-z][\w.-]*)(?=, [0-9])"
    # file systems and fabrics
    r"|\b([a-z]\w{0,15})(?=-(?:OST|MDT)[0-9a-f]{4}\b)|\bnfs: server ([\w.-]+)(?= (?:not responding|OK))"
    r"|^([A-Za-z][\w.-]*)(?=:/\S*[ \t]{1,20}(?:[0-9.]{1,8}[KMGTP]?[ \t]|/\S+ (?:nfs4?|lustre|ceph"
    r"|beegfs|wekafs|fuse)\b))"
    r"|(?<![^\s\"'(=:,])\\\\([A-Za-z0-9][\w.-]*)(?=\\(?!\\)[\w$.-])"
    rf"|(?<![A-Za-z0-9])[SHR]{_HEX}{{16}}/N([\w.-]+)(?=/)|^(?:CA|Switch|Router): (?!0x)([\w.-]+)(?= )"
    r"|(?<![\w.-])([A-Za-z][\w.-]{0,254})(?= HCA-[0-9])"
    r"|\b(?:[Pp]od|POD)(?:[_-]?(?:[Nn]ame|NAME)|s)?[\"']?(?:[=:/]\s?|\s[\"'])[\"']?([a-z0-9][a-z0-9.-]*[a-z0-9])",
    re.M,
)
# Lists of hosts, and a name within one.
PLACES: Final = re.compile(
    r"(\b(?:SLURM_(?:JOB_|STEP_)?NODELIST|SLURM_TOPOLOGY_ADDR|WORKER_ADDRS|(?:Req)?Node[Ll]ist)[\"']?[=:]\s?[\"'(]?"
    r"|--(?:hosts?|nodelist)[= ]|\bNodes allocated: |\bfollowing (?:workers|hosts|nodes): )([A-Za-z][\w.\[\],:-]*)"
    r"|(\bLSB_(?:MCPU_)?HOSTS[\"']?[=:]\s?[\"']?|\bHost\(s\) )([A-Za-z<][\w.<>* -]*)"
    r"|(\b(?:WORLD INFO DICT: |world_info=)\{)([^{}\n]{1,20000})"
    r"|((?<!\S)-H )([A-Za-z][\w.-]*(?::[0-9]+)?(?:,[A-Za-z][\w.-]*(?::[0-9]+)?)*(?=\s|$))"
)
PLACE_OF_LIST: Final = re.compile(r"(?<![\w.-])[A-Za-z](?:[\w.-]{0,253}\w)?")
# The numbers behind a name that stands for several.
SERIES: Final = re.compile(r"-?\[([0-9,-]{1,200})\]")
USER: Final = re.compile(
    r"(?<=/home/)([\w.-]+)|(?<=/users/)([\w.-]+)|(?<=/Users/)([\w.-]+)|(?<=\\Users\\)([\w.-]+)"
    r"|\b(?:USER|LOGNAME|SLURM_JOB_USER|USERNAME)[=:]\s?([\w.-]+)"
    r"|\buid=[0-9]+\(([\w.-]+)\)|\buid=([A-Za-z_][\w.-]*)(?=,)|(?<![\w.-])([a-z_][\w.-]*)(?=@[A-Za-z][\w-]*[0-9])"
    r"|\b(?:[Uu]ser(?:[Nn]ame|Id|_name)?|[Oo]wner|login)[\"']?\s?[=:]\s?[\"']?(?!arn:)([A-Za-z_][\w.-]*)"
    r"|\blogged in as:? ([\w.-]+)|\b(?:Accepted|Failed"
    r"|Postponed) [\w/-]{1,40} for (?:invalid user )?([\w.-]+)(?= from )"
    r"|\bsession (?:opened|closed) for user ([\w.-]+)|\bsudo:\s{1,8}([\w.-]+)(?= : )|\bUser <([\w.-]+)(?=>)"
    r"|\bAuthenticating to \S{1,255} as '([\w.-]+)|\bsubmitted (?:successfully )?by ([A-Za-z_][\w.-]*)"
)
JOB: Final = re.compile(
    r"((?:\b(?:SLURM_(?:JOB_?)?(?:NAME|ID|ACCOUNT|PARTITION|QOS|RESERVATION)|SLURM_CLUSTER_NAME"
    r"|LSB_JOB(?:NAME|ID)|PBS_JOB(?:NAME|ID)|JOB_NAME|TORCHELASTIC_RUN_ID|WANDB_(?:NAME|PROJECT|RUN_ID)"
    r"|WANDB_ENTITY|(?:POD_)?NAMESPACE|(?:GOOGLE_CLOUD|GCP|GCLOUD)_PROJECT"
    r"|[Nn]amespace(?:_?[Nn]ame)?|[Cc]ontainer_?[Nn]ame|[Cc]luster_?[Nn]ame|[Aa]ccount"
    r"|[Pp]roject(?:_?[Ii]d|_?[Nn]ame)?"
    r"|[Jj]ob[-_ ]?[Nn]ame|rdzv_id|run_id)[\"']?\s?[=:]\s?[\"']?"
    r"|#SBATCH[ \t]{1,4}(?:--(?:account|partition|job-name|reservation|qos|comment)[= ]|-[ApJq] ?)"
    r"|#PBS[ \t]{1,4}-[NAPq] ?|#BSUB[ \t]{1,4}-[JPGq] ?|#\$[ \t]{1,4}-[NPAq] ?"
    r"|--(?:account|job-name|project|resource-group|cluster-name|namespace)[= ]|wandb: Syncing run "
    r"|\barn:[a-z-]{1,20}:s3:::|\barn:[a-z-]{1,20}:[a-z0-9-]{0,40}:[a-z0-9-]{0,30}:[0-9]{0,12}:(?:[a-z-]{1,30}[/:])?"
    r"|\bprojects/|\bresourceGroups/|\braysubmit_|\b(?!(?:NCCL|RCCL|CUDA|UCX|OMPI|TORCH|NVIDIA|HSA"
    r"|HIP)_)[A-Z][A-Z0-9_]{0,60}_"
    r"(?:WORKSPACE(?:_NAME)?|RESOURCE_?GROUP|PROJECT(?:_ID|_NAME)?|TEAM|ORG|ORGANIZATION|TENANT"
    r"|ACCOUNT|QUEUE|JQ_NAME|CE_NAME"
    r"|RUN_NAME|RUN_ID|JOB_NAME|EXPERIMENT(?:_NAME)?|CLUSTER(?:_NAME)?|COMMENT|JOB_GROUP)=[\"']?"
    r"|\b(?:team|workspace|tenant|queue|experiment(?:_name)?|exp_name|run_name|cluster|organization"
    r"|resource_?[Gg]roup(?:_?[Nn]ame)?)"
    r"(?:[=:][\"']?|[\"']\s?[:=]\s?[\"'])(?=[A-Za-z])|\bControlled By:[ \t]{1,8}[A-Za-z]{1,60}/"
    r"|\bService Account:[ \t]{1,8}"
    r"|\bContainer (?=[a-z0-9-]{1,63} was using)|\bGroupId=|\b(?:gid|groups)=[0-9]{4,10}\("
    r"|\b(?:Project|Queue|Job Name|User Group) <"
    r"|\bk8s_(?=[\w.-]{1,512}-)|/(?:pods|containers)/(?=[a-z0-9.-]{1,253}_)|--container-name[= ]"
    r"|(?<![^\s\"'(=:,])\\\\[\w.-]{1,64}\\"
    r"|\brendezvous '|\bCloning into [\"']|\blogged in as:? \S{1,64} \(|\bMounting file system \""
    r"|\bin cluster (?=[\w-]{1,64}[.0-9])"
    r"))([^\s\"',;/=()\[\]{}<>\\]+)"
)
# Numbers of jobs and steps of a scheduler in free text: "Submitted batch job 81234", "STEP 81234.0 ON", "JobId=81234".
JOB_NUMBER: Final = re.compile(
    r"\b(?:[Jj][Oo][Bb]|[Ss][Tt][Ee][Pp])(?:[ _]?(?:[Ii][Dd]|step))?[ =:#]{1,3}<?([0-9]{4,12})(?![0-9])"
    r"|(?:slurm|job|Job|JOB)[-_]?([0-9]{4,12})(?![0-9])|;pbs_\w{3,10};Job;([0-9]{2,12})"
    r"|\bpam_slurm\w{0,20}: job ([0-9]{4,12})|(?<=[0-9]\] \[)([0-9]{3,12})(?=\.(?:[0-9]{1,4}|extern|batch"
    r"|interactive)\])"
    r"|^([0-9]{4,12})(?:[._]\w{1,20})?(?=\|[^\n]{0,600}\|(?:COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|RUNNING"
    r"|OUT_OF_MEMORY))",
    re.M,
)
# A name that says that its value is secret, and the value; or a value that says so itself.
SECRET: Final = re.compile(
    r"(?P<name>(?<![A-Za-z])(?:[A-Za-z0-9]{1,20}[_-]){0,6}[A-Za-z]{0,10}?(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE"
    r"|API[_-]?KEY|ACCESS[_-]?KEY"
    r"|ACCESS_KEY_ID|SECRET_KEY|ACCOUNT_?KEY|SHARED_?KEY|PRIVATE_?KEY|CREDENTIALS?"
    r"|AUTH(?:ORIZATION)?)(?:_[A-Za-z0-9]{1,20}){0,3}(?:\\{0,3}[\"'])?(?: set by environment to |\s?[=:]\s?"
    r"|\s(?=[\"']))(?:Bearer |Basic )?(?:\\{0,3}[\"'])?)(?P<value>(?!-----BEGIN)(?:[^\s\"',;}\\]|\\(?![\"']))+)",
    re.I,
)
BEARER: Final = re.compile(r"\b([Bb]earer|[Bb]asic) ([A-Za-z0-9._~+/=-]{12,})")
# Secrets behind something that is none: options of a command, signatures in an address, keys of SSH and PEM.
MARKED: Final = re.compile(
    r"(--[a-z_-]{0,40}(?:token|password|passwd|secret|api[-_]key|access[-_]key)[= ][\"']?)([^\s\"',;-][^\s\"',;]{3,})"
    r"|([?&](?:sig|signature|X-Amz-Signature|X-Goog-Signature|token|key|access_token)=)([^\s\"'&]{8,})"
    r"|(\bssh-(?:rsa|ed25519|dss) |\becdsa-sha2-\w{1,20} )([A-Za-z0-9+/=]{20,})"
    r"|(--world_info[= ])([A-Za-z0-9+/=_-]{12,})|(\bsshpass -p ?|\bipmitool [^\n]{1,200}? -P ?)(\S+)"
    r"|((?<!\S)-u [\w.-]{1,64}:)([^\s\"']{4,})"
    r"|(\blogin \S{1,100} password )(\S+)|(\b(?:Set-)?Cookie: ?)([^\r\n]{8,})|(\bSHA256:)([A-Za-z0-9+/]{43})"
    r"|(\bMD5:)((?:[0-9a-f]{2}:){15}[0-9a-f]{2})"
    r"|(-----BEGIN [A-Z ]{0,40}(?:KEY|CERTIFICATE)-----)([^-]{1,20000})"
)
# Numbers of devices, machines and accounts that a word before them or their form gives away.
NUMBERS: Final = re.compile(
    r"((?<![A-Za-z])[Ss]erial(?:[ _]?(?:[Nn]umber|[Nn]o))?\.?[\"']?[ \t]{0,60}[=:#]\s{0,4}[\"']?)"
    r"(?=[A-Za-z-]{0,39}[0-9])([A-Za-z0-9-]{6,40})|(<[a-z_]{0,40}serial[a-z_]{0,40}>)([A-Za-z0-9-]{6,40})"
    r"|(\b[Aa]sset[ _][Tt]ag[\"']?[ \t]{0,60}[=:][ \t]{0,4}[\"']?)([A-Za-z0-9-]{6,40})|(\bwwn-0x)([0-9a-f]{16})"
    r"|(\b(?:i|vol|subnet|vpc|sg|ami|eni|eipalloc|snap|lt|fs|fsap)-)([0-9a-f]{17}|[0-9a-f]{8})\b"
    r"|(\barn:[a-z-]{1,20}:[a-z0-9-]{1,40}:[a-z0-9-]{0,30}:)([0-9]{12})(?=:)"
    r"|(\b(?:SLURM_JOB_[UG]ID|[ug]id)=)([0-9]{4,10})(?![0-9])|(\b(?:User|Group)Id=[\w.-]{1,64}\()([0-9]{4,10})(?=\))"
    r"|(\b(?:GPU|MIG)-)([0-9a-f]{8})(?![0-9a-zA-Z-])"
    r"|(/uid_)([0-9]{4,10})(?![0-9])|(\b(?:SN|S/N)[:=] ?)(?=[A-Za-z-]{0,39}[0-9])([A-Za-z0-9-]{6,40})"
    r"|(\b[Aa]ccount_?(?:Id|ID|id)?[\"']?\s?[:=]\s?[\"']?)([0-9]{12})(?![0-9])|(\binstance/id:? )([0-9]{10,20})"
    r"|(\bocid1\.[a-z]{1,40}\.[a-z0-9-]{1,20}\.[a-z0-9-]{0,20}\.{1,2})([a-z0-9]{8,80})(?![a-z0-9.])"
    r"|(\b(?:UID|uid|GID|gid)[: ][ \t]?)([0-9]{4,10})(?![0-9]|\.[0-9])|(\buser-|/run/user/)([0-9]{4,10})(?![0-9])"
    r"|(\b[Uu]ser [\w.-]{1,64}\()([0-9]{4,10})(?=\))|(\bUnique ID:? ?(?:0x)?)([0-9a-f]{16})(?![0-9a-f])"
    r"|(^/dev/nvme\S{1,20}[ \t]{1,20}(?:/dev/ng\S{1,20}[ \t]{1,20})?)([A-Z0-9]{8,20})(?=[ \t])",
    re.M,
)
_REGISTRY: Final = r"(?:(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,12}(?::[0-9]{2,5})?/|localhost:[0-9]{2,5}/)?"
# Images of containers, models of hubs and remotes of git: where they come from, and the path.
IMAGE: Final = re.compile(
    r"(?<![\w.@/-])((?:gcr\.io|[a-z0-9-]{1,60}\.pkg\.dev|ghcr\.io|docker\.io|quay\.io|nvcr\.io"
    r"|[a-z0-9]{1,60}\.azurecr\.io"
    r"|[0-9]{12}\.dkr\.ecr\.[a-z0-9-]{1,40}\.amazonaws\.com|registry\.[A-Za-z0-9.-]{1,200})/)([\w.-]+(?:/[\w.-]+)*)"
    r"|((?:@[A-Za-z0-9.-]{1,255}|\bgit(?:hub|lab)\.[a-z.]{2,30}):)([\w~.-]+(?:/[\w~.-]+)*)(?=\.git\b)"
    rf"|((?:\b[Ii]mages?(?:[_-]?[Nn]ame)?[\"']?[ \t]?[=:]?[ \t]?\\?[\"']?|\bdenied for "
    rf"|\b[Pp]ulling from |\b(?:docker|dockerd|oras|library|shub)://"
    rf"|\b(?:docker|podman|nerdctl|apptainer|singularity) (?:run|pull|push|exec"
    rf"|create)\b[^\n]{{0,1000}}?\s){_REGISTRY})"
    r"([a-z0-9][\w.-]{0,127}(?:/[\w.-]{1,127}){1,8})(?=[\s:@\\\"',)]|$)"
    r"|((?:(?<![A-Za-z])[Mm]odel(?:_name_or_path|_name|_id|_path|-id|-path)?[\"']?(?:[=:][ \t]?| )[\"']?"
    r"|from_pretrained\([\"']|\brepo_id=[\"']?))"
    r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?![\w/.-])|(\b(?:models|datasets)--)([\w.-]+)",
    re.M,
)
PUBLIC_OWNERS: Final = listed("public_owners")
KEYS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{16,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|sk-[\w-]{16,}|xox[abprs]-[\w-]{10,}|nvapi-[\w-]{16,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}"
    r"|eyJ[\w-]{8,}(?:\.[\w-]*){0,4}|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{16,})"
)
# People by their full names, in logs of version control.
PERSON: Final = re.compile(
    r"\b((?:Author|AuthorDate|Commit|Committer|Signed-off-by|Co-authored-by|Reviewed-by|Tested-by|Acked-by|Reported-by"
    r"|Merged-by|Tagger): +)([^<>\n\x01]{2,80}?)(?= <)"
)
EMAIL: Final = re.compile(r"([\w.+-]+)@((?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,})", re.ASCII)
BUCKETS: Final = listed("buckets")
# The alphabet of the random parts of names that Kubernetes makes.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
POD: Final = re.compile(
    rf"[a-z][a-z0-9-]*-(?:[{_SAFE}]{{8,10}}-[{_SAFE}]{{5}}|(?:mpi|tf|torch)?(?:worker|master|launcher|head|replica"
    rf"|ps)-(?:[0-9]{{1,5}}|[a-z0-9]{{5}}))"
    rf"(?:-[{_SAFE}]{{5}})?|gke-[a-z0-9-]{{1,80}}-[0-9a-f]{{8}}-[a-z0-9-]{{4,16}}"
    rf"|aks-[a-z0-9]{{1,20}}-[0-9]{{8}}-vmss[0-9a-z]{{6}}"
    r"|cmle-training-[a-z0-9-]{1,80}"
)
PUBLIC_OPT: Final = listed("public_opt")
DOMAIN: Final = re.compile(
    r"(?:[A-Za-z0-9-]+\.)+(?:local|internal|lan|cluster|corp|intranet|localdomain|svc|edu|gov|mil|com"
    r"|org|net|io|ai|cloud|dev|hpc"
    r"|info|tech|de|fr|uk|eu|ch|at|it|es|nl|se|no|fi|pl|cz|jp|cn|kr|tw|sg|au|ca|us|br|il)",
    re.ASCII,
)


def may_match(kind: str, text: str) -> bool:
    """Whether a text holds one of the words that the patterns of a kind need."""
    words = HINTS.get(kind)
    if words is None:
        return True
    folded = text.lower()
    return any(word in folded for word in words) or (kind == "place" and ("[" in text or ": " in text))
