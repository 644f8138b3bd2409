# Encoding, decoding and validating the records area of a batch.
