"""The gate before a job: checks of the node, a short collective, expectations. Changes nothing on the node."""
