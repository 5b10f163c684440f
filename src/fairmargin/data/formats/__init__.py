"""Read samples from tables, images, other file formats and the objects of other libraries."""
