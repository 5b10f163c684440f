"""Studies of many networks: numbers over seeds, methods and epochs, the sentences about them, and their sections."""
