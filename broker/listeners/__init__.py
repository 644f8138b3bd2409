"""Sockets: connections, what goes in and out of them, and the HTTP side for operators."""
