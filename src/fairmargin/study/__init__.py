"""What a run is asked and what it found: options, studies, records and run folders. Loads no torch."""
