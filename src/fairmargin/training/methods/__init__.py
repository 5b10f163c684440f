"""The training methods of the catalog."""
