"""The datasets of the catalog, one file per dataset."""
