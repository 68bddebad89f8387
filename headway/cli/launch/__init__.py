"""headway launch: a job on local, remote, Slurm's or Kubernetes' hosts, one file for each kind of target."""
