"""Several models' scores as one."""
