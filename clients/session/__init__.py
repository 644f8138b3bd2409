"""What a client decides, without I/O: the asyncio clients and the blocking ones stand on it.

Nothing here sends, waits or looks at a clock: time is an argument, and what comes back says what to
do. ``seglog.clients`` has the shell for an event loop, ``seglog.clients.sockets`` the one for
threads.
"""
