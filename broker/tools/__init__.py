"""Offline tools of ``seglogd``: they read the files of a broker and never write."""
