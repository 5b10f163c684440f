"""Training: the methods of the papers as rows of one table, and the loop that all of them share."""
