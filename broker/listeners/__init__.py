"""Sockets: connections, their input and output, and the HTTP side for operators."""
