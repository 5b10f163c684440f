"""Fairmargin: is a classifier equally hard to fool for everyone?"""
