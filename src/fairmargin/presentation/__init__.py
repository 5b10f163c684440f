"""Format what people read: names, numbers, p-values and intervals. Knows no analysis and draws nothing."""
