"""Find, download and cache the files of datasets."""
