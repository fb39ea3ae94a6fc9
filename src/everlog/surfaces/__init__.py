"""Where people and programs meet Everlog from outside: the command line, the proxy before any model, the log over HTTP, and
the settings that they share.

Comes in: arguments, environment, files named by the user, requests. Goes out: calls of the library, and its answers as
text or JSON. What a surface shows is the library's; it holds no rule of its own about conversations, and nothing in the library
imports it. The environment is read in `config.py`, `models.py` and `proxy/running.py` only.
"""
