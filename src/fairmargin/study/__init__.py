"""Options, studies, records and folders of runs. Does not load torch."""
