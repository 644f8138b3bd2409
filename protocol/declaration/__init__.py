"""How a request or response is declared: once, as a typed class, for both dialects.

``shape`` makes the class, the functions of ``fields`` say of each field what it is on the wire,
``operation`` joins a request and a response. Everything else follows from these: ``layout`` gives
the fields in the order of Kafka's wire to its compilers, the native dialect packs the same class as
an array, and ``refusal`` says no to a whole request.
"""
