"""Floor 3: what to do about what the reader says.

Pure and blind to protocols: text in, labelled text out, facts tallied.
"""
