"""What the proxy is told to do: the keys that its file may have, and the options that come of them. Pure."""
