"""Proxies for the distance, one file each: numbers that bound it on neither side."""
