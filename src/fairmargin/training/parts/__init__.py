"""The parts of training methods: losses, aggregates, adversaries and controllers."""
