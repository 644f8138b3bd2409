from hypothesis import HealthCheck, settings

# No test depends on the speed of the machine: an example has no deadline, and data may be slow.
settings.register_profile("seglog", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("seglog")
