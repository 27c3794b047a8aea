"""How the jobs of a load end: what their topics say, and from which attempt on everybody reports success."""
RETRY = [100, 300]       # ms
ACK_SECONDS = 2
LAST_WORD = 4            # from this attempt on a consumer reports success, so that every job ends
