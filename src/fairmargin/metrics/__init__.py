"""Pure functions of distances and groups: how robust is each group, and is it less so than the rest?"""
