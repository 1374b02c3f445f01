# SPDX-License-Identifier: Apache-2.0
"""Configuration files of the Slurm rig."""

# Without the two NoInAddrAny the daemons listen on every interface. There are no cgroups in a container, so a
# job's processes are found by their parent's id. batch_sched_delay: jobs start at once, not after 3 s.
# config_overrides: the node says it has so many CPUs, whatever the machine has.
SLURM_CONF = """\
ClusterName=joblog
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/spool/slurmctld.pid
SlurmdPidFile={folder}/spool/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0
KillWait=5
JobRequeue=1
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""

# MaxSessions and MaxStartups are the defaults of a real login node, written out. HOME: the rc files of the
# session are the rig's own. sshd takes the first SetEnv line only, so all variables stand on one.
SSHD_CONFIG = """\
ListenAddress 127.0.0.1
Port {ssh_port}
HostKey {folder}/ssh/host_key
AuthorizedKeysFile {folder}/ssh/authorized_keys
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd no
LogLevel VERBOSE
MaxSessions 10
MaxStartups 10:30:100
SetEnv SLURM_CONF={folder}/etc/slurm.conf HOME={folder}/home
"""

SSH_CONFIG = """\
Host login
  HostName 127.0.0.1
  Port {ssh_port}
  User root
  IdentityFile {folder}/ssh/client_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/ssh/known_hosts
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
  BatchMode yes
"""
