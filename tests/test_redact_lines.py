# ruff: noqa: E501
"""Lines of schedulers, launchers, clouds, containers and system tools: who they name goes, what they say stays.

Each line was written by hand after what the program prints. ``GONE`` are the parts that name somebody or something, which
are tried again with other names; ``STAYS`` what a reader of the log needs.
"""

from __future__ import annotations

import random
import re

import pytest

from nccl_insight.redact import collect
from nccl_insight.tables.run import build_run

# (line, what must go, what must stay)
LINES: dict[str, tuple[str, list[str], list[str]]] = {
    "k8s event pulled": ("Normal   Pulled  2m   kubelet  Successfully pulled image \"harbor.quillvane.dev/mlteamx/trainimg:v3\" in 1.2s", ["quillvane", "mlteamx", "trainimg"], ["Pulled", "kubelet"]),
    "k8s event failed sched": ("Warning  FailedScheduling  pod/quokkajob-worker-0  0/64 nodes are available: 64 Insufficient nvidia.com/gpu.", ["quokkajob"], ["nvidia.com/gpu", "Insufficient", "0/64"]),
    "k8s describe node": ("Node:             brindlenode-a3-17/10.64.3.9", ["brindlenode", "10.64.3.9"], []),
    "k8s describe labels": ("Labels:           kubernetes.io/hostname=brindlenode17,team=fennelgroup", ["brindlenode17", "fennelgroup"], []),
    "k8s describe ann": ("Controlled By:  PyTorchJob/quokkajob", ["quokkajob"], ["PyTorchJob"]),
    "k8s svc acct": ("Service Account:  gravelbot-sa", ["gravelbot"], []),
    "k8s evicted": ("The node was low on resource: ephemeral-storage. Container tamarack was using 210Gi", ["tamarack"], ["210Gi", "ephemeral-storage"]),
    "k8s owner json": ("{\"kubernetes\":{\"namespace_name\":\"fennelns\",\"pod_id\":\"3b9c7d51-aa02-4f0f-9f53-0a11bb22cc33\",\"labels\":{\"owner\":\"mirabel\"}}}", ["fennelns", "3b9c7d51", "mirabel"], []),
    "k8s cri name": ("k8s_pytorch_quokkajob-worker-0_fennelns_3b9c7d51-aa02-4f0f-9f53-0a11bb22cc33_0", ["quokkajob", "fennelns", "3b9c7d51"], []),
    "k8s log path": ("/var/log/pods/fennelns_quokkajob-worker-0_3b9c7d51-aa02-4f0f-9f53-0a11bb22cc33/pytorch/0.log", ["fennelns", "quokkajob"], []),
    "stern prefix": ("quokkajob-worker-0 pytorch brindlenode17:12:90 [0] NCCL INFO Using network IB", ["brindlenode17", "quokkajob-worker"], ["Using network IB"]),
    "slurm env dump": ("SLURM_JOB_USER=mirabel", ["mirabel"], ["SLURM_JOB_USER"]),
    "slurm env nodelist": ("SLURM_STEP_NODELIST=brindle[0101-0104],copse7", ["brindle", "copse7"], []),
    "slurm env topo": ("SLURM_TOPOLOGY_ADDR=spinex.leafq.brindle0101", ["spinex", "leafq", "brindle0101"], []),
    "slurm env comment": ("SLURM_JOB_COMMENT=fennelproj_phase2", ["fennelproj"], []),
    "slurm env group": ("SLURM_JOB_GROUP=fennelgrp", ["fennelgrp"], []),
    "slurm env gids": ("SLURM_JOB_GID=50417 SLURM_JOB_UID=50416", ["50417", "50416"], []),
    "slurm env working cluster": ("SLURM_WORKING_CLUSTER=cedarcl:10.8.0.3:6817:9728:109", ["cedarcl", "10.8.0.3"], []),
    "slurm env licenses": ("SLURM_SRUN_COMM_HOST=10.8.0.3", ["10.8.0.3"], []),
    "slurm env task": ("SLURM_TASKS_PER_NODE=8(x2)", [], ["SLURM_TASKS_PER_NODE=8(x2)"]),
    "slurm scontrol show job": ("   UserId=mirabel(50416) GroupId=fennelgrp(50417) MCS_label=N/A", ["mirabel", "fennelgrp", "50416"], []),
    "slurm scontrol command": ("   Command=/gpfs/fennel/mirabel/run.sbatch", ["fennel", "mirabel"], []),
    "slurm scontrol stdout": ("   StdOut=/gpfs/fennel/mirabel/slurm-%j.out", ["fennel", "mirabel"], []),
    "squeue head+row": ("JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n  7718241      gpuq   llamax  mirabel  R      10:11      2 brindle[0101-0102]", ["mirabel", "brindle0", "brindle[", "llamax"], []),
    "sacct row": ("7718241.0    llamax  gpuq  fennelac  64 FAILED 1:0", ["fennelac"], ["FAILED", "1:0"]),
    "slurmd prolog": ("slurmd[brindle0101]: launching job 7718241", ["brindle0101", "7718241"], []),
    "srun auth": ("srun: error: Unable to confirm allocation for job 7718241: Invalid job id specified", ["7718241"], ["Invalid job id"]),
    "srun task exit": ("srun: error: brindle0102: task 9: Exited with exit code 1", ["brindle0102"], ["task 9", "exit code 1"]),
    "pbs id": ("PBS_JOBID=448812.cedarsrv", ["cedarsrv", "448812"], []),
    "pbs nodefile": ("PBS_NODEFILE=/var/spool/pbs/aux/448812.cedarsrv", ["cedarsrv"], []),
    "pbs qstat": ("448812.cedarsrv   llamax   mirabel   00:10:01 R gpuq", ["mirabel", "cedarsrv"], []),
    "lsf hosts": ("LSB_HOSTS=brindle0101 brindle0101 brindle0102", ["brindle0101", "brindle0102"], []),
    "lsf mcpu": ("LSB_MCPU_HOSTS=\"brindle0101 8 copsey7 8\"", ["brindle0101", "copsey7"], []),
    "lsf started": ("<7718> Started 2 Task(s) on Host(s) <8*brindle0101> <8*copsey7>;", ["brindle0101", "copsey7"], []),
    "lsf exec user": ("Job <7718>, User <mirabel>, Project <fennelprj>, Status <EXIT>", ["mirabel", "fennelprj"], ["EXIT"]),
    "flux": ("flux-job: task(s) on brindle0101 exited", ["brindle0101"], []),
    "pmix": ("[brindle0101:04411] PMIX ERROR: PMIX_ERR_UNREACH in file client/pmix_client.c at line 231", ["brindle0101"], ["PMIX_ERR_UNREACH"]),
    "orted": ("[brindle0101:04411] [[31337,0],0] ORTE_ERROR_LOG: Not found in file oob_tcp.c at line 402", ["brindle0101"], ["ORTE_ERROR_LOG"]),
    "orte daemon": ("ORTE was unable to reliably start one or more daemons on node copsey7", ["copsey7"], []),
    "ompi no slots": ("  Node: copsey7   Slots: 8", ["copsey7"], ["Slots"]),
    "ompi btl": ("[copsey7][[31337,1],3][btl_tcp_endpoint.c:626:mca_btl_tcp_endpoint_recv_connect_ack] received unexpected process identifier", ["copsey7"], []),
    "mpich hydra": ("[proxy:0:1@copsey7] HYD_pmcd_pmip_control_cmd_cb (pm/pmiserv/pmip_cb.c:480): assert", ["copsey7"], []),
    "mpich fatal": ("Abort(1091471) on node 3 (rank 3 in comm 0): Fatal error in PMPI_Init_thread", [], ["rank 3", "PMPI_Init_thread"]),
    "intel mpi": ("[0] MPI startup(): 0       4411     brindle0101  {0,1,2,3}", ["brindle0101"], []),
    "mvapich": ("[copsey7:mpi_rank_3][error_sighandler] Caught error: Segmentation fault (signal 11)", ["copsey7"], ["Segmentation fault"]),
    "mpirun prefix": ("[1,3]<stderr>:copsey7:4411:4490 [3] NCCL INFO comm 0x1 rank 3 nranks 8", ["copsey7"], ["rank 3"]),
    "elastic fail": ("  host      : brindle0101.cedar.internal", ["brindle0101", "cedar.internal"], []),
    "elastic error file": ("  error_file: /scratch2/mirabel/torchelastic_ab12cd/none_xy/attempt_0/3/error.json", ["mirabel", "scratch2"], []),
    "elastic agent id": ("[E] failed (exitcode: -6) local_rank: 3 (pid: 4411) of binary: /gpfs/fennel/envs/bin/python", ["fennel"], ["exitcode: -6", "local_rank: 3"]),
    "elastic rdzv backend": ("The node 'copsey7.cedar.internal_4411_0' has joined round 0 of the rendezvous 'fennelrun' as rank 0", ["copsey7", "fennelrun"], ["round 0", "rank 0"]),
    "elastic sig": ("Received Signals.SIGTERM death signal, shutting down workers", [], ["SIGTERM"]),
    "ds hostfile": ("copsey7 slots=8", ["copsey7"], ["slots=8"]),
    "ds runner": ("[2026-01-01 10:00:00,000] [INFO] [multinode_runner.py:72:get_cmd] Running on the following workers: copsey7,copsey8", ["copsey7", "copsey8"], []),
    "ds master": ("[INFO] [launch.py:145:main] nnodes=2, num_local_procs=8, node_rank=0 WORLD INFO DICT: {'copsey7': [0, 1], 'copsex9': [0, 1]}", ["copsey7", "copsex9"], ["nnodes=2"]),
    "pdsh exit": ("pdsh@copsey7: brindle0101: ssh exited with exit code 1", ["copsey7", "brindle0101"], []),
    "lightning save": ("Epoch 0: 3%| | 12/400 [v_num=8xk2] ckpt: /lustre/fennel/mirabel/last.ckpt", ["fennel", "mirabel"], ["12/400"]),
    "hf model": ("Loading model quillvane/heron-70b-instruct", ["quillvane"], []),
    "hf path": ("model_name_or_path: quillvane/heron-70b", ["quillvane"], []),
    "hf cache": ("/gpfs/hf/hub/models--quillvane--heron-70b/snapshots/0123456789abcdef0123456789abcdef01234567", ["quillvane", "heron"], []),
    "megatron args": ("  tensorboard_dir ................................. /fsx/fennel/tb", ["fennel"], []),
    "megatron args2": ("  data_path ....................................... ['/fsx/fennelds/x_text']", ["fennelds"], []),
    "wandb view": ("wandb: 🚀 View run at https://quillvane.wandb.io/fennelteam/heronproj/runs/8xk2ab9c", ["quillvane", "fennelteam", "heronproj"], []),
    "wandb entity": ("wandb: Currently logged in as: mirabel (fennelteam). Use `wandb login --relogin`", ["mirabel", "fennelteam"], []),
    "wandb tracking": ("wandb: Tracking run with wandb version 0.17.4", [], ["0.17.4"]),
    "mlflow exp": ("mlflow.exceptions.RestException: RESOURCE_DOES_NOT_EXIST: No Experiment with name=/Users/mirabel@quillvane.dev/heron exists", ["mirabel", "quillvane"], []),
    "neptune": ("https://app.neptune.ai/o/quillvane/org/heronproj/e/HER-12", ["quillvane", "heronproj"], []),
    "comet": ("COMET INFO: Experiment is live on comet.com https://www.comet.com/quillvane/heronproj/8f2a", ["quillvane", "heronproj"], []),
    "aws imds": ("{\"accountId\" : \"448812345678\", \"instanceId\" : \"i-0f1e2d3c4b5a69788\", \"privateIp\" : \"10.64.3.9\", \"instanceType\" : \"p5.48xlarge\"}", ["448812345678", "0f1e2d3c4b5a69788", "10.64.3.9"], ["p5.48xlarge"]),
    "aws sagemaker": ("SM_CURRENT_HOST=algo-1 TRAINING_JOB_ARN=arn:aws:sagemaker:us-west-2:448812345678:training-job/heronjob-1", ["448812345678", "heronjob"], []),
    "aws fsx": ("mount.lustre: fs-0f1e2d3c4b5a69788.fsx.us-west-2.amazonaws.com@tcp:/fennelmt at /fsx", ["0f1e2d3c4b5a69788"], []),
    "aws public dns": ("ec2-54-201-17-33.us-west-2.compute.amazonaws.com", ["54-201-17-33"], []),
    "aws batch": ("AWS_BATCH_JOB_ID=3b9c7d51-aa02-4f0f-9f53-0a11bb22cc33 AWS_BATCH_JQ_NAME=fennelq AWS_BATCH_CE_NAME=fennelce", ["3b9c7d51", "fennelq", "fennelce"], []),
    "gcp meta": ("projects/448812345678/zones/us-central1-a/machineTypes/a3-megagpu-8g", ["448812345678"], ["a3-megagpu-8g", "us-central1-a"]),
    "gcp inst": ("instance/name: heronvm-a3-004 instance/id: 4488123456789012345", ["heronvm", "4488123456789012345"], []),
    "gcp vertex": ("CLUSTER_SPEC={\"cluster\":{\"workerpool0\":[\"cmle-training-workerpool0-44ab12cd34-0:2222\"]}}", ["44ab12cd34"], []),
    "gcp bucketfuse": ("gcsfuse: Mounting file system \"fennelbkt\" at /mnt/fennelbkt", ["fennelbkt"], []),
    "azure imds": ("{\"compute\":{\"name\":\"heronvm\",\"resourceGroupName\":\"fennelrg\",\"vmSize\":\"Standard_ND96isr_H100_v5\",\"vmScaleSetName\":\"heronss\",\"subscriptionId\":\"3b9c7d51-aa02-4f0f-9f53-0a11bb22cc33\"}}", ["heronvm", "fennelrg", "heronss", "3b9c7d51"], ["Standard_ND96isr_H100_v5"]),
    "azureml": ("AZUREML_ARM_WORKSPACE_NAME=fennelws AZUREML_ARM_RESOURCEGROUP=fennelrg AZUREML_RUN_ID=heron_123_4f", ["fennelws", "fennelrg", "heron_123"], []),
    "oci imds": ("\"compartmentId\" : \"ocid1.compartment.oc1..aaaaaaaafennelxyz23456\", \"shape\" : \"BM.GPU.H100.8\"", ["aaaaaaaafennelxyz"], ["BM.GPU.H100.8"]),
    "oci inst": ("ocid1.instance.oc1.phx.anyhqljtfennelabcdefgh234567", ["anyhqljtfennel"], []),
    "oci host": ("\"hostname\" : \"heronbm\", \"displayName\" : \"fennel-bm-3\"", ["heronbm", "fennel-bm"], []),
    "ofi dest": ("libfabric:4411:1700000000::efa:cq:efa_rdm_cq_handle_error():200<warn> peer fi_addr_efa://[fe80::4cb:3ff:fe11:2233]:12:1700 My EFA addr", ["fe80::4cb"], []),
    "efa device arn": ("rdmap16s27 GID fe80:0000:0000:0000:04cb:03ff:fe11:2233", ["04cb:03ff", "fe11:2233"], ["rdmap16s27"]),
    "ibdiagnet": ("-E- Link: S1070fd0300a2b4c6/Nqm8700cab3/P12<-->Hb83fd20300c7d2a4/Nbrindle0101/mlx5_3/P1", ["1070fd0300a2b4c6", "b83fd20300c7d2a4", "brindle0101"], ["P12"]),
    "iblinkinfo": ("CA: brindle0101 mlx5_3:\n      0xb83fd20300c7d2a4    112    1[  ] ==( 4X 106.25 Gbps Active/  LinkUp)==>      57   12[  ] \"MF0;qmcab3:MQM8700/U1\" ( )", ["brindle0101", "b83fd20300c7d2a4", "qmcab3"], ["106.25 Gbps"]),
    "ibv_devinfo": ("\tnode_guid:\t\t\tb83f:d203:00c7:d2a4", ["b83f:d203"], []),
    "ibv board": ("\tboard_id:\t\t\tMT_0000000838\n\tvendor_part_id:\t\t4129\n\tfw_ver:\t\t\t28.39.1002", [], ["28.39.1002", "MT_0000000838"]),
    "show_gids": ("mlx5_3\t1\t3\t0000:0000:0000:0000:0000:ffff:0a40:0309\t10.64.3.9\tv2\tens9f0", ["0a40:0309", "10.64.3.9"], ["mlx5_3", "ens9f0"]),
    "mst": ("MST: /dev/mst/mt4129_pciconf0 SN: MT2231X12345 PN: MCX75310AAS-NEAT", ["MT2231X12345"], ["mt4129_pciconf0"]),
    "mlxlink cable": ("Vendor Serial Number               : MT2219VS01234", ["MT2219VS01234"], []),
    "ethtool": ("Permanent address: b8:3f:d2:c7:d2:a4", ["b8:3f:d2"], []),
    "ip addr": ("    inet6 fd00:44:12::9/64 scope global dynamic mngtmpaddr", ["fd00:44:12"], []),
    "ip zone": ("connect to fe80::ba3f:d2ff:fec7:d2a4%ens9f0 port 29500: No route to host", ["fe80::ba3f", "fec7:d2a4"], ["ens9f0"]),
    "lldp": ("    SysName:      leafsw-cab3.quillvane.net", ["leafsw", "quillvane"], []),
    "dmesg xid": ("[12345.678901] NVRM: Xid (PCI:0000:4e:00): 79, pid=4411, name=python3, GPU has fallen off the bus.", [], ["PCI:0000:4e:00", "79", "python3"]),
    "journal": ("Nov 20 10:00:01 brindle0101 kernel: NVRM: GPU at PCI:0000:4e:00: GPU-3b9c7d51-aa02-4f0f-9f53-0a11bb22cc33", ["brindle0101", "3b9c7d51"], ["PCI:0000:4e:00"]),
    "nvrm serial": ("NVRM: GPU Board Serial Number: 1654023012345", ["1654023012345"], []),
    "journal sshd": ("Nov 20 10:00:01 brindle0101 sshd[881]: Accepted publickey for mirabel from 10.64.3.9 port 50122 ssh2", ["mirabel", "brindle0101", "10.64.3.9"], []),
    "journal sudo": ("Nov 20 10:00:01 brindle0101 sudo:  mirabel : TTY=pts/0 ; PWD=/home/mirabel ; USER=root ; COMMAND=/usr/bin/nvidia-smi", ["mirabel"], ["nvidia-smi"]),
    "smi row": ("|    0   N/A  N/A      4411      C   /gpfs/fennel/envs/bin/python                        81002MiB |", ["fennel"], ["81002MiB"]),
    "smi L": ("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-3b9c7d51-aa02-4f0f-9f53-0a11bb22cc33)", ["3b9c7d51"], ["NVIDIA H100 80GB HBM3"]),
    "smi q": ("    Serial Number                         : 1654023012345\n    GPU Part Number                       : 2330-885-A1\n    VBIOS Version                         : 96.00.74.00.01", ["1654023012345"], ["96.00.74.00.01"]),
    "smi csv": ("0, NVIDIA H100 80GB HBM3, 1654023012345, GPU-3b9c7d51-aa02-4f0f-9f53-0a11bb22cc33, 00000000:4E:00.0", ["3b9c7d51"], ["00000000:4E:00.0"]),
    "dmidecode": ("        Serial Number: J1050ABC\n        Product Name: DGXH100", ["J1050ABC"], ["DGXH100"]),
    "nvme list": ("/dev/nvme0n1     /dev/ng0n1      S64GNX0T412345       SAMSUNG MZQL23T8HCLS-00A07  1    3.84 TB", ["S64GNX0T412345"], []),
    "smartctl": ("Serial Number:    S64GNX0T412345", ["S64GNX0T412345"], []),
    "hostnamectl": ("   Static hostname: brindle0101\n        Machine ID: 0f1e2d3c4b5a69788796a5b4c3d2e1f0\n           Boot ID: aa1e2d3c4b5a69788796a5b4c3d2e1f0", ["brindle0101", "0f1e2d3c4b5a6978", "aa1e2d3c4b5a6978"], []),
    "uname": ("Linux brindle0101 5.15.0-105-generic #115-Ubuntu SMP x86_64 GNU/Linux", ["brindle0101"], ["5.15.0-105-generic"]),
    "docker run vol": ("docker run --gpus all -v /gpfs/fennel:/data -e WANDB_API_KEY=aabbccddeeff00112233445566778899aabbccdd quillvane/heron:2", ["fennel", "aabbccddeeff0011", "quillvane"], ["--gpus all"]),
    "docker ps": ("0f1e2d3c4b5a   quillvane/heron:2   \"python train.py\"   2 hours ago   Up 2 hours   heron-cont", ["0f1e2d3c4b5a", "quillvane", "heron-cont"], []),
    "docker err": ("Error response from daemon: pull access denied for quillvane/heron, repository does not exist", ["quillvane"], []),
    "enroot": ("enroot-import: [INFO] Querying registry for permission grant docker://quillvane@registry.fennel.dev/heron:2", ["quillvane", "fennel"], []),
    "pyxis": ("pyxis: imported docker image: quillvane/heron:2", ["quillvane"], []),
    "pyxis2": ("srun --container-image=/gpfs/fennel/heron.sqsh --container-mounts=/gpfs/fennel:/data --container-name=heronc", ["fennel", "heronc"], []),
    "singularity": ("INFO:    Using cached SIF image\nsingularity exec --nv library://quillvane/default/heron:latest python", ["quillvane"], ["--nv"]),
    "apptainer": ("apptainer run docker://ghcr.io/quillvane/heron:2", ["quillvane"], []),
    "cgroup": ("0::/system.slice/docker-0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0.scope", ["0f1e2d3c4b5a6978"], []),
    "cgroup slurm": ("1:name=systemd:/slurm_brindle0101/uid_50416/job_7718241/step_0", ["brindle0101", "50416", "7718241"], []),
    "ssh key file": ("debug1: Offering public key: /home/mirabel/.ssh/id_ed25519 ED25519 SHA256:mX1vQ2k3rT4u5W6y7Z8a9B0c1D2e3F4g5H6i7J8k9L0", ["mirabel", "mX1vQ2k3"], []),
    "ssh auth": ("debug1: Authenticating to copsey7:22 as 'mirabel'", ["copsey7", "mirabel"], []),
    "ssh host key": ("Host key verification failed.\r\nOffending ECDSA key in /home/mirabel/.ssh/known_hosts:14", ["mirabel"], ["Host key verification failed"]),
    "ssh resolve": ("ssh: Could not resolve hostname copsey7: Name or service not known", ["copsey7"], ["Name or service not known"]),
    "scp": ("scp mirabel@copsey7:/gpfs/x /tmp/y", ["mirabel", "copsey7"], []),
    "traceback": ("  File \"/gpfs/fennel/mirabel/heron/train.py\", line 41, in main", ["fennel", "mirabel"], ["line 41", "in main"]),
    "traceback conda": ("  File \"/home/mirabel/miniconda3/envs/heron/lib/python3.10/site-packages/torch/distributed/distributed_c10d.py\", line 1234, in wrapper", ["mirabel"], ["distributed_c10d.py", "line 1234"]),
    "sys.argv": ("Namespace(exp_name='fennelexp', data_dir='/gpfs/fennel', user='mirabel', seed=3)", ["fennel", "mirabel"], ["seed=3"]),
    "env repr": ("environ({'USER': 'mirabel', 'HOME': '/home/mirabel', 'SSH_CLIENT': '10.64.3.9 50122 22', 'MAIL': '/var/mail/mirabel'})", ["mirabel", "10.64.3.9"], []),
    "windows": ("File \"C:\\Users\\mirabel\\heron\\train.py\", line 3", ["mirabel"], ["line 3"]),
    "unc": ("OSError: \\\\quillsrv\\fennelshare\\ds not found", ["quillsrv", "fennelshare"], []),
    "url creds": ("git clone https://mirabel:ghp_0123456789abcdefABCDEF0123456789abcd@git.quillvane.dev/fennel/heron.git", ["mirabel", "ghp_0123", "quillvane", "fennel"], []),
    "clone into": ("Cloning into 'heronrepo'...", ["heronrepo"], []),
    "presigned": ("https://fennelbkt.s3.us-west-2.amazonaws.com/ds/x?X-Amz-Credential=AKIAQWERTYUIOPASDFGH%2F20260101&X-Amz-Signature=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", ["fennelbkt", "AKIAQWERTY", "0123456789abcdef0123"], []),
    "azure sas": ("https://fennelacct.blob.core.windows.net/ds?sv=2023&sig=aBcD1234efGh5678%3D", ["fennelacct", "aBcD1234"], []),
    "jwt": ("Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJtaXJhYmVsIn0.abcdefghijklmnop", ["eyJhbGci", "eyJzdWIi"], []),
    "jwt plain": ("token rejected eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJtaXJhYmVsIn0.abcdefghijklmnop", ["eyJzdWIi"], []),
    "redis": ("redis://:fennelpass1@copsey7:6379/0", ["fennelpass1", "copsey7"], []),
    "mongodb": ("mongodb+srv://mirabel:fennelpw99@cluster0.ab1cd.mongodb.net/x", ["mirabel", "fennelpw99"], []),
    "proxy env": ("HTTPS_PROXY=http://mirabel:fennelpw99@proxy.quillvane.net:3128", ["mirabel", "fennelpw99", "quillvane"], []),
    "openai": ("OPENAI_API_KEY=sk-proj-abcdEFGH1234567890abcd", ["sk-proj-abcd"], []),
    "aws keys": ("aws_access_key_id = AKIAQWERTYUIOPASDFGH\naws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ["AKIAQWERTY", "wJalrXUtn"], []),
    "docker auth": ("{\"auths\":{\"registry.quillvane.dev\":{\"auth\":\"bWlyYWJlbDpmZW5uZWxwdw==\"}}}", ["quillvane", "bWlyYWJl"], []),
    "ray autoscaler": ("(autoscaler +1m2s) Tip: node copsey7 has failed", ["copsey7"], []),
    "ray node died": ("(raylet) node_id=0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4, ip = 10.64.3.9, Node Name = copsey7", ["0f1e2d3c4b5a6978", "10.64.3.9", "copsey7"], []),
    "ray actor": ("(TrainWorker pid=4411, ip=10.64.3.9) copsey7:4411:4490 [0] NCCL INFO Bootstrap: Using eth0:10.64.3.9<0>", ["10.64.3.9", "copsey7"], ["Bootstrap: Using eth0", "TrainWorker"]),
    "ray dash": ("View the dashboard at http://copsey7:8265", ["copsey7"], []),
    "ray job": ("Job 'raysubmit_AbCdEfGh12345678' submitted successfully by mirabel", ["raysubmit_AbCdEf"], []),
    "ray cluster": ("cluster=cedarcl", ["cedarcl"], []),
    "prom": ("nccl_up{cluster=\"cedarcl\",instance=\"copsey7:9400\",job=\"dcgm\",Hostname=\"copsey7\"} 1", ["cedarcl", "copsey7"], []),
    "datadog tags": ("tags: [env:prod, team:fennelgrp, host:copsey7, cluster_name:cedarcl]", ["fennelgrp", "copsey7", "cedarcl"], []),
    "syslog rfc5424": ("<134>1 2026-01-01T10:00:00Z copsey7 heronapp 4411 - - started", ["copsey7"], []),
    "loki": ("{app=\"heron\", node=\"copsey7\", namespace=\"fennelns\"} NCCL INFO x", ["copsey7", "fennelns"], []),
    "kerberos": ("kinit: Client 'mirabel@QUILLVANE.DEV' not found in Kerberos database", ["mirabel", "QUILLVANE"], []),
    "nfs": ("nfs: server fenneltnas not responding, still trying", ["fenneltnas"], ["not responding"]),
    "lustre": ("LustreError: 11-0: fennelfs-OST0003-osc-ffff9a: operation ost_connect to node 10.64.3.9@o2ib failed", ["fennelfs", "10.64.3.9"], []),
    "lustre client": ("Lustre: fennelfs-MDT0000-mdc-ffff: Connection to fennelfs-MDT0000 (at 10.64.3.9@o2ib) was lost", ["10.64.3.9", "fennelfs"], []),
    "gpfs": ("mmfs: [E] Lost membership in cluster cedarcl.quillvane. Unmounting file systems.", ["cedarcl", "quillvane"], []),
    "email": ("#SBATCH --mail-user=mirabel@quillvane.dev", ["mirabel", "quillvane"], []),
    "whoami id": ("uid=50416(mirabel) gid=50417(fennelgrp) groups=50417(fennelgrp),27(sudo)", ["mirabel", "fennelgrp"], []),
    "prompt": ("(heron) mirabel@copsey7:/gpfs/fennel$ ./run.sh", ["mirabel", "copsey7", "fennel"], []),
    "ls -l": ("-rw-r--r-- 1 mirabel fennelgrp 4096 Nov 20 10:00 core.4411", ["mirabel", "fennelgrp"], ["4096"]),
    "ps": ("mirabel    4411  0.0  0.1 python train.py", ["mirabel"], []),
    "top": ("   4411 mirabel   20   0   41.2g   3.1g S  99.0 python", ["mirabel"], ["99.0"]),
    "lsof": ("python  4411 mirabel  mem REG 259,1 /gpfs/fennel/libx.so", ["mirabel", "fennel"], []),
    "df": ("copsenas:/vol/fennel  9.1T  3.0T  6.1T  33% /mnt/fennel", ["copsenas", "fennel"], ["9.1T", "33%"]),
    "module": ("module load heronmod/1.2 --modulepath /gpfs/fennel/modules", ["fennel"], []),
    "nccl ifname": ("h1:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to ^docker0,lo,ens9f0", [], ["NCCL_SOCKET_IFNAME", "^docker0,lo,ens9f0"]),
    "nccl hca": ("h1:1:2 [0] NCCL INFO NCCL_IB_HCA set by environment to =mlx5_0:1,mlx5_3:1", [], ["=mlx5_0:1,mlx5_3:1"]),
    "nccl algo": ("h1:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Ring,Tree;allreduce:NVLSTree", [], ["Ring,Tree", "NVLSTree"]),
    "nccl version": ("h1:1:2 [0] NCCL INFO NCCL version 2.27.7+cuda12.8", [], ["NCCL version 2.27.7+cuda12.8"]),
    "nccl bus": ("h1:1:2 [0] NCCL INFO ncclCommInitRank comm 0x55a1 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 4e000 commId 0x1f2e3d4c5b6a7988 - Init START", [], ["busId 4e000", "cudaDev 0", "nranks 8", "commId 0x1f2e3d4c5b6a7988"]),
    "nccl ib": ("h1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_bond_0:1/RoCE [RO]; OOB bond0:10.64.3.9<0>", ["10.64.3.9"], ["[0]mlx5_0:1/IB/SHARP", "[1]mlx5_bond_0:1/RoCE", "OOB bond0:"]),
    "nccl plugin": ("h1:1:2 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.14.0 Libfabric provider efa", [], ["aws-ofi-nccl 1.14.0", "efa"]),
    "nccl graph": ("h1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read", [], ["Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"]),
    "nccl warn": ("h1:1:2 [0] transport/net_ib.cc:1333 NCCL WARN NET/IB: Got completion from peer 10.64.3.9<53121> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 req_type=Send localGid fe80::ba3f:d2ff:fec7:d2a4 remoteGids fe80::ba3f:d2ff:fec7:d2a5 hca mlx5_3", ["10.64.3.9", "fec7:d2a4", "fec7:d2a5"], ["net_ib.cc:1333", "IBV_WC_RETRY_EXC_ERR(12)", "vendor_err=129", "hca mlx5_3"]),
    "topo xml": ("<pci busid=\"0000:4e:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">", [], ["busid=\"0000:4e:00.0\"", "32.0 GT/s PCIe"]),
    "topo nic": ("<net name=\"mlx5_3\" dev=\"3\" speed=\"400000\" port=\"1\" guid=\"0xa4d2c70003d23fb8\" maxconn=\"131072\" gdr=\"1\"/>", ["a4d2c70003d23fb8"], ["mlx5_3", "400000"]),
    "wd": ("[rank3]:[E ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600123 milliseconds before timing out.", [], ["SeqNum=41", "OpType=ALLREDUCE", "Timeout(ms)=600000"]),
    "nccl-tests": ("#  Rank  0 Group  0 Pid   4411 on    copsey7 device  0 [0000:4e:00] NVIDIA H100 80GB HBM3", ["copsey7"], ["NVIDIA H100 80GB HBM3", "[0000:4e:00]"]),
    "smi topo": ("GPU0\t X \tNV18\tSYS\tPXB\t0-47\t0\t\tN/A", [], ["NV18", "PXB", "0-47"]),
    "env file": ("NCCL_TOPO_FILE set by environment to /opt/amazon/ofi-nccl/share/aws-ofi-nccl/xml/p5.48xl-topo.xml", [], ["/opt/amazon/ofi-nccl"]),
    "iter": ("iteration 100/ 5000 | elapsed time per iteration (ms): 812.3 | learning rate: 1.5E-04 | loss scale: 1.0", [], ["812.3", "1.5E-04"]),
    "fraction": ("loss 2.31 acc 0.7/0.8 tokens/s 4411/gpu", [], ["0.7/0.8", "tokens/s"]),
    "ratio words": ("all_reduce/all_gather overlap fwd/bwd send/recv", [], ["fwd/bwd", "send/recv", "all_reduce/all_gather"]),
    "user word": ("user buffer registration is enabled; user specified NCCL_NET_GDR_LEVEL", [], ["user buffer registration", "user specified"]),
    "node count": ("node 3: 8 GPUs, nodes 2, on node 0", [], ["node 3", "8 GPUs", "nodes 2"]),
    "image word": ("image size 224x224, image: 512", [], ["224x224"]),
}  # fmt: skip
# The names in the lines that say nothing else, for which others may stand.
NAMES = re.compile(
    r"brindle|copse|quillvane|fennel|mirabel|heron|cedar|quokka|tamarack|gravel|llama|harbor|brindlenode"
)


def redacted(line: str) -> str:
    return collect(build_run({}), [line + "\n"]).text(line + "\n")[:-1]


@pytest.mark.parametrize("kind", LINES)
def test_names_go_and_facts_stay(kind: str) -> None:
    line, gone, stays = LINES[kind]
    shown = redacted(line)
    assert [part for part in gone if part.lower() in shown.lower()] == [], shown
    assert [part for part in stays if part not in shown] == [], shown


@pytest.mark.parametrize("seed", [1, 2])
def test_other_names_go_too(seed: int) -> None:
    draw = random.Random(seed)
    others: dict[str, str] = {}

    def other(match: re.Match[str]) -> str:
        return others.setdefault(match[0], "zq" + "".join(draw.choices("bcdfghjkmprtvz", k=6)))

    left = []
    for kind, (line, gone, _) in LINES.items():
        shown = redacted(NAMES.sub(other, line))
        left += [
            (kind, part, shown)
            for part in (NAMES.sub(other, g) for g in gone)
            if part.lower() in shown.lower()
        ]
    assert left == []


def test_rows_of_tables_are_learned_among_other_lines() -> None:
    log = "h1:1:1 [0] NCCL INFO Using network IB\n" * 3000
    table = "  7718241      gpuq   zqmodel  zquser  R      10:11      2 zqnode[0101-0102]\n"
    shown = collect(build_run({}), [log + table + log]).text(log + table + log + "zquser began zqmodel\n")
    assert "zquser" not in shown
    assert "zqmodel" not in shown
    assert "zqnode" not in shown
