"""What all papers use: claims, parts, the page, the run, and pictures."""
