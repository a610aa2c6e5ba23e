"""What the job runs over: GPUs, NVLink, NICs, networks, their health, and the paths that traffic takes."""
